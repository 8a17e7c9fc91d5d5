//! Random programs of locks and condition variables: one thread at a time holds a lock, and no thread waits for a
//! free one.

use std::cell::UnsafeCell;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use crate::program::{Expect, How, Model, System, THREADS, holds, is_found};
use lock_api::{RawMutex as _, RawMutexFair as _, RawMutexTimed as _};
use proptest::prelude::*;
use stillpoint::lock::{Condvar, Mutex, RawMutex};

const LOCKS: usize = 2;
pub const SHORT: Duration = Duration::from_micros(300);
pub const LONG: Duration = Duration::from_secs(3600);

/// How long a thread waits for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    Forever,
    /// With a time limit that is not reached.
    Long,
    /// With a time limit that is.
    Short,
    None,
}

pub fn patience() -> impl Strategy<Value = Patience> {
    use Patience::*;
    prop_oneof![4 => Just(Forever), 2 => Just(Long), 2 => Just(Short), 2 => Just(None)]
}

#[derive(Debug, Clone)]
enum Op {
    Lock(usize, Patience),
    Unlock {
        lock: usize,
        fair: bool,
    },
    /// Yields the lock to waiters, if there are any.
    Bump(usize),
    /// Adds a token, and notifies one waiter.
    Put,
    /// Adds some tokens, and notifies all waiters.
    PutMany(u32),
    /// Waits for a token, and removes it.
    Take,
    /// The same, with a time limit.
    TakeBriefly,
}

fn ops() -> impl Strategy<Value = Op> {
    use Op::*;
    let lock = 0..LOCKS;
    prop_oneof![
        10 => (lock.clone(), patience()).prop_map(|(lock, patience)| Lock(lock, patience)),
        8 => (lock.clone(), any::<bool>()).prop_map(|(lock, fair)| Unlock { lock, fair }),
        2 => lock.prop_map(Bump),
        3 => Just(Put),
        1 => (0..4_u32).prop_map(PutMany),
        3 => Just(Take),
        1 => Just(TakeBriefly),
    ]
}

/// An error that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Not,
    /// A try succeeds although another thread holds the lock.
    Shared,
    /// A try succeeds never.
    NeverTaken,
}

/// A lock, and data that it protects.
struct Guarded {
    lock: RawMutex,
    taken: AtomicBool,
    /// The number of acquisitions: a plain word.
    count: UnsafeCell<usize>,
}

// SAFETY: `count` is changed under the lock, which is what is tested.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn take(&self) {
        assert!(!self.taken.swap(true, AcqRel), "two threads hold a lock");
        // SAFETY: as asserted, no other thread is here.
        unsafe { *self.count.get() += 1 };
    }

    fn try_take(&self, broken: Broken) -> bool {
        broken != Broken::NeverTaken && (self.lock.try_lock() || broken == Broken::Shared)
    }

    fn leave(&self) {
        assert!(self.taken.swap(false, AcqRel), "a lock is released that no thread holds");
    }
}

struct TestState {
    guarded: [Guarded; LOCKS],
    tokens: Mutex<u32>,
    put: Condvar,
    /// Acquisitions of the locks; tokens added and removed.
    takes: [AtomicUsize; LOCKS],
    tokens_put: AtomicU32,
    tokens_taken: AtomicU32,
    /// A thread has finished: waiters stop waiting.
    closed: AtomicBool,
    free: bool,
    broken: Broken,
}

impl TestState {
    fn new(how: How, broken: Broken) -> Self {
        let guarded =
            |_| Guarded { lock: RawMutex::INIT, taken: AtomicBool::new(false), count: UnsafeCell::new(0) };
        Self {
            guarded: [0, 1].map(guarded),
            tokens: Mutex::new(0),
            put: Condvar::new(),
            takes: Default::default(),
            tokens_put: AtomicU32::new(0),
            tokens_taken: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            free: how == How::Freely,
            broken,
        }
    }
}

/// The locks that a thread holds.
struct Held<'a> {
    state: &'a TestState,
    holds: [bool; LOCKS],
}

