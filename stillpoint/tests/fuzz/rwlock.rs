//! Random programs of a reader-writer lock: writers exclude, readers share, and no thread waits for a free lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Instant;

use crate::lock::{LONG, Patience, SHORT, Seen, patience};
use crate::program::{Expect, How, Model, System, THREADS, holds, is_found};
use lock_api::{
    RawRwLock as _, RawRwLockDowngrade, RawRwLockFair, RawRwLockRecursive, RawRwLockRecursiveTimed,
    RawRwLockTimed, RawRwLockUpgrade, RawRwLockUpgradeDowngrade, RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};
use proptest::prelude::*;
use stillpoint::lock::RawRwLock;

/// How a thread holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Upgradable,
    Write,
}

#[derive(Debug, Clone)]
enum Op {
    Lock(Mode, Patience),
    /// Makes an upgradable read a write.
    Upgrade(Patience),
    /// Makes a write, or an upgradable read, the other one of these or a read.
    Downgrade(Mode),
    Unlock {
        fair: bool,
    },
    /// Enough reads to open the gate, if no writer is there.
    ReadOften,
}

fn ops() -> impl Strategy<Value = Op> {
    use Mode::*;
    let mode = prop_oneof![3 => Just(Read), 1 => Just(Upgradable), 2 => Just(Write)];
    prop_oneof![
        9 => (mode, patience()).prop_map(|(mode, wait)| Op::Lock(mode, wait)),
        3 => patience().prop_map(Op::Upgrade),
        2 => prop_oneof![Just(Read), Just(Upgradable)].prop_map(Op::Downgrade),
        6 => any::<bool>().prop_map(|fair| Op::Unlock { fair }),
        1 => Just(Op::ReadOften),
    ]
}

/// An error that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Not,
    /// A read that may not wait is done without the lock if it is refused.
    ReadsAnyway,
    /// A write that may not wait succeeds never.
    WritesNever,
}

struct TestState {
    lock: RawRwLock,
    /// Its reads are recursive.
    recursive: bool,
    readers: AtomicUsize,
    is_upgradable: AtomicBool,
    is_written: AtomicBool,
    /// The number of writes: a plain word.
    count: UnsafeCell<usize>,
    writes: AtomicUsize,
    broken: Broken,
}

// SAFETY: `count` is changed under the lock, which is what is tested.
unsafe impl Sync for TestState {}

impl TestState {
    fn new(recursive: bool, broken: Broken) -> Self {
        Self {
            lock: RawRwLock::INIT,
            recursive,
            readers: AtomicUsize::new(0),
            is_upgradable: AtomicBool::new(false),
            is_written: AtomicBool::new(false),
            count: UnsafeCell::new(0),
            writes: AtomicUsize::new(0),
            broken,
        }
    }

    /// The calling thread has taken the lock.
    fn take(&self, mode: Mode) {
        match mode {
            Mode::Read => {
                self.readers.fetch_add(1, AcqRel);
                assert!(!self.is_written.load(Acquire), "a read beside a write");
            }
            Mode::Upgradable => {
                assert!(!self.is_upgradable.swap(true, AcqRel), "two upgradable reads");
                assert!(!self.is_written.load(Acquire), "an upgradable read beside a write");
            }
            Mode::Write => {
                assert!(!self.is_written.swap(true, AcqRel), "two writes");
                assert!(!self.is_upgradable.load(Acquire), "a write beside an upgradable read");
                assert_eq!(self.readers.load(Acquire), 0, "a write beside a read");
                self.writes.fetch_add(1, Relaxed);
                // SAFETY: as asserted, no other thread is here.
                unsafe { *self.count.get() += 1 };
            }
        }
    }

    /// The calling thread is about to release the lock.
    fn leave(&self, mode: Mode) {
        match mode {
            Mode::Read => assert!(self.readers.fetch_sub(1, AcqRel) > 0),
            Mode::Upgradable => assert!(self.is_upgradable.swap(false, AcqRel)),
            Mode::Write => assert!(self.is_written.swap(false, AcqRel)),
        }
    }

