//! Rounds of work that callers share: sequence arithmetic, leader election, sleeping.
//!
//! A caller that wants a piece of work *done after now* (a grace period, a process-wide fence) need not do it itself:
//! any round that **started** after its call serves it, whichever thread runs the round. [`SharedSeq::run_or_wait`]
//! returns when such a round has ended. Until then the caller runs a round if no other thread does, or sleeps. A
//! caller may also take a [`snapshot`](SharedSeq::snapshot), and check it ([`is_done`](SharedSeq::is_done)) or wait
//! for it ([`wait_for`](SharedSeq::wait_for)) later. [`crate::rcu`] shares grace periods. The arithmetic is that of
//! the Linux kernel's `rcu_seq` (`kernel/rcu/rcu.h`).
//!
//! # State
//!
//! One 64-bit word, which is also the futex:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 3.. | `n` | rounds completed |
//! | 2 | `WAITERS_NEXT` | a thread sleeps for round `n + 2` |
//! | 1 | `WAITERS_THIS` | a thread sleeps for round `n + 1` |
//! | 0 | `IN_PROGRESS` | round `n + 1` has started and has a leader |
//!
//! A sleeper's futex mask is the bit `snapshot % 32`. Only two rounds have sleepers at any time, so a wake-up reaches
//! exactly the threads that it is meant for.
//!
//! # Invariants
//!
//! 1. The word changes by read-modify-writes only, so every release sequence on it continues for ever.
//! 2. At most one thread is between setting `IN_PROGRESS` and clearing it: the leader.
//! 3. A caller that finds `n` rounds completed is served by round `n + 1` if that has not started, else by round
//!    `n + 2`. If round `n + 1` fails, it is run again, and serves all callers that came before it starts again: they
//!    may take a new snapshot.
//! 4. If no round is in progress and `WAITERS_THIS` is set, at least one thread that waits for round `n + 1` is
//!    awake: the one that the last leader woke to lead, or one whose sleep failed because the word had changed.
//!
//! # Orderings
//!
//! If a round is to serve a caller, its *start* (Acquire) comes after the *snapshot* (Release) in the word's
//! modification order (3), so by (1) it synchronizes with the snapshot: all that the caller did before happens before
//! the round. The start acquires from the last *end* (Release) too, as do all that check whether a round is done:
//! rounds happen one after another, and before the return of their callers. The end needs no Acquire: what callers
//! released during the round reaches the next leader through (1).

use core::num::NonZeroU32;

use super::{Futex, Ordering::*, budget, const_unless_loom, spin_loop, step};

const IN_PROGRESS: u64 = 1;
const WAITERS_THIS: u64 = 2;
const WAITERS_NEXT: u64 = 4;
const SHIFT: u32 = 3;

/// How often a caller checks a round in progress before it sleeps.
const SPINS: u32 = 64;

/// See the [module](self).
#[derive(Debug)]
pub struct SharedSeq {
    word: Futex,
}

/// The number of the round that serves a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqSnapshot(u64);

impl SeqSnapshot {
    pub fn number(self) -> u64 {
        self.0
    }

    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    fn is_done(self, word: u64) -> bool {
        word >> SHIFT >= self.0
    }

    /// Returns `true` if it is the first round that is not completed.
    fn is_next(self, word: u64) -> bool {
        self.0 == (word >> SHIFT) + 1
    }

    /// The futex mask of the threads that wait for this round.
    fn mask(self) -> NonZeroU32 {
        NonZeroU32::new(1 << (self.0 % 32)).expect("one bit is set")
    }
}

