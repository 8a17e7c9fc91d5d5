//! Read-side critical sections, grace periods and deferred callbacks, as steps of a random
//! [`program`](crate::program).

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use stillpoint::Domain;
use stillpoint::rcu::{GracePeriod, Rcu, Retired};

use crate::program::System;

const CELLS: usize = 2;
/// The most guards, and the most cookies, that a thread has at once.
pub const MOST: usize = 4;

/// Set when a callback has run or a value has been dropped.
pub type Flag = Arc<AtomicBool>;

/// Numbers select a cell, or one of the guards or cookies that the thread has.
#[derive(Debug, Clone)]
pub enum Op {
    Enter,
    Leave(usize),
    /// Loads from a cell with a guard.
    Load(usize, usize),
    /// Reads all values that the thread has loaded.
    Read,
    /// Ends all loads of a guard.
    Renew(usize),
    /// The same, and lets grace periods pass for a while.
    Offline(usize),
    /// Gives a guard to any thread.
    Give(usize),
    Take,
    Replace(usize),
    ReplaceAndWait(usize),
    Retire,
    Call,
    Synchronize,
    Barrier,
    TakeCookie,
    Start,
    Poll(usize),
    Wait(usize),
    WaitTimeout(usize),
    ReadInNewThread(usize),
}

pub fn ops() -> impl Strategy<Value = Op> {
    use Op::*;
    let (cell, any) = (0..CELLS, 0..MOST);
    prop_oneof![
        5 => Just(Enter),
        4 => any.clone().prop_map(Leave),
        4 => (cell.clone(), any.clone()).prop_map(|(cell, guard)| Load(cell, guard)),
        2 => Just(Read),
        2 => any.clone().prop_map(Renew),
        1 => any.clone().prop_map(Offline),
        2 => any.clone().prop_map(Give),
        2 => Just(Take),
        4 => cell.clone().prop_map(Replace),
        2 => cell.clone().prop_map(ReplaceAndWait),
        1 => Just(Retire),
        2 => Just(Call),
        3 => Just(Synchronize),
        1 => Just(Barrier),
        2 => Just(TakeCookie),
        1 => Just(Start),
        2 => any.clone().prop_map(Poll),
        1 => any.clone().prop_map(Wait),
        1 => any.prop_map(WaitTimeout),
        1 => cell.prop_map(ReadInNewThread),
    ]
}

/// The result of a step.
#[derive(Debug)]
pub enum Seen {
    Nothing,
    /// The callback, or drop, must follow a grace period.
    Deferred(Flag),
    /// Whether a grace period has elapsed.
    Elapsed(bool),
}

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sections {
    /// All guards of a thread form one.
    Nested,
    /// Each guard is one.
    Many,
    /// Each guard is one, and a thread has at most one.
    One,
}

/// How a flavour is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Waits return at once.
    Wait,
    /// Callbacks run at once.
    Call,
    /// Values are dropped at once.
    Retire,
}

/// A flavour of domains.
pub trait Flavor: Sync + 'static {
    type Domain: Domain<Hazards = ()>;
    type Guard: 'static;

    const SECTIONS: Sections;

    fn new() -> Self;
    fn domain(&self) -> Self::Domain;
    fn enter(&self) -> Self::Guard;
    fn section(guard: &Self::Guard) -> &<Self::Domain as Domain>::Section;
    /// Ends all loads of the guard, if the flavour can.
    fn renew(_guard: &mut Self::Guard) {}

    /// The same, while `f` runs.
    fn offline(guard: &mut Self::Guard, f: impl FnOnce()) {
        Self::renew(guard);
        f();
    }

    /// Gives a guard to any thread, or returns it if the flavour cannot.
    fn give(&self, held: Held<Self::Guard>) -> Option<Held<Self::Guard>> {
        Some(held)
    }

    fn take(&self) -> Option<Held<Self::Guard>> {
        None
    }
}

/// A value that records its drop.
#[derive(Debug)]
pub struct Value {
    number: usize,
    dropped: Flag,
    drops: Arc<AtomicUsize>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Relaxed);
        assert!(!self.dropped.swap(true, AcqRel), "a value is dropped twice");
    }
}

/// A loaded value, which may be read until its guard is dropped or renewed.
struct Loaded {
    value: NonNull<Value>,
    number: usize,
    dropped: Flag,
}

// SAFETY: threads share the value (`Value: Sync`).
unsafe impl Send for Loaded {}