    fn lock(&self, mode: Mode, wait: Patience) -> bool {
        let lock = &self.lock;
        let until = || Instant::now() + SHORT;
        match (mode, wait) {
            (Mode::Read, Patience::Forever) if self.recursive => lock.lock_shared_recursive(),
            (Mode::Read, Patience::Long) if self.recursive => {
                return lock.try_lock_shared_recursive_for(LONG);
            }
            (Mode::Read, Patience::Short) if self.recursive => {
                return lock.try_lock_shared_recursive_until(until());
            }
            (Mode::Read, Patience::Forever) => lock.lock_shared(),
            (Mode::Read, Patience::Long) => return lock.try_lock_shared_for(LONG),
            (Mode::Read, Patience::Short) => return lock.try_lock_shared_until(until()),
            (Mode::Read, Patience::None) => {
                let got =
                    if self.recursive { lock.try_lock_shared_recursive() } else { lock.try_lock_shared() };
                if !got && self.broken == Broken::ReadsAnyway {
                    self.take(Mode::Read);
                    self.leave(Mode::Read);
                }
                return got;
            }
            (Mode::Upgradable, Patience::Forever) => lock.lock_upgradable(),
            (Mode::Upgradable, Patience::Long) => return lock.try_lock_upgradable_for(LONG),
            (Mode::Upgradable, Patience::Short) => return lock.try_lock_upgradable_until(until()),
            (Mode::Upgradable, Patience::None) => return lock.try_lock_upgradable(),
            (Mode::Write, Patience::Forever) => lock.lock_exclusive(),
            (Mode::Write, Patience::Long) => return lock.try_lock_exclusive_for(LONG),
            (Mode::Write, Patience::Short) => return lock.try_lock_exclusive_until(until()),
            (Mode::Write, Patience::None) if self.broken == Broken::WritesNever => return false,
            (Mode::Write, Patience::None) => return lock.try_lock_exclusive(),
        }
        true
    }

    /// # Safety
    ///
    /// The calling thread holds the lock for an upgradable read.
    unsafe fn upgrade(&self, wait: Patience) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            match wait {
                Patience::Forever => {
                    self.lock.upgrade();
                    true
                }
                Patience::Long => self.lock.try_upgrade_for(LONG),
                Patience::Short => self.lock.try_upgrade_until(Instant::now() + SHORT),
                Patience::None => self.lock.try_upgrade(),
            }
        }
    }

    /// # Safety
    ///
    /// The calling thread holds the lock in this way.
    unsafe fn unlock(&self, mode: Mode, fair: bool) {
        // SAFETY: the caller's contract.
        unsafe {
            match (mode, fair) {
                (Mode::Read, false) => self.lock.unlock_shared(),
                (Mode::Read, true) => self.lock.unlock_shared_fair(),
                (Mode::Upgradable, false) => self.lock.unlock_upgradable(),
                (Mode::Upgradable, true) => self.lock.unlock_upgradable_fair(),
                (Mode::Write, false) => self.lock.unlock_exclusive(),
                (Mode::Write, true) => self.lock.unlock_exclusive_fair(),
            }
        }
    }
}

/// How a thread holds the lock, if it does.
struct Held<'a> {
    state: &'a TestState,
    held: Option<Mode>,
}

impl Held<'_> {
    fn unlock(&mut self, fair: bool) {
        if let Some(mode) = self.held.take() {
            self.state.leave(mode);
            // SAFETY: the thread holds it.
            unsafe { self.state.unlock(mode, fair) };
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.unlock(false);
    }
}

impl System for TestState {
    type Op = Op;
    type Seen = Seen;
    type Local<'a> = Held<'a>;

    fn start_thread(&self, _thread: usize) -> Held<'_> {
        Held { state: self, held: None }
    }

    fn run_step<'a>(&'a self, local: &mut Held<'a>, op: &Op) -> Seen {
        match (op, local.held.take()) {
            (Op::Lock(mode, wait), None) => {
                let got = self.lock(*mode, *wait);
                assert!(got || *wait != Patience::Long, "an hour is not over");
                if got {
                    self.take(*mode);
                    local.held = Some(*mode);
                }
                return Seen(got);
            }
            (Op::Upgrade(wait), Some(Mode::Upgradable)) => {
                self.leave(Mode::Upgradable);
                // SAFETY: the thread holds it.
                let got = unsafe { self.upgrade(*wait) };
                let mode = if got { Mode::Write } else { Mode::Upgradable };
                self.take(mode);
                local.held = Some(mode);
                return Seen(got);
            }
            (Op::Downgrade(to), Some(from)) => {
                if !may_downgrade(from, *to) {
                    local.held = Some(from);
                    return Seen(false);
                }
                self.leave(from);
                // SAFETY: the thread holds it. A reader that comes in between finds no write.
                unsafe {
                    match (from, to) {
                        (Mode::Write, Mode::Read) => self.lock.downgrade(),
                        (Mode::Write, _) => self.lock.downgrade_to_upgradable(),
                        _ => self.lock.downgrade_upgradable(),
                    }
                }
                self.take(*to);
                local.held = Some(*to);
            }
            (Op::Unlock { fair }, held) => {
                local.held = held;
                local.unlock(*fair);
            }
            (Op::ReadOften, None) => {
                for _ in 0..4000 {
                    if self.lock.try_lock_shared() {
                        self.take(Mode::Read);
                        self.leave(Mode::Read);
                        // SAFETY: the thread holds it.
                        unsafe { self.lock.unlock_shared() };
                    }
                }
            }
            (_, held) => local.held = held,
        }
        Seen(false)
    }

    fn finish(self) {
        assert!(!self.lock.is_locked(), "a lock that no thread holds is locked");
        assert!(self.lock.try_lock_exclusive(), "a lock that no thread holds cannot be taken");
        assert_eq!(self.count.into_inner(), self.writes.into_inner(), "counted under the lock, and written");
    }
}