impl SharedSeq {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { word: Futex::new(0) }
        }
    }

    /// Returns how many rounds have been completed.
    pub fn completed(&self) -> u64 {
        // Acquire: statistics that are read afterwards are not older, and what hazard pointers protect is looked up
        // after these rounds; pairs with the Release in `update`.
        self.word.load(Acquire) >> SHIFT
    }

    /// Returns the round to wait for: the first that starts after this call.
    pub fn snapshot(&self) -> SeqSnapshot {
        // Release: publishes what the caller did; pairs with the Acquire in `start`. A read-modify-write, not a load,
        // so that a round which starts later cannot miss it (invariant 1). Acquire costs nothing more, and lets a
        // caller see what the rounds before did.
        let word = self.word.fetch_add(0, AcqRel);
        let mut round = (word >> SHIFT) + 1;
        // A round in progress started before this call.
        step!("snapshot-joins-current-round", round += word & IN_PROGRESS);
        SeqSnapshot(round)
    }

    /// Returns the round that is completed next, and whether it is in progress.
    pub fn next_round(&self) -> (SeqSnapshot, bool) {
        // Relaxed: an old answer is a round that has been completed.
        let word = self.word.load(Relaxed);
        (SeqSnapshot((word >> SHIFT) + 1), word & IN_PROGRESS != 0)
    }

    /// Returns `true` if the round has been completed.
    #[inline]
    pub fn is_done(&self, snapshot: SeqSnapshot) -> bool {
        // Acquire: the round happens before what the caller does next; pairs with the Release in `update`.
        snapshot.is_done(self.word.load(Acquire))
    }

    /// Blocks until a round has been completed that started after the call: see [`wait_for`](Self::wait_for).
    pub fn run_or_wait(&self, run: impl FnMut()) {
        self.run_or_sleep(self.snapshot(), true, run);
    }

    /// Blocks until the round has been completed. Calls `run`, on behalf of all waiters, if no other thread does.
    ///
    /// # Panics
    ///
    /// If this thread called `run`, and that panics. The round then does not count, and each of the other waiters
    /// runs one itself.
    pub fn wait_for(&self, snapshot: SeqSnapshot, run: impl FnMut()) {
        self.run_or_sleep(snapshot, false, run);
    }

    /// The loop of all waiters. If `may_renew`, no copy of the snapshot is kept: after a failed round the waiter
    /// takes a new one, which may be smaller.
    fn run_or_sleep(&self, mut snapshot: SeqSnapshot, may_renew: bool, mut run: impl FnMut()) {
        let mut spins = budget(SPINS);
        loop {
            // Acquire: the round happens before the return; pairs with the Release in `update`.
            let word = self.word.load(Acquire);
            if snapshot.is_done(word) {
                return;
            }
            if word & IN_PROGRESS == 0 {
                if may_renew && !snapshot.is_next(word) {
                    // The round that was in progress at the snapshot has failed, so the next one serves. `min`, as
                    // other threads may have completed rounds since.
                    step!("failure-waited-for", snapshot = snapshot.min(self.snapshot()));
                }
                if let Some(leader) = self.start(word) {
                    run();
                    leader.end();
                }
            } else if spins > 0 {
                spins -= 1;
                spin_loop();
            } else {
                self.sleep(word, snapshot);
            }
        }
    }

    /// Calls `run`, and returns its result: the round counts if that is `true`. Returns `None` if there is a leader.
    pub fn try_run(&self, run: impl FnOnce() -> bool) -> Option<bool> {
        // Relaxed: `start` orders.
        let word = self.word.load(Relaxed);
        if word & IN_PROGRESS != 0 {
            return None;
        }
        let leader = self.start(word)?;
        let completed = run();
        if completed {
            leader.end();
        }
        Some(completed)
    }

    /// Forgets the round in progress and its waiters. For the only thread of a process, as after a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        // Relaxed: the only thread.
        self.word.fetch_and(!(IN_PROGRESS | WAITERS_THIS | WAITERS_NEXT), Relaxed);
    }

    /// Becomes the leader, if the word is still `idle`.
    fn start(&self, idle: u64) -> Option<Leader<'_>> {
        // Acquire: pairs with the Release in `snapshot` of each caller that this round serves, and in `update` of the
        // last round.
        let started = self.word.compare_exchange(idle, idle | IN_PROGRESS, Acquire, Relaxed);
        // `then`, not `then_some`: dropping a `Leader` ends a round, so there must be none that did not start one.
        started.is_ok().then(|| Leader { seq: self })
    }

    /// Sleeps until the round is completed, or this thread may lead it. May return spuriously.
    #[cold]
    fn sleep(&self, word: u64, snapshot: SeqSnapshot) {
        let bit = if snapshot.is_next(word) { WAITERS_THIS } else { WAITERS_NEXT };
        let marked = word | bit;
        // Relaxed: the bit asks for a wake-up and carries nothing else.
        if word == marked || self.word.compare_exchange(word, marked, Relaxed, Relaxed).is_ok() {
            self.word.wait(marked, snapshot.mask());
        }
    }

    /// Replaces the word by `change` of it. Returns the old word.
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut word = self.word.load(Relaxed);
        loop {
            // Release: publishes what the round did; pairs with the Acquires in `run_or_sleep`, `is_done` and
            // `start`.
            match self.word.compare_exchange(word, change(word), Release, Relaxed) {
                Ok(old) => return old,
                Err(now) => word = now,
            }
        }
    }
}

/// The leader of a round. Dropped without [`end`](Self::end), the round does not count.
struct Leader<'a> {
    seq: &'a SharedSeq,
}

impl Leader<'_> {
    /// Completes the round. Wakes the threads that it serves, and the leader of the next round.
    fn end(self) {
        let word = &self.seq.word;
        let old = self.seq.update(|old| {
            let next_becomes_this = if old & WAITERS_NEXT != 0 { WAITERS_THIS } else { 0 };
            ((old >> SHIFT) + 1) << SHIFT | next_becomes_this
        });
        core::mem::forget(self);
        let completed = (old >> SHIFT) + 1;
        // The next leader first: it can start while this thread wakes the others.
        if old & WAITERS_NEXT != 0 {
            step!("no-leader-woken", word.wake(1, SeqSnapshot(completed + 1).mask()));
        }
        if old & WAITERS_THIS != 0 {
            step!("served-not-woken", word.wake(u32::MAX, SeqSnapshot(completed).mask()));
        }
    }
}

impl Drop for Leader<'_> {
    /// The round failed: it serves no caller, and all waiters check the word again.
    fn drop(&mut self) {
        let old = self.seq.update(|old| old & !(IN_PROGRESS | WAITERS_THIS | WAITERS_NEXT));
        if old & (WAITERS_THIS | WAITERS_NEXT) != 0 {
            step!("failure-not-reported", self.seq.word.wake(u32::MAX, NonZeroU32::MAX));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn try_that_succeeds_counts() {
        let seq = SharedSeq::new();
        let snapshot = seq.snapshot();
        assert_eq!(seq.try_run(|| false), Some(false));
        assert_eq!((seq.completed(), seq.is_done(snapshot)), (0, false));
        assert_eq!(seq.try_run(|| seq.try_run(|| false).is_none()), Some(true));
        assert_eq!((seq.completed(), seq.is_done(snapshot)), (1, true));
    }

    #[test]
    fn snapshot_during_a_try_that_fails_takes_two_rounds() {
        let seq = SharedSeq::new();
        let mut snapshot = None;
        assert_eq!(seq.try_run(|| snapshot.insert(seq.snapshot()).is_done(0)), Some(false));
        let snapshot = snapshot.expect("the try has run");
        assert!(snapshot > seq.snapshot());
        for is_done in [false, true] {
            assert_eq!(seq.try_run(|| true), Some(true));
            assert_eq!(seq.is_done(snapshot), is_done);
        }
    }
}