impl Held<'_> {
    fn taken(&mut self, lock: usize, got: bool) -> Seen {
        if got {
            self.state.guarded[lock].take();
            self.state.takes[lock].fetch_add(1, Relaxed);
            self.holds[lock] = true;
        }
        Seen(got)
    }

    fn leave(&mut self, index: usize, fair: bool) {
        if !mem::take(&mut self.holds[index]) {
            return;
        }
        let guarded = &self.state.guarded[index];
        guarded.leave();
        // SAFETY: this thread holds it.
        unsafe { if fair { guarded.lock.unlock_fair() } else { guarded.lock.unlock() } }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        (0..LOCKS).for_each(|lock| self.leave(lock, false));
        let _tokens = self.state.tokens.lock();
        self.state.closed.store(true, Relaxed);
        self.state.put.notify_all();
    }
}

/// Whether the operation succeeded.
#[derive(Debug)]
pub struct Seen(pub bool);

/// Returns `true` if a thread that holds these locks may take another one: if it waits, in ascending order only.
fn may_lock(has: [bool; LOCKS], lock: usize, patience: Patience) -> bool {
    let waits = matches!(patience, Patience::Forever | Patience::Long);
    !if waits { has[lock..].contains(&true) } else { has[lock] }
}

impl System for TestState {
    type Op = Op;
    type Seen = Seen;
    type Local<'a> = Held<'a>;

    fn start_thread(&self, _thread: usize) -> Held<'_> {
        Held { state: self, holds: [false; LOCKS] }
    }

    fn run_step<'a>(&'a self, held: &mut Held<'a>, op: &Op) -> Seen {
        let has = held.holds;
        let lock = |lock: usize| &self.guarded[lock].lock;
        match *op {
            Op::Lock(index, patience) if may_lock(has, index, patience) => {
                let got = match patience {
                    Patience::Forever => {
                        lock(index).lock();
                        true
                    }
                    Patience::Long => lock(index).try_lock_for(LONG),
                    Patience::Short => lock(index).try_lock_until(Instant::now() + SHORT),
                    Patience::None => self.guarded[index].try_take(self.broken),
                };
                assert!(got || patience != Patience::Long, "an hour is over");
                return held.taken(index, got);
            }
            Op::Unlock { lock, fair } => held.leave(lock, fair),
            Op::Bump(index) if may_bump(has, index) => {
                self.guarded[index].leave();
                // SAFETY: this thread holds it.
                unsafe { lock(index).bump() };
                self.guarded[index].take();
                self.takes[index].fetch_add(1, Relaxed);
            }
            Op::Put => {
                self.tokens_put.fetch_add(1, Relaxed);
                *self.tokens.lock() += 1;
                self.put.notify_one();
            }
            Op::PutMany(count) => {
                self.tokens_put.fetch_add(count, Relaxed);
                *self.tokens.lock() += count;
                self.put.notify_all();
            }
            // In a free run there may be no thread left that adds one.
            Op::Take if has == [false; LOCKS] && !self.free => {
                let mut tokens = self.tokens.lock();
                self.put.wait_while(&mut tokens, |tokens| *tokens == 0 && !self.closed.load(Relaxed));
                let got = *tokens > 0;
                *tokens -= u32::from(got);
                self.tokens_taken.fetch_add(got.into(), Relaxed);
                return Seen(got);
            }
            Op::TakeBriefly | Op::Take if has == [false; LOCKS] => {
                let mut tokens = self.tokens.lock();
                if self.put.wait_while_for(&mut tokens, |tokens| *tokens == 0, SHORT).timed_out() {
                    return Seen(false);
                }
                *tokens -= 1;
                self.tokens_taken.fetch_add(1, Relaxed);
                return Seen(true);
            }
            _ => {}
        }
        Seen(false)
    }

    fn finish(self) {
        for (guarded, takes) in self.guarded.into_iter().zip(self.takes) {
            assert!(guarded.try_take(self.broken), "a lock that no thread holds cannot be taken");
            assert_eq!(guarded.count.into_inner(), takes.into_inner(), "counted under the lock, and taken");
        }
        let left = self.tokens_put.into_inner() - self.tokens_taken.into_inner();
        assert_eq!(self.tokens.into_inner(), left, "tokens left");
    }
}

/// Returns `true` if a thread may bump: as for waiting, but for the lock itself.
fn may_bump(has: [bool; LOCKS], lock: usize) -> bool {
    has[lock] && !has[lock + 1..].contains(&true)
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Lock(usize),
    Token,
    /// Nothing: the step ends by itself.
    Nothing,
}

