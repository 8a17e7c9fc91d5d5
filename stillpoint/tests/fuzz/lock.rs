//! Random programs of locks and condition variables: one thread at a time holds a lock, and no thread waits for a free
//! one.

use std::cell::UnsafeCell;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use crate::program::{Expect, How, Model, System, THREADS, holds, is_found};
use lock_api::{GuardSend, RawMutexFair, RawMutexTimed};
use proptest::prelude::*;
use stillpoint::lock::{Condvar, Mutex, RawMutex};

const LOCKS: usize = 2;
const SHORT: Duration = Duration::from_micros(300);
const LONG: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
enum Op {
    Lock(usize),
    /// With a time limit that is not reached.
    LockBefore(usize),
    Try(usize),
    /// With a time limit that is.
    TryBriefly(usize),
    Unlock(usize),
    UnlockFair(usize),
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
        4 => lock.clone().prop_map(Lock),
        2 => lock.clone().prop_map(LockBefore),
        2 => lock.clone().prop_map(Try),
        2 => lock.clone().prop_map(TryBriefly),
        5 => lock.clone().prop_map(Unlock),
        3 => lock.clone().prop_map(UnlockFair),
        2 => lock.prop_map(Bump),
        3 => Just(Put),
        1 => (0..4_u32).prop_map(PutMany),
        3 => Just(Take),
        1 => Just(TakeBriefly),
    ]
}

/// The lock that is tested, or a broken one.
trait Raw:
    lock_api::RawMutexFair + lock_api::RawMutexTimed<Duration = Duration, Instant = Instant> + Sync
{
}

/// A lock, and data that it protects.
struct Guarded<R> {
    lock: R,
    taken: AtomicBool,
    /// The number of acquisitions: a plain word.
    count: UnsafeCell<usize>,
}

// SAFETY: `count` is changed under the lock, which is what is tested.
unsafe impl<R: Raw> Sync for Guarded<R> {}

impl<R: Raw> Guarded<R> {
    fn take(&self) {
        assert!(!self.taken.swap(true, AcqRel), "two threads hold a lock");
        // SAFETY: as asserted, no other thread is here.
        unsafe { *self.count.get() += 1 };
    }

    fn leave(&self) {
        assert!(self.taken.swap(false, AcqRel), "a lock is released that no thread holds");
    }
}

struct TestState<R> {
    guarded: [Guarded<R>; LOCKS],
    tokens: Mutex<u32>,
    put: Condvar,
    /// Acquisitions of the locks; tokens added and removed.
    takes: [AtomicUsize; LOCKS],
    tokens_put: AtomicU32,
    tokens_taken: AtomicU32,
    /// A thread has finished: waiters stop waiting.
    closed: AtomicBool,
    free: bool,
}

impl<R: Raw> TestState<R> {
    fn new(how: How) -> Self {
        let guarded = |_| Guarded { lock: R::INIT, taken: AtomicBool::new(false), count: UnsafeCell::new(0) };
        Self {
            guarded: [0, 1].map(guarded),
            tokens: Mutex::new(0),
            put: Condvar::new(),
            takes: Default::default(),
            tokens_put: AtomicU32::new(0),
            tokens_taken: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            free: how == How::Freely,
        }
    }
}

/// The locks that a thread holds.
struct Held<'a, R: Raw> {
    state: &'a TestState<R>,
    holds: [bool; LOCKS],
}

impl<R: Raw> Held<'_, R> {
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

impl<R: Raw> Drop for Held<'_, R> {
    fn drop(&mut self) {
        (0..LOCKS).for_each(|lock| self.leave(lock, false));
        let _tokens = self.state.tokens.lock();
        self.state.closed.store(true, Relaxed);
        self.state.put.notify_all();
    }
}

/// Whether the operation succeeded.
#[derive(Debug)]
struct Seen(bool);

/// Returns `true` if a thread that holds these locks may wait for another one: in ascending order only.
fn may_wait(has: [bool; LOCKS], lock: usize) -> bool {
    !has[lock..].contains(&true)
}

impl<R: Raw> System for TestState<R> {
    type Op = Op;
    type Seen = Seen;
    type Local<'a>
        = Held<'a, R>
    where
        R: 'a;