impl Loaded {
    fn new(value: &Value) -> Self {
        Self { value: NonNull::from(value), number: value.number, dropped: value.dropped.clone() }
    }

    fn read(&self) {
        assert!(!self.dropped.load(Acquire), "a value is dropped while it is read");
        // SAFETY: the value has just been seen not to be dropped; whether it stays is what is tested.
        assert_eq!(unsafe { self.value.as_ref() }.number, self.number);
    }
}

/// A guard and its loads.
pub struct Held<G> {
    loaded: Vec<Loaded>,
    guard: G,
}

/// A domain, and cells that programs load from and replace.
pub struct TestSystem<K: Flavor> {
    flavor: K,
    cells: [Rcu<Value, K::Domain>; CELLS],
    made: AtomicUsize,
    drops: Arc<AtomicUsize>,
    broken: Option<Broken>,
    /// The program runs freely: no model keeps its waits from deadlocking.
    free: bool,
}

impl<K: Flavor> TestSystem<K> {
    pub fn new(free: bool, broken: Option<Broken>) -> Self {
        let (flavor, drops) = (K::new(), Arc::default());
        let value = |number| Value { number, dropped: Arc::default(), drops: Arc::clone(&drops) };
        let cells = [0, 1].map(|number| Rcu::new_in(value(number), flavor.domain()));
        Self { flavor, cells, made: AtomicUsize::new(CELLS), drops, broken, free }
    }

    fn fresh(&self) -> Value {
        let number = self.made.fetch_add(1, Relaxed);
        Value { number, dropped: Arc::default(), drops: self.drops.clone() }
    }

    fn dispose(&self, old: Retired<Value, K::Domain>) {
        if self.broken == Some(Broken::Retire) {
            old.dropped.store(true, Release);
            // Only loads of a guard refer to it now, and they check the flag first.
            std::mem::forget(old);
        }
    }

    /// Drops the guards that have been given, so that no grace period waits for them.
    fn clear(&self) {
        while self.flavor.take().is_some() {}
    }
}

/// The guards and cookies of a thread.
pub struct ThreadState<'a, K: Flavor> {
    system: &'a TestSystem<K>,
    held: Vec<Held<K::Guard>>,
    cookies: Vec<GracePeriod<K::Domain>>,
}

impl<K: Flavor> ThreadState<'_, K> {
    fn held(&mut self, guard: usize) -> Option<&mut Held<K::Guard>> {
        let count = self.held.len().max(1);
        self.held.get_mut(guard % count)
    }

    fn cookie(&self, cookie: usize) -> Option<&GracePeriod<K::Domain>> {
        self.cookies.get(cookie % self.cookies.len().max(1))
    }

    fn read(&self) {
        self.held.iter().flat_map(|held| &held.loaded).for_each(Loaded::read);
    }
}

impl<K: Flavor> Drop for ThreadState<'_, K> {
    fn drop(&mut self) {
        self.system.clear();
    }
}

impl<K: Flavor> System for TestSystem<K> {
    type Op = Op;
    type Seen = Seen;
    type Local<'a> = ThreadState<'a, K>;

