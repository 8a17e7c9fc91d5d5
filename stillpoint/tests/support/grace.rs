//! Sections, grace periods and deferred work, as steps of a random [`program`](crate::program).

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use stillpoint::Domain;
use stillpoint::rcu::{GracePeriod, Rcu, Retired};

use crate::program::Scene;

const CELLS: usize = 2;
/// Guards, and cookies, that a thread has at once.
pub const MOST: usize = 4;

/// Set when something has happened.
pub type Flag = Arc<AtomicBool>;

#[derive(Debug, Clone)]
pub enum Op {
    Enter,
    Leave(usize),
    /// From a cell, with a guard.
    Load(usize, usize),
    /// Whatever has been loaded.
    Read,
    /// A guard: what was loaded with it ends.
    Renew(usize),
    /// The same, for a while.
    Doze(usize),
    /// A guard to whoever takes it.
    Give(usize),
    Take,
    Replace(usize),
    ReplaceAndWait(usize),
    Retire,
    Call,
    Synchronize,
    Barrier,
    /// For a cookie.
    Ask,
    Start,
    Look(usize),
    Await(usize),
    AwaitBriefly(usize),
    /// By a thread that then ends.
    Visit(usize),
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
        1 => any.clone().prop_map(Doze),
        2 => any.clone().prop_map(Give),
        2 => Just(Take),
        4 => cell.clone().prop_map(Replace),
        2 => cell.clone().prop_map(ReplaceAndWait),
        1 => Just(Retire),
        2 => Just(Call),
        3 => Just(Synchronize),
        1 => Just(Barrier),
        2 => Just(Ask),
        1 => Just(Start),
        2 => any.clone().prop_map(Look),
        1 => any.clone().prop_map(Await),
        1 => any.prop_map(AwaitBriefly),
        1 => cell.prop_map(Visit),
    ]
}

/// What a thread saw.
#[derive(Debug)]
pub enum Seen {
    Nothing,
    /// This is to happen after a grace period.
    Deferred(Flag),
    /// Whether a grace period was over.
    Elapsed(bool),
}

/// How sections of a kind are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sections {
    /// A thread is in one, however many guards it has.
    Nested,
    /// Each guard is one.
    Many,
    /// A thread has one guard at most.
    One,
}

/// What is made wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Nobody waits.
    Wait,
    /// Callbacks run at once.
    Call,
    /// Values are dropped at once.
    Retire,
}

/// A kind of domain.
pub trait Kind: Sync + 'static {
    type World: Domain;
    type Guard: 'static;

    const SECTIONS: Sections;

    fn new() -> Self;
    fn world(&self) -> Self::World;
    fn enter(&self) -> Self::Guard;
    fn section(guard: &Self::Guard) -> &<Self::World as Domain>::Section;
    fn synchronize(&self);
    fn call(&self, f: impl FnOnce() + Send + 'static);
    fn retire(&self, value: Box<Value>);
    fn barrier(&self);

    /// Ends what was loaded with the guard. Nothing if that cannot be.
    fn renew(_guard: &mut Self::Guard) {}

    /// The same, while `f` runs.
    fn doze(guard: &mut Self::Guard, f: impl FnOnce()) {
        Self::renew(guard);
        f();
    }

    /// Leaves a guard to whoever takes it; or gives it back.
    fn give(&self, held: Held<Self::Guard>) -> Option<Held<Self::Guard>> {
        Some(held)
    }

    fn take(&self) -> Option<Held<Self::Guard>> {
        None
    }
}

/// A value that knows whether it is there.
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

/// A value that is read as long as the guard is there that it was loaded with.
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
        // SAFETY: that is what is tested; that it has not happened has been seen.
        assert_eq!(unsafe { self.value.as_ref() }.number, self.number);
    }
}

/// A guard, and what was loaded with it.
pub struct Held<G> {
    loaded: Vec<Loaded>,
    guard: G,
}

