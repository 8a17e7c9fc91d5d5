//! Turns of work that callers share: sequence arithmetic, leader election, sleeping.
//!
//! Somebody who wants a piece of work *done after now* (a grace period, a process-wide fence) need not do it himself: any
//! turn that **began** after he asked will do, whoever ran it. [`Sequence::join`] is that rule. A caller whose turn has
//! been run by somebody returns; otherwise he runs one if nobody does, or sleeps until it concerns him. He may also
//! [`ask`](Sequence::ask) now, and look ([`is_done`](Sequence::is_done)) or wait ([`wait_for`](Sequence::wait_for)) later.
//! Used by [`crate::fence`] for heavy fences and by [`crate::rcu`] for grace periods. The arithmetic is that of the Linux
//! kernel's `rcu_seq` (`kernel/rcu/rcu.h`).
//!
//! # State
//!
//! One 64-bit word, which is also the futex:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 3.. | `n` | turns completed |
//! | 2 | `NEXT` | somebody sleeps for turn `n + 2` |
//! | 1 | `THIS` | somebody sleeps for turn `n + 1` |
//! | 0 | `RUNNING` | turn `n + 1` has begun and has a leader |
//!
//! A sleeper's futex mask is the bit `target % 32`: as only two targets have sleepers at any time, a wake-up reaches
//! exactly those it is meant for.
//!
//! # Invariants
//!
//! 1. The word changes by read-modify-writes only, so every release sequence on it runs on for ever.
//! 2. At most one thread is between setting `RUNNING` and clearing it: the leader.
//! 3. A caller that finds `n` turns completed is served by turn `n + 1` if it has not begun, else by turn `n + 2`. If turn
//!    `n + 1` fails, it is run anew, and serves all callers that asked before it begins again: they may ask again.
//! 4. When nobody runs a turn and `THIS` is set, at least one thread that waits for turn `n + 1` is awake: the one that
//!    the last leader woke to lead, or one whose sleep failed because the word had changed.
//!
//! # Orderings
//!
//! - *Asking* is a read-modify-write with release; *beginning* one with acquire. If a turn that begins is to serve the
//!   caller, its beginning comes after his asking in the word's modification order (3), so by (1) it synchronizes with it:
//!   everything the caller did before happens before the turn.
//! - *Finishing* releases, *looking whether it is done* acquires: the turn happens before the callers' return.
//! - *Beginning* acquires from the last *finishing* too: turns happen one after another.
//! - Finishing needs no acquire: what callers released while the turn ran reaches the next leader through (1).

use core::num::NonZeroU32;

use crate::sync::{AtomicU64, Futex, Ordering::*, budget, const_unless_loom, spin_loop, step};

const RUNNING: u64 = 1;
const THIS: u64 = 2;
const NEXT: u64 = 4;
const SHIFT: u32 = 3;

/// Rounds a caller spins for somebody else's turn before he sleeps.
const SPINS: u32 = 64;

/// See the [module](self).
#[derive(Debug)]
pub struct Sequence {
    word: Futex,
    /// How often the sequence was one of a process that had just been forked: leaders of before are none.
    forks: AtomicU64,
}

/// The number of a turn whose completion serves its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(u64);

impl Target {
    fn is_done(self, word: u64) -> bool {
        word >> SHIFT >= self.0
    }

    /// Whether it is the first turn that is not completed.
    fn is_next(self, word: u64) -> bool {
        self.0 == (word >> SHIFT) + 1
    }

    /// The futex mask of those who wait for this turn.
    fn mask(self) -> NonZeroU32 {
        NonZeroU32::new(1 << (self.0 % 32)).expect("one bit is set")
    }
}