    fn start_thread(&self, _thread: usize) -> ThreadState<'_, K> {
        ThreadState { system: self, held: Vec::new(), cookies: Vec::new() }
    }

    fn run_step<'a>(&'a self, state: &mut ThreadState<'a, K>, op: &Op) -> Seen {
        let flavor = &self.flavor;
        let waits = matches!(
            op,
            Op::ReplaceAndWait(_) | Op::Synchronize | Op::Barrier | Op::Wait(_) | Op::WaitTimeout(_)
        );
        if waits {
            if !may_wait(K::SECTIONS, op, state.held.len()) {
                return Seen::Nothing;
            }
            if self.free {
                self.clear();
            }
        }
        match *op {
            Op::Enter => {
                if may_enter(K::SECTIONS, state.held.len()) {
                    state.held.push(Held { guard: flavor.enter(), loaded: Vec::new() });
                }
            }
            Op::Leave(guard) => {
                state.read();
                if !state.held.is_empty() {
                    let guard = guard % state.held.len();
                    drop(state.held.remove(guard));
                }
            }
            Op::Load(cell, guard) => {
                if let Some(held) = state.held(guard) {
                    let value = self.cells[cell].load(K::section(&held.guard));
                    held.loaded.push(Loaded::new(value));
                }
                state.read();
            }
            Op::Read => state.read(),
            Op::Renew(guard) => {
                if let Some(held) = state.held(guard) {
                    held.loaded.clear();
                    K::renew(&mut held.guard);
                }
                state.read();
            }
            Op::Offline(guard) => {
                if let Some(held) = state.held(guard) {
                    held.loaded.clear();
                    K::offline(&mut held.guard, thread::yield_now);
                }
                state.read();
            }
            Op::Give(guard) => {
                state.read();
                if !state.held.is_empty() {
                    let guard = guard % state.held.len();
                    let back = flavor.give(state.held.remove(guard));
                    state.held.extend(back);
                }
            }
            Op::Take => {
                if state.held.len() < MOST {
                    state.held.extend(flavor.take());
                }
                state.read();
            }
            Op::Replace(cell) => {
                let old = self.cells[cell].replace(self.fresh());
                let dropped = old.dropped.clone();
                self.dispose(old);
                return Seen::Deferred(dropped);
            }
            Op::ReplaceAndWait(cell) => {
                let old = self.cells[cell].replace(self.fresh());
                if self.broken == Some(Broken::Wait) {
                    return Seen::Deferred(old.dropped.clone());
                }
                let old = old.wait();
                assert!(
                    !old.dropped.load(Acquire),
                    "a value is dropped although its writer has waited for it"
                );
                return Seen::Deferred(old.dropped.clone());
            }
            Op::Retire => {
                let value = Box::new(self.fresh());
                let dropped = value.dropped.clone();
                if self.broken == Some(Broken::Retire) {
                    drop(value)
                } else {
                    flavor.domain().retire(value)
                }
                return Seen::Deferred(dropped);
            }
            Op::Call => {
                let done = Flag::default();
                let callback = {
                    let done = done.clone();
                    move || assert!(!done.swap(true, AcqRel), "a callback runs twice")
                };
                if self.broken == Some(Broken::Call) {
                    callback()
                } else {
                    flavor.domain().call(callback)
                }
                return Seen::Deferred(done);
            }
            Op::Synchronize => {
                if self.broken != Some(Broken::Wait) {
                    match state.held.pop() {
                        Some(mut held) => {
                            held.loaded.clear();
                            K::offline(&mut held.guard, || flavor.domain().synchronize());
                            state.held.push(held);
                        }
                        None => flavor.domain().synchronize(),
                    }
                }
            }
            Op::Barrier => flavor.domain().barrier(),
            Op::TakeCookie if state.cookies.len() < MOST => {
                state.cookies.push(GracePeriod::now_in(flavor.domain()))
            }
            Op::Start if state.cookies.len() < MOST => {
                state.cookies.push(GracePeriod::start_in(flavor.domain()));
            }
            Op::TakeCookie | Op::Start => {}
            Op::Poll(cookie) => {
                if let Some(cookie) = state.cookie(cookie) {
                    return Seen::Elapsed(cookie.is_elapsed());
                }
            }
            Op::Wait(cookie) => {
                if let Some(cookie) = state.cookie(cookie) {
                    cookie.wait();
                    return Seen::Elapsed(cookie.is_elapsed());
                }
            }
            Op::WaitTimeout(cookie) => {
                if let Some(cookie) = state.cookie(cookie) {
                    let elapsed = cookie.wait_timeout(Duration::from_micros(200));
                    assert!(
                        !elapsed || cookie.is_elapsed(),
                        "a timed wait succeeded, but the grace period has not elapsed"
                    );
                    return Seen::Elapsed(cookie.is_elapsed());
                }
            }
            Op::ReadInNewThread(cell) => thread::scope(|scope| {
                let read = || {
                    let guard = flavor.enter();
                    let loaded = Loaded::new(self.cells[cell].load(K::section(&guard)));
                    thread::yield_now();
                    loaded.read();
                };
                scope.spawn(read).join().expect("no panic");
            }),
        }
        Seen::Nothing
    }

    fn finish(self) {
        self.clear();
        drop(self.cells);
        self.flavor.domain().barrier();
        let (made, dropped) = (self.made.into_inner(), self.drops.load(Acquire));
        if self.broken != Some(Broken::Retire) {
            assert_eq!(dropped, made, "every value is dropped");
        }
    }
}

/// Returns `true` if a thread that holds `held` guards may enter.
pub fn may_enter(sections: Sections, held: usize) -> bool {
    held < if sections == Sections::One { 1 } else { MOST }
}

/// Returns `true` if a thread that holds `held` guards may wait. A QSBR thread is offline while it waits.
pub fn may_wait(sections: Sections, op: &Op, held: usize) -> bool {
    held == 0 || sections == Sections::One && matches!(op, Op::Synchronize)
}