/// Cells that programs load from and replace.
pub struct Stage<K: Kind> {
    kind: K,
    cells: [Rcu<Value, K::World>; CELLS],
    made: AtomicUsize,
    drops: Arc<AtomicUsize>,
    broken: Option<Broken>,
    /// Nobody knows who waits.
    free: bool,
}

impl<K: Kind> Stage<K> {
    pub fn new(free: bool, broken: Option<Broken>) -> Self {
        let (kind, drops) = (K::new(), Arc::default());
        let value = |number| Value { number, dropped: Arc::default(), drops: Arc::clone(&drops) };
        let cells = [0, 1].map(|number| Rcu::new_in(value(number), kind.world()));
        Self { kind, cells, made: AtomicUsize::new(CELLS), drops, broken, free }
    }

    fn fresh(&self) -> Value {
        let number = self.made.fetch_add(1, Relaxed);
        Value { number, dropped: Arc::default(), drops: self.drops.clone() }
    }

    fn dispose(&self, old: Retired<Value, K::World>) {
        if self.broken == Some(Broken::Retire) {
            old.dropped.store(true, Release);
            // Only what a guard holds may be looked at now, and that looks at the flag first.
            std::mem::forget(old);
        }
    }

    /// Takes what was given, so that nobody waits for it.
    fn clear(&self) {
        while self.kind.take().is_some() {}
    }
}

/// What a thread holds.
pub struct Hands<'a, K: Kind> {
    stage: &'a Stage<K>,
    held: Vec<Held<K::Guard>>,
    cookies: Vec<GracePeriod<K::World>>,
}

impl<K: Kind> Hands<'_, K> {
    fn held(&mut self, guard: usize) -> Option<&mut Held<K::Guard>> {
        let count = self.held.len().max(1);
        self.held.get_mut(guard % count)
    }

    fn cookie(&self, cookie: usize) -> Option<&GracePeriod<K::World>> {
        self.cookies.get(cookie % self.cookies.len().max(1))
    }

    fn read(&self) {
        self.held.iter().flat_map(|held| &held.loaded).for_each(Loaded::read);
    }
}

impl<K: Kind> Drop for Hands<'_, K> {
    fn drop(&mut self) {
        self.stage.clear();
    }
}

impl<K: Kind> Scene for Stage<K> {
    type Op = Op;
    type Seen = Seen;
    type Local<'a> = Hands<'a, K>;