impl Sequence {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { word: Futex::new(0), forks: AtomicU64::new(0) }
        }
    }

    /// Turns completed so far.
    pub fn completed(&self) -> u64 {
        // Acquire: a statistic that is read afterwards is not older; partner: the Release in `replace`.
        self.word.load(Acquire) >> SHIFT
    }

    /// The turn to wait for: the first that begins after this call.
    pub fn ask(&self) -> Target {
        // Release: what the caller did happens before the turn; partner: the Acquire in `begin`. A read-modify-write, not
        // a load, so that a turn which begins later cannot miss it (invariant 1). Acquire costs nothing more and lets a
        // caller see what the turns before did.
        let word = self.word.fetch_add(0, AcqRel);
        let mut turn = (word >> SHIFT) + 1;
        // A turn that runs began before this call.
        step!("ask-joins-running-turn", turn += word & RUNNING);
        Target(turn)
    }

    /// The turn that is completed next, whether it runs or not.
    pub fn next(&self) -> Target {
        // Relaxed: an old answer is a turn that has been completed.
        Target((self.word.load(Relaxed) >> SHIFT) + 1)
    }

    /// The turn that runs, if one does.
    pub fn running(&self) -> Option<Target> {
        // Relaxed: an old answer is a turn that has been completed.
        let word = self.word.load(Relaxed);
        (word & RUNNING != 0).then_some(Target((word >> SHIFT) + 1))
    }

    /// Whether the turn has been completed.
    #[inline]
    pub fn is_done(&self, target: Target) -> bool {
        // Acquire: the turn happens before what the caller does next; partner: the Release in `finish`.
        target.is_done(self.word.load(Acquire))
    }

    /// Returns when a turn has been completed that began after the call: see [`wait_for`](Self::wait_for).
    pub fn join<E>(&self, turn: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        self.take_part(self.ask(), true, turn)
    }

    /// Returns when the turn has been completed; runs `turn` for it, and for all who wait, if nobody else does.
    ///
    /// # Errors
    ///
    /// That of `turn`, if this thread had to run it. The turn then does not count, and each of the others who wait runs
    /// one and finds out for himself. The same holds if `turn` panics.
    pub fn wait_for<E>(&self, target: Target, turn: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        self.take_part(target, false, turn)
    }

    /// The loop of all callers that wait. After a failure the caller asks again, if it may: its target may then never be completed,
    /// so it must not be one that is kept.
    fn take_part<E>(
        &self,
        mut target: Target,
        asks_again: bool,
        mut turn: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut spins = budget(SPINS);
        loop {
            // Acquire: the turn happens before our return; partner: the Release in `finish`.
            let word = self.word.load(Acquire);
            if target.is_done(word) {
                return Ok(());
            }
            if word & RUNNING == 0 {
                if asks_again && !target.is_next(word) {
                    // The turn that ran when the caller asked has failed: of those to come, the first serves. Not later than
                    // before, as others may have completed some by now.
                    step!("failure-waited-for", target = target.min(self.ask()));
                }
                if let Some(lead) = self.begin(word) {
                    turn()?;
                    lead.finish();
                }
            } else if spins > 0 {
                spins -= 1;
                spin_loop();
            } else {
                self.sleep(word, target);
            }
        }
    }

    /// Runs `turn`, unless there is a leader already. If it returns false, it does not count. Whether a turn has been completed.
    pub fn try_lead(&self, turn: impl FnOnce() -> bool) -> bool {
        // Relaxed: `begin` orders.
        let word = self.word.load(Relaxed);
        if word & RUNNING != 0 {
            return false;
        }
        let Some(lead) = self.begin(word) else { return false };
        let completed = turn();
        if completed {
            lead.finish();
        }
        completed
    }

    /// No turn runs, and nobody sleeps: for the only thread of a process, as after a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        // Relaxed: the only thread.
        self.forks.fetch_add(1, Relaxed);
        self.word.fetch_and(!(RUNNING | THIS | NEXT), Relaxed);
    }

    /// Becomes the leader, if the word is still `idle`.
    fn begin(&self, idle: u64) -> Option<Lead<'_>> {
        // Acquire: partner is the Release in `ask` of everybody this turn serves, and in `finish` of the turn before.
        let begun = self.word.compare_exchange(idle, idle | RUNNING, Acquire, Relaxed);
        // `then`, not `then_some`: a `Lead` that was never one must not be made, as dropping it ends a turn.
        begun.is_ok().then(|| Lead { sequence: self, forks: self.forks() })
    }

    /// Changes when the process is forked: a turn that began before is not one of this process.
    pub fn forks(&self) -> u64 {
        // Nothing forks in a model, and the load would be a step there.
        #[cfg(loom)]
        return 0;
        // Relaxed: changed by the only thread of a process.
        #[cfg(not(loom))]
        self.forks.load(Relaxed)
    }

    /// Sleeps until turn `target` is completed, or may be led by this thread; or for no reason.
    #[cold]
    fn sleep(&self, word: u64, target: Target) {
        let bit = if target.is_next(word) { THIS } else { NEXT };
        let marked = word | bit;
        // Relaxed: the bit asks for a wake-up and carries nothing else.
        if word == marked || self.word.compare_exchange(word, marked, Relaxed, Relaxed).is_ok() {
            self.word.wait(marked, target.mask());
        }
    }

    /// Replaces the word by `change` of it; the old word.
    fn replace(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut word = self.word.load(Relaxed);
        loop {
            // Release: the turn happens before what its callers do next; partners: the Acquires in `wait_for`,
            // `is_done` and `begin`.
            match self.word.compare_exchange(word, change(word), Release, Relaxed) {
                Ok(old) => return old,
                Err(now) => word = now,
            }
        }
    }
}

/// The right and duty of the one who runs a turn to end it. Dropped without [`finish`](Self::finish), the turn does not
/// count.
struct Lead<'a> {
    sequence: &'a Sequence,
    forks: u64,
}

impl Lead<'_> {
    /// Whether the process was forked during the turn, and this is the child: another thread may lead there.
    fn is_of_parent(&self) -> bool {
        self.sequence.forks() != self.forks
    }

    /// Completes the turn, wakes those it serves and one who will lead the next.
    fn finish(self) {
        if self.is_of_parent() {
            return;
        }
        let word = &self.sequence.word;
        let old = self.sequence.replace(|old| {
            let next_becomes_this = if old & NEXT != 0 { THIS } else { 0 };
            ((old >> SHIFT) + 1) << SHIFT | next_becomes_this
        });
        core::mem::forget(self);
        let completed = (old >> SHIFT) + 1;
        // The next leader first: he can start while we wake the others.
        if old & NEXT != 0 {
            step!("no-leader-woken", word.wake(1, Target(completed + 1).mask()));
        }
        if old & THIS != 0 {
            step!("served-not-woken", word.wake(u32::MAX, Target(completed).mask()));
        }
    }
}

impl Drop for Lead<'_> {
    /// The turn failed: nobody is served, everybody looks again.
    fn drop(&mut self) {
        if self.is_of_parent() {
            return;
        }
        let old = self.sequence.replace(|old| old & !(RUNNING | THIS | NEXT));
        if old & (THIS | NEXT) != 0 {
            step!("failure-not-told", self.sequence.word.wake(u32::MAX, NonZeroU32::MAX));
        }
    }
}