/// The expected behaviour.
#[derive(Debug)]
struct LockModel {
    owners: [Option<usize>; LOCKS],
    tokens: u32,
    waits: [Wait; THREADS],
    /// The expected result of a try.
    gets: Option<bool>,
}

impl LockModel {
    fn new() -> Self {
        Self { owners: [None; LOCKS], tokens: 0, waits: [Wait::Nothing; THREADS], gets: None }
    }

    fn has(&self, thread: usize) -> [bool; LOCKS] {
        self.owners.map(|owner| owner == Some(thread))
    }
}

impl Model for LockModel {
    type Op = Op;
    type Seen = Seen;

    fn begin(&mut self, thread: usize, op: &Op) -> bool {
        let has = self.has(thread);
        self.gets = None;
        match *op {
            Op::Lock(lock, patience) if !may_lock(has, lock, patience) => return false,
            Op::Lock(lock, Patience::Forever | Patience::Long) => self.waits[thread] = Wait::Lock(lock),
            Op::Lock(lock, _) => self.gets = Some(self.owners[lock].is_none()),
            Op::Unlock { lock, .. } => {
                if !has[lock] {
                    return false;
                }
                self.owners[lock] = None;
            }
            Op::Bump(lock) => {
                if !may_bump(has, lock) {
                    return false;
                }
                self.owners[lock] = None;
                self.waits[thread] = Wait::Lock(lock);
            }
            Op::Put => self.tokens += 1,
            Op::PutMany(count) => self.tokens += count,
            Op::Take | Op::TakeBriefly if has != [false; LOCKS] => return false,
            Op::Take => {
                // A thread must be left that adds one.
                let idle = self.waits.iter().filter(|wait| **wait == Wait::Nothing).count();
                if idle == 1 {
                    return false;
                }
                self.waits[thread] = Wait::Token;
            }
            Op::TakeBriefly => self.gets = Some(self.tokens > 0),
        }
        true
    }

    fn expect(&self, thread: usize) -> Expect {
        match self.waits[thread] {
            Wait::Nothing => Expect::Now,
            Wait::Lock(lock) if self.owners[lock].is_some() => Expect::Never,
            Wait::Token if self.tokens == 0 => Expect::Never,
            _ => Expect::OneOf,
        }
    }

    fn end(&mut self, thread: usize, op: &Op, Seen(got): Seen) -> Result<(), String> {
        self.waits[thread] = Wait::Nothing;
        let expected = self.gets.take();
        match *op {
            Op::Bump(lock) => self.owners[lock] = Some(thread),
            Op::Lock(lock, _) => {
                if expected.is_some_and(|expected| expected != got) {
                    return Err(format!("{op:?} of thread {thread}: {got}, where a lock is free or not"));
                }
                if got {
                    self.owners[lock] = Some(thread);
                }
            }
            Op::Take => self.tokens -= 1,
            Op::TakeBriefly => {
                if expected.is_some_and(|expected| expected != got) {
                    return Err(format!("{op:?} of thread {thread}: {got}, where there is a token or not"));
                }
                self.tokens -= u32::from(got);
            }
            _ => {}
        }
        Ok(())
    }

    fn last(&self, thread: usize) -> Option<Op> {
        let has = self.has(thread).iter().position(|&has| has).map(|lock| Op::Unlock { lock, fair: false });
        has.or_else(|| (self.waits.contains(&Wait::Token) && self.tokens == 0).then_some(Op::Put))
    }
}

fn make(broken: Broken) -> impl Fn(How) -> (TestState, LockModel) {
    move |how| (TestState::new(how, broken), LockModel::new())
}

#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    let broken = if crate::program::is_broken() { Broken::Shared } else { Broken::Not };
    crate::program::fuzz(data, ops(), make(broken));
}

#[test]
fn programs_of_locks_match_the_model() {
    holds(ops(), make(Broken::Not));
}

#[test]
fn lock_held_by_two_threads_is_found() {
    is_found(&["two threads hold a lock"], 8, ops, make(Broken::Shared));
}

#[test]
fn free_lock_that_cannot_be_taken_is_found() {
    is_found(&["cannot be taken", "free or not"], 8, ops, make(Broken::NeverTaken));
}