    fn come(&self, _thread: usize) -> Hands<'_, K> {
        Hands { stage: self, held: Vec::new(), cookies: Vec::new() }
    }

    fn act<'a>(&'a self, hands: &mut Hands<'a, K>, op: &Op) -> Seen {
        let kind = &self.kind;
        let waits = matches!(
            op,
            Op::ReplaceAndWait(_) | Op::Synchronize | Op::Barrier | Op::Await(_) | Op::AwaitBriefly(_)
        );
        if waits {
            if !may_wait(K::SECTIONS, op, hands.held.len()) {
                return Seen::Nothing;
            }
            if self.free {
                self.clear();
            }
        }
        match *op {
            Op::Enter => {
                if may_enter(K::SECTIONS, hands.held.len()) {
                    hands.held.push(Held { guard: kind.enter(), loaded: Vec::new() });
                }
            }
            Op::Leave(guard) => {
                hands.read();
                if !hands.held.is_empty() {
                    let guard = guard % hands.held.len();
                    drop(hands.held.remove(guard));
                }
            }
            Op::Load(cell, guard) => {
                if let Some(held) = hands.held(guard) {
                    let value = self.cells[cell].load(K::section(&held.guard));
                    held.loaded.push(Loaded::new(value));
                }
                hands.read();
            }
            Op::Read => hands.read(),
            Op::Renew(guard) => {
                if let Some(held) = hands.held(guard) {
                    held.loaded.clear();
                    K::renew(&mut held.guard);
                }
                hands.read();
            }
            Op::Doze(guard) => {
                if let Some(held) = hands.held(guard) {
                    held.loaded.clear();
                    K::doze(&mut held.guard, thread::yield_now);
                }
                hands.read();
            }
            Op::Give(guard) => {
                hands.read();
                if !hands.held.is_empty() {
                    let guard = guard % hands.held.len();
                    let back = kind.give(hands.held.remove(guard));
                    hands.held.extend(back);
                }
            }
            Op::Take => {
                if hands.held.len() < MOST {
                    hands.held.extend(kind.take());
                }
                hands.read();
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
                assert!(!old.dropped.load(Acquire), "a value is dropped that was waited for");
                return Seen::Deferred(old.dropped.clone());
            }
            Op::Retire => {
                let value = Box::new(self.fresh());
                let dropped = value.dropped.clone();
                if self.broken == Some(Broken::Retire) {
                    drop(value)
                } else {
                    kind.retire(value)
                }
                return Seen::Deferred(dropped);
            }
            Op::Call => {
                let done = Flag::default();
                let f = {
                    let done = done.clone();
                    move || assert!(!done.swap(true, AcqRel), "a callback runs twice")
                };
                if self.broken == Some(Broken::Call) {
                    f()
                } else {
                    kind.call(f)
                }
                return Seen::Deferred(done);
            }
            Op::Synchronize => {
                if self.broken != Some(Broken::Wait) {
                    match hands.held.pop() {
                        Some(mut held) => {
                            held.loaded.clear();
                            K::doze(&mut held.guard, || kind.synchronize());
                            hands.held.push(held);
                        }
                        None => kind.synchronize(),
                    }
                }
            }
            Op::Barrier => kind.barrier(),
            Op::Ask if hands.cookies.len() < MOST => hands.cookies.push(GracePeriod::now_in(kind.world())),
            Op::Start if hands.cookies.len() < MOST => {
                hands.cookies.push(GracePeriod::start_in(kind.world()));
            }
            Op::Ask | Op::Start => {}
            Op::Look(cookie) => {
                if let Some(cookie) = hands.cookie(cookie) {
                    return Seen::Elapsed(cookie.is_elapsed());
                }
            }
            Op::Await(cookie) => {
                if let Some(cookie) = hands.cookie(cookie) {
                    cookie.wait();
                    return Seen::Elapsed(cookie.is_elapsed());
                }
            }
            Op::AwaitBriefly(cookie) => {
                if let Some(cookie) = hands.cookie(cookie) {
                    let elapsed = cookie.wait_timeout(Duration::from_micros(200)).is_ok();
                    assert!(!elapsed || cookie.is_elapsed(), "a grace period is over, and is not");
                    return Seen::Elapsed(cookie.is_elapsed());
                }
            }
            Op::Visit(cell) => thread::scope(|scope| {
                let visit = || {
                    let guard = kind.enter();
                    let loaded = Loaded::new(self.cells[cell].load(K::section(&guard)));
                    thread::yield_now();
                    loaded.read();
                };
                scope.spawn(visit).join().expect("the visitor finds nothing wrong");
            }),
        }
        Seen::Nothing
    }

    fn close(self) {
        self.clear();
        drop(self.cells);
        self.kind.barrier();
        let (made, dropped) = (self.made.into_inner(), self.drops.load(Acquire));
        if self.broken != Some(Broken::Retire) {
            assert_eq!(dropped, made, "values dropped, and made");
        }
    }
}

/// Whether a thread with so many guards enters.
pub fn may_enter(sections: Sections, held: usize) -> bool {
    held < if sections == Sections::One { 1 } else { MOST }
}

/// Whether a thread with so many guards may wait: a thread that reports goes offline meanwhile.
pub fn may_wait(sections: Sections, op: &Op, held: usize) -> bool {
    held == 0 || sections == Sections::One && matches!(op, Op::Synchronize)
}