    fn start_thread(&self, _thread: usize) -> Held<'_, R> {
        Held { state: self, holds: [false; LOCKS] }
    }

    fn run_step<'a>(&'a self, held: &mut Held<'a, R>, op: &Op) -> Seen {
        let has = held.holds;
        let lock = |lock: usize| &self.guarded[lock].lock;
        match *op {
            Op::Lock(index) if may_wait(has, index) => {
                lock(index).lock();
                return held.taken(index, true);
            }
            Op::LockBefore(index) if may_wait(has, index) => {
                assert!(lock(index).try_lock_for(LONG), "an hour is over");
                return held.taken(index, true);
            }
            Op::Try(index) if !has[index] => {
                return held.taken(index, lock(index).try_lock());
            }
            Op::TryBriefly(index) if !has[index] => {
                return held.taken(index, lock(index).try_lock_until(Instant::now() + SHORT));
            }
            Op::Unlock(index) => held.leave(index, false),
            Op::UnlockFair(index) => held.leave(index, true),
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
            assert!(guarded.lock.try_lock(), "a lock that no thread holds cannot be taken");
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
            Op::Lock(lock) | Op::LockBefore(lock) => {
                if !may_wait(has, lock) {
                    return false;
                }
                self.waits[thread] = Wait::Lock(lock);
            }
            Op::Try(lock) | Op::TryBriefly(lock) => {
                if has[lock] {
                    return false;
                }
                self.gets = Some(self.owners[lock].is_none());
            }
            Op::Unlock(lock) | Op::UnlockFair(lock) => {
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
            Op::Lock(lock) | Op::LockBefore(lock) | Op::Bump(lock) => self.owners[lock] = Some(thread),
            Op::Try(lock) | Op::TryBriefly(lock) => {
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
        let has = self.has(thread).iter().position(|&has| has).map(Op::Unlock);
        has.or_else(|| (self.waits.contains(&Wait::Token) && self.tokens == 0).then_some(Op::Put))
    }
}

/// Defines a raw mutex whose guards may be sent, and whose `try_lock` is `$try_lock`.
macro_rules! raw_mutex {
    ($name:ident, $try_lock:expr) => {
        struct $name(RawMutex);

        impl Raw for $name {}

        // SAFETY: as for `RawMutex`, of which any thread may release what another took. If `$try_lock` is broken: none;
        // the test must find that before it does harm.
        unsafe impl lock_api::RawMutex for $name {
            const INIT: Self = Self(RawMutex::INIT);

            type GuardMarker = GuardSend;

            fn lock(&self) {
                lock_api::RawMutex::lock(&self.0);
            }

            fn try_lock(&self) -> bool {
                $try_lock(&self.0)
            }

            unsafe fn unlock(&self) {
                // SAFETY: the caller's contract.
                unsafe { lock_api::RawMutex::unlock(&self.0) };
            }

            fn is_locked(&self) -> bool {
                lock_api::RawMutex::is_locked(&self.0)
            }
        }

        // SAFETY: as above.
        unsafe impl RawMutexFair for $name {
            unsafe fn unlock_fair(&self) {
                // SAFETY: the caller's contract.
                unsafe { RawMutexFair::unlock_fair(&self.0) };
            }
        }

        // SAFETY: as above.
        unsafe impl RawMutexTimed for $name {
            type Duration = Duration;
            type Instant = Instant;

            fn try_lock_for(&self, timeout: Duration) -> bool {
                self.0.try_lock_for(timeout)
            }

            fn try_lock_until(&self, until: Instant) -> bool {
                self.0.try_lock_until(until)
            }
        }
    };
}

fn try_lock(lock: &RawMutex) -> bool {
    lock_api::RawMutex::try_lock(lock)
}

raw_mutex!(Sound, try_lock);

#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    raw_mutex!(Shared, |lock: &RawMutex| {
        try_lock(lock);
        true
    });
    if crate::program::is_broken() {
        crate::program::fuzz(data, ops(), |how| (TestState::<Shared>::new(how), LockModel::new()));
    } else {
        crate::program::fuzz(data, ops(), |how| (TestState::<Sound>::new(how), LockModel::new()));
    }
}

#[test]
fn programs_of_locks_match_the_model() {
    holds(ops(), |how| (TestState::<Sound>::new(how), LockModel::new()));
}

#[test]
fn lock_held_by_two_threads_is_found() {
    raw_mutex!(Shared, |lock: &RawMutex| {
        try_lock(lock);
        true
    });
    is_found(&["two threads hold a lock"], 8, ops, |how| (TestState::<Shared>::new(how), LockModel::new()));
}

#[test]
fn free_lock_that_cannot_be_taken_is_found() {
    raw_mutex!(NeverTaken, |_: &RawMutex| false);
    is_found(&["cannot be taken", "free or not"], 8, ops, |how| {
        (TestState::<NeverTaken>::new(how), LockModel::new())
    });
}
