//! When a domain's worker sleeps, and who wakes it.
//!
//! Whoever appends an entry looks at one word that hardly ever changes, and does nothing if a worker is about. The worker
//! pays for both sides: before it stops it issues a heavy fence and looks at the queues once more.
//!
//! # State
//!
//! | state | worker | what makes it [`RUN`] |
//! |---|---|---|
//! | [`IDLE`] | none | any entry; whoever appended it gets a worker |
//! | [`DROWSY`] | sleeps until lazy entries are due | an entry that is not lazy, somebody urgent, time |
//! | [`PACED`] | sleeps until the next round may begin | somebody urgent, time |
//! | [`RUN`] | at work; looks at the queues again before it leaves this state | |
//!
//! # Invariants
//!
//! 1. At most one worker is at work for a domain: from the change of `IDLE` to `RUN`, whose maker provides it, to the
//!    worker's change of `RUN` to `IDLE` that nobody undoes.
//! 2. *No entry is forgotten.* The owner appends, passes a light fence and loads the state. The worker changes the state,
//!    issues a heavy fence and looks at the queues. If the owner's fence came first, the worker finds the entry. If the
//!    worker's came first, the owner finds the state that it must change.
//! 3. Somebody urgent says so first and then changes the state by a read-modify-write; so does the worker, and then asks
//!    whether somebody is. One of the two comes second, and sees the other.

use core::num::NonZeroU32;
use std::time::Duration;

use crate::fence::light;
use crate::sync::{Futex, Ordering::*, const_unless_loom, step};

pub const IDLE: u64 = 0;
pub const DROWSY: u64 = 1;
pub const PACED: u64 = 2;
pub const RUN: u64 = 3;

const ANYBODY: NonZeroU32 = NonZeroU32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub struct Alarm {
    state: Futex,
}

/// What became of a worker that wanted to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Slept {
    /// There is work: it goes on.
    No,
    /// It is the worker no more.
    Gone,
}

impl Alarm {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { state: Futex::new(IDLE) }
        }
    }

    /// After appending an entry: whether the caller must [`ring`](Self::ring), or, if the entry is lazy,
    /// [`stir`](Self::stir).
    #[inline(always)]
    pub fn must_ring(&self, lazy: bool) -> bool {
        // Partner: the heavy fence in `settle` (2).
        light();
        // Relaxed: see (2).
        self.state.load(Relaxed) < if lazy { DROWSY } else { PACED }
    }

    /// Whether the worker sleeps until lazy entries are due, or the next round may begin.
    pub fn naps(&self) -> bool {
        // The backlog that the caller has made longer is read by the worker behind its heavy fence: as in (2).
        light();
        matches!(self.state.load(Relaxed), DROWSY | PACED)
    }

    /// Whether there is no worker.
    pub fn is_idle(&self) -> bool {
        // Relaxed: whoever must see that a worker was not to be had is notified by the `EventCount` of `Callbacks`, which orders it.
        self.state.load(Relaxed) == IDLE
    }

    /// Sets the worker to work. True if there is none: the caller must provide one.
    #[must_use]
    pub fn ring(&self) -> bool {
        // Release: that the caller is urgent, and what it waits for. Partner: the Acquire in `settle`. Acquire: the worker
        // that is provided comes after the last one; partner: the Release in `settle`.
        let old = self.state.swap(RUN, AcqRel);
        if matches!(old, DROWSY | PACED) {
            step!("nap-not-ended", self.state.wake(1, ANYBODY));
        }
        old == IDLE
    }

    /// Provides for a worker that will look at lazy entries, if there is none. True as for [`ring`](Self::ring).
    #[must_use]
    pub fn stir(&self) -> bool {
        // Acquire as in `ring`. Relaxed: a failure says that a worker is about, which looks again (2).
        self.state.compare_exchange(IDLE, RUN, Acquire, Relaxed).is_ok()
    }

    /// For who could not provide a worker, or has been one for long enough: there is none.
    pub fn give_up(&self) {
        // Release: partner is the Acquire in `ring`, of the next worker's maker. Whoever rang meanwhile relied on us, and
        // appends again some day, or waits and is notified.
        self.state.swap(IDLE, Release);
    }

    /// For the worker: sleeps for `time` in the state `nap`, which is [`DROWSY`] or [`PACED`], unless `work` finds some after
    /// `fence`.
    pub fn nap(&self, nap: u64, time: Duration, fence: impl FnOnce(), work: impl FnOnce() -> bool) {
        if self.settle(nap, fence, work) == Slept::No {
            return;
        }
        // One sleep: who is woken early, or by a signal, looks at the queues; that does no harm.
        self.state.wait_timeout(nap, ANYBODY, time);
        // Relaxed: if the worker misses what the one who rang did, it learns of it before it sleeps again, in `settle`.
        self.state.swap(RUN, Relaxed);
    }

    /// For the worker: stops being one, unless `work` finds some after `fence`.
    pub fn stop(&self, fence: impl FnOnce(), work: impl FnOnce() -> bool) -> Slept {
        self.settle(IDLE, fence, work)
    }

    /// Changes the state to `rest`, unless there is work.
    fn settle(&self, rest: u64, fence: impl FnOnce(), work: impl FnOnce() -> bool) -> Slept {
        // Release: partner is the Acquire in `ring` of the next worker's maker. Acquire: partner is the Release of whoever
        // rang before (3).
        self.state.swap(rest, AcqRel);
        step!("no-fence-before-look", fence());
        if !work() {
            return Slept::Gone;
        }
        // Acquire: another worker may have come and gone meanwhile; partner: the Release above. Relaxed: as at the end of `nap`.
        match self.state.compare_exchange(rest, RUN, Acquire, Relaxed) {
            Ok(_) => Slept::No,
            // Somebody has rung. From `IDLE`, he has provided another worker (1); else we are the one he means.
            Err(_) if rest == IDLE => Slept::Gone,
            Err(_) => Slept::No,
        }
    }
}
