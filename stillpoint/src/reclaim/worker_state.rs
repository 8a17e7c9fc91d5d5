//! When a domain's worker sleeps, and who wakes it.
//!
//! Whoever appends an entry looks at one word that hardly ever changes, and does nothing if a worker is about. The worker
//! pays for both sides: before it stops it issues a heavy fence and looks at the queues once more.
//!
//! # State
//!
//! | state | worker | what makes it [`RUNNING`] |
//! |---|---|---|
//! | [`IDLE`] | none | any entry; whoever appended it gets a worker |
//! | [`LAZY_WAIT`] | sleeps until lazy entries are due | an entry that is not lazy, somebody urgent, time |
//! | [`RATE_LIMITED`] | sleeps until the next round may begin | somebody urgent, time |
//! | [`RUNNING`] | at work; looks at the queues again before it leaves this state | |
//!
//! # Invariants
//!
//! 1. At most one worker is at work for a domain: from the change of `IDLE` to `RUNNING`, whose maker provides it, to the
//!    worker's change of `RUNNING` to `IDLE` that nobody undoes.
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
pub const LAZY_WAIT: u64 = 1;
pub const RATE_LIMITED: u64 = 2;
pub const RUNNING: u64 = 3;

const ANYBODY: NonZeroU32 = NonZeroU32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub struct WorkerState {
    state: Futex,
}

/// What became of a worker that wanted to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum GoIdle {
    /// There is work: it goes on.
    WorkFound,
    /// It is the worker no more.
    Idle,
}

impl WorkerState {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { state: Futex::new(IDLE) }
        }
    }

    /// After appending an entry: whether the caller must [`wake`](Self::wake), or, if the entry is lazy,
    /// [`wake_if_idle`](Self::wake_if_idle).
    #[inline(always)]
    pub fn needs_wake(&self, lazy: bool) -> bool {
        // Partner: the heavy fence in `leave_running` (2).
        light();
        // Relaxed: see (2).
        self.state.load(Relaxed) < if lazy { LAZY_WAIT } else { RATE_LIMITED }
    }

    /// Whether the worker sleeps until lazy entries are due, or the next round may begin.
    pub fn is_sleeping(&self) -> bool {
        // The backlog that the caller has made longer is read by the worker behind its heavy fence: as in (2).
        light();
        matches!(self.state.load(Relaxed), LAZY_WAIT | RATE_LIMITED)
    }

    /// Whether there is no worker.
    pub fn is_idle(&self) -> bool {
        // Relaxed: whoever must see that a worker was not to be had is notified by the `EventCount` of `CallbackWorker`, which orders it.
        self.state.load(Relaxed) == IDLE
    }

    /// Sets the worker to work. True if there is none: the caller must provide one.
    #[must_use]
    pub fn wake(&self) -> bool {
        // Release: that the caller is urgent, and what it waits for. Partner: the Acquire in `leave_running`. Acquire: the worker
        // that is provided comes after the last one; partner: the Release in `leave_running`.
        let old = self.state.swap(RUNNING, AcqRel);
        if matches!(old, LAZY_WAIT | RATE_LIMITED) {
            step!("sleep-not-ended", self.state.wake(1, ANYBODY));
        }
        old == IDLE
    }

    /// Provides for a worker that will look at lazy entries, if there is none. True as for [`wake`](Self::wake).
    #[must_use]
    pub fn wake_if_idle(&self) -> bool {
        // Acquire as in `wake`. Relaxed: a failure says that a worker is about, which looks again (2).
        self.state.compare_exchange(IDLE, RUNNING, Acquire, Relaxed).is_ok()
    }

    /// For who could not provide a worker, or has been one for long enough: there is none.
    pub fn give_up(&self) {
        // Release: partner is the Acquire in `wake`, of the next worker's maker. Whoever rang meanwhile relied on us, and
        // appends again some day, or waits and is notified.
        self.state.swap(IDLE, Release);
    }

    /// For the worker: sleeps for `time` in the state `sleep_timeout`, which is [`LAZY_WAIT`] or [`RATE_LIMITED`], unless `work` finds some after
    /// `fence`.
    pub fn sleep_timeout(&self, nap: u64, time: Duration, fence: impl FnOnce(), work: impl FnOnce() -> bool) {
        if self.leave_running(nap, fence, work) == GoIdle::WorkFound {
            return;
        }
        // One sleep: who is woken early, or by a signal, looks at the queues; that does no harm.
        self.state.wait_timeout(nap, ANYBODY, time);
        // Relaxed: if the worker misses what the one who rang did, it learns of it before it sleeps again, in `leave_running`.
        self.state.swap(RUNNING, Relaxed);
    }

    /// For the worker: stops being one, unless `work` finds some after `fence`.
    pub fn try_go_idle(&self, fence: impl FnOnce(), work: impl FnOnce() -> bool) -> GoIdle {
        self.leave_running(IDLE, fence, work)
    }

    /// Changes the state to `rest`, unless there is work.
    fn leave_running(&self, rest: u64, fence: impl FnOnce(), work: impl FnOnce() -> bool) -> GoIdle {
        // Release: partner is the Acquire in `wake` of the next worker's maker. Acquire: partner is the Release of whoever
        // rang before (3).
        self.state.swap(rest, AcqRel);
        step!("no-fence-before-check", fence());
        if !work() {
            return GoIdle::Idle;
        }
        // Acquire: another worker may have come and gone meanwhile; partner: the Release above. Relaxed: as at the end of `sleep_timeout`.
        match self.state.compare_exchange(rest, RUNNING, Acquire, Relaxed) {
            Ok(_) => GoIdle::WorkFound,
            // Somebody has rung. From `IDLE`, he has provided another worker (1); else we are the one he means.
            Err(_) if rest == IDLE => GoIdle::Idle,
            Err(_) => GoIdle::WorkFound,
        }
    }
}