fn may_downgrade(from: Mode, to: Mode) -> bool {
    matches!((from, to), (Mode::Write, Mode::Read | Mode::Upgradable) | (Mode::Upgradable, Mode::Read))
}

/// The expected behaviour.
#[derive(Debug)]
struct RwModel {
    held: [Option<Mode>; THREADS],
    /// What a thread waits for. One that upgrades holds an upgradable read while it waits.
    waits: [Option<Mode>; THREADS],
    /// The expected result of a try, if only one is correct.
    gets: Option<bool>,
}

impl RwModel {
    fn new() -> Self {
        Self { held: [None; THREADS], waits: [None; THREADS], gets: None }
    }

    fn others(&self, of: [Option<Mode>; THREADS], thread: usize) -> impl Iterator<Item = Mode> {
        of.into_iter().enumerate().filter(move |&(other, _)| other != thread).filter_map(|(_, mode)| mode)
    }

    /// Returns what becomes of a thread that wants the lock: it gets it, it does not, or either is correct, because
    /// another thread waits.
    fn outcome(&self, thread: usize, mode: Mode) -> Option<bool> {
        let excludes = |held: Mode| match mode {
            Mode::Read => held == Mode::Write,
            Mode::Upgradable => held != Mode::Read,
            Mode::Write => true,
        };
        if self.others(self.held, thread).any(excludes) {
            return Some(false);
        }
        let waits = |wait: Mode| match mode {
            Mode::Read => wait == Mode::Write,
            Mode::Upgradable => wait != Mode::Read,
            Mode::Write => true,
        };
        (!self.others(self.waits, thread).any(waits)).then_some(true)
    }
}

impl Model for RwModel {
    type Op = Op;
    type Seen = Seen;

    fn begin(&mut self, thread: usize, op: &Op) -> bool {
        let held = self.held[thread];
        self.gets = None;
        let (mode, wait) = match (op, held) {
            (&Op::Lock(mode, wait), None) => (mode, wait),
            (&Op::Upgrade(wait), Some(Mode::Upgradable)) => (Mode::Write, wait),
            (&Op::Downgrade(to), Some(from)) if may_downgrade(from, to) => {
                self.held[thread] = Some(to);
                return true;
            }
            (Op::Unlock { .. }, Some(_)) => {
                self.held[thread] = None;
                return true;
            }
            (Op::ReadOften, None) => return true,
            _ => return false,
        };
        match wait {
            Patience::Forever | Patience::Long => self.waits[thread] = Some(mode),
            Patience::Short | Patience::None => self.gets = self.outcome(thread, mode),
        }
        true
    }

    fn expect(&self, thread: usize) -> Expect {
        let Some(mode) = self.waits[thread] else { return Expect::Now };
        match self.outcome(thread, mode) {
            Some(false) => Expect::Never,
            Some(true) => Expect::Now,
            // If each holder waits too, for an upgrade, one of those that wait gets it.
            None if (0..THREADS).all(|other| self.held[other].is_none() || self.waits[other].is_some()) => {
                Expect::OneOf
            }
            None => Expect::Perhaps,
        }
    }

    fn end(&mut self, thread: usize, op: &Op, Seen(got): Seen) -> Result<(), String> {
        let expected = self.gets.take();
        self.waits[thread] = None;
        let mode = match *op {
            Op::Lock(mode, _) => mode,
            Op::Upgrade(_) => Mode::Write,
            _ => return Ok(()),
        };
        if expected.is_some_and(|expected| expected != got) {
            return Err(format!("{op:?} of thread {thread}: {got}, where the lock is free or not"));
        }
        if got {
            self.held[thread] = Some(mode);
        }
        Ok(())
    }

    fn last(&self, thread: usize) -> Option<Op> {
        self.held[thread].map(|_| Op::Unlock { fair: false })
    }
}

fn make(recursive: bool, broken: Broken) -> impl Fn(How) -> (TestState, RwModel) {
    move |_| (TestState::new(recursive, broken), RwModel::new())
}

#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    let broken = if crate::program::is_broken() { Broken::ReadsAnyway } else { Broken::Not };
    crate::program::fuzz(data, ops(), make(false, broken));
}

#[test]
fn programs_of_reads_and_writes_match_the_model() {
    holds(ops(), make(false, Broken::Not));
}

#[test]
fn programs_with_recursive_readers_match_the_model() {
    holds(ops(), make(true, Broken::Not));
}

#[test]
fn read_beside_a_write_is_found() {
    is_found(&["a read beside a write", "free or not"], 8, ops, make(false, Broken::ReadsAnyway));
}

#[test]
fn free_lock_that_cannot_be_written_is_found() {
    is_found(&["free or not"], 8, ops, make(false, Broken::WritesNever));
}
