//! When a domain's worker sleeps, and which thread wakes it.
//!
//! A thread that has pushed a callback loads one word that hardly ever changes, and does nothing if a worker is
//! running. The worker pays for both sides: before it sleeps, it executes a heavy fence and looks at the queues once
//! more.
//!
//! # State
//!
//! | state | worker | what changes it to [`RUNNING`] |
//! |---|---|---|
//! | [`IDLE`] | none | a push; the thread that changes it provides a worker |
//! | [`PARKED`] | none until lazy callbacks must run, or until a thread is to try again ([`super::lazy_timer`]) | a push that is not lazy, an urgent caller, time; the thread that changes it provides a worker |
//! | [`LAZY_WAIT`] | sleeps until an owner has run its callbacks, or as `PARKED` if there is no thread for that | a push that is not lazy, an urgent caller, time |
//! | [`RATE_LIMITED`] | sleeps until the next round may begin | an urgent caller, time |
//! | [`RUNNING`] | runs; looks at the queues again before it leaves this state | |
//!
//! # Invariants
//!
//! 1. A domain has at most one worker: from the change of `IDLE` or `PARKED` to `RUNNING`, whose thread provides the
//!    worker, to the worker's change of `RUNNING` to `IDLE` or `PARKED` that it does not undo.
//! 2. *No callback is forgotten.* The owner pushes, executes a light fence and loads the state. The worker changes the
//!    state, executes a heavy fence and looks at the queues. If the owner's fence came first, the worker finds the
//!    callback. If the worker's came first, the owner finds the state that it must change.
//! 3. An urgent caller publishes that it is urgent, and then changes the state by a read-modify-write. The worker
//!    changes the state by a read-modify-write, and then looks for urgent callers. One of the two changes comes second,
//!    and acquires the other.
//! 4. *A parked domain is resumed.* The worker leaves a task that calls [`resume`](WorkerState::resume), changes the
//!    state, and looks whether a thread has taken the task. If none has, the thread that takes it later finds
//!    the state that it must change.

use core::num::NonZeroU32;
use std::time::Duration;

use crate::fence::light;
use crate::sync::{Futex, Ordering::*, const_unless_loom, step};

pub const IDLE: u64 = 0;
pub const PARKED: u64 = 1;
pub const LAZY_WAIT: u64 = 2;
pub const RATE_LIMITED: u64 = 3;
pub const RUNNING: u64 = 4;

const ALL: NonZeroU32 = NonZeroU32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub struct WorkerState {
    state: Futex,
}

/// The result of a worker's attempt to leave [`RUNNING`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum GoIdle {
    /// There is work: the worker continues.
    WorkFound,
    /// The state has changed.
    Idle,
}

impl WorkerState {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { state: Futex::new(IDLE) }
        }
    }

    /// After a push: returns `true` if the caller must [`wake`](Self::wake), or, if the callback is lazy,
    /// [`wake_if_idle`](Self::wake_if_idle).
    #[inline(always)]
    pub fn needs_wake(&self, lazy: bool) -> bool {
        // Pairs with the heavy fence in `leave_running` (2).
        light();
        // Relaxed: see (2).
        self.state.load(Relaxed) < if lazy { PARKED } else { RATE_LIMITED }
    }

    /// Returns `true` if the worker sleeps or the domain is parked.
    pub fn is_sleeping(&self) -> bool {
        // The worker reads the backlog, which the caller has increased, after its heavy fence: as in (2). Before a pause
        // for owners that reclaim by themselves there is no fence: the worker may miss the increase for that pause.
        light();
        matches!(self.state.load(Relaxed), PARKED | LAZY_WAIT | RATE_LIMITED)
    }

    /// Returns the name of the state.
    #[cfg(feature = "statistics-page")]
    pub fn name(&self) -> &'static str {
        // Relaxed: for statistics only.
        match self.state.load(Relaxed) {
            IDLE => "idle",
            PARKED => "parked",
            LAZY_WAIT => "lazy_wait",
            RATE_LIMITED => "rate_limited",
            _ => "running",
        }
    }

    /// Returns `true` if there is no worker, nor a task that will provide one.
    pub fn is_idle(&self) -> bool {
        // Relaxed: a thread that must see that no worker could be started is notified by an `EventCount`, which orders
        // it.
        self.state.load(Relaxed) == IDLE
    }

    /// Returns `true` if there is no worker, though the domain may be parked.
    pub fn has_no_worker(&self) -> bool {
        // Relaxed: as in `is_idle`.
        self.state.load(Relaxed) <= PARKED
    }

    /// Wakes the worker. Returns `true` if there is none: the caller must provide one.
    #[must_use]
    pub fn wake(&self) -> bool {
        // Release: publishes that the caller is urgent; pairs with the Acquire in `leave_running`. Acquire: the new
        // worker comes after the last one; pairs with the Release in `leave_running`.
        let old = self.state.swap(RUNNING, AcqRel);
        if matches!(old, LAZY_WAIT | RATE_LIMITED) {
            step!("sleep-not-ended", self.state.wake(1, ALL));
        }
        old <= PARKED
    }

    /// Like [`wake`](Self::wake), but lets a worker sleep.
    #[must_use]
    pub fn wake_if_idle(&self) -> bool {
        // Acquire: as in `wake`. Relaxed: a failure means that there is a worker, which looks again (2).
        self.state.compare_exchange(IDLE, RUNNING, Acquire, Relaxed).is_ok()
    }

    /// For the task of a parked domain: returns `true` if the caller must provide a worker.
    #[must_use]
    pub fn resume(&self) -> bool {
        // Acquire: as in `wake`. Relaxed: a failure means that there is a worker, or none because none could be provided
        // for the parked domain.
        self.state.compare_exchange(PARKED, RUNNING, Acquire, Relaxed).is_ok() || self.wake_if_idle()
    }

    /// For a caller that could not provide a worker: there is none.
    pub fn give_up(&self) {
        // Release: pairs with the Acquire in `wake` by the next worker's provider. A thread that has
        // relied on this worker pushes again some day, or waits and is notified.
        self.state.swap(IDLE, Release);
    }

    /// For the worker: sleeps for `time` in the state `rest`, [`LAZY_WAIT`] or [`RATE_LIMITED`], unless `has_work`
    /// returns `true` after `fence`.
    pub fn sleep_timeout(
        &self,
        rest: u64,
        time: Duration,
        fence: impl FnOnce(),
        has_work: impl FnOnce() -> bool,
    ) {
        if self.leave_running(rest, fence, has_work) == GoIdle::WorkFound {
            return;
        }
        // Once: if the sleep ends early, the worker looks at the queues, which does no harm.
        self.state.wait_timeout(rest, ALL, time);
        // Relaxed: if the worker misses what the thread that woke it did, it acquires that in `leave_running`, before
        // it sleeps again.
        self.state.swap(RUNNING, Relaxed);
    }

    /// For the worker: changes the state to `rest`, unless `has_work` returns `true` after `fence`.
    pub fn leave_running(&self, rest: u64, fence: impl FnOnce(), has_work: impl FnOnce() -> bool) -> GoIdle {
        // Release: pairs with the Acquire in `wake` by the next worker's provider. Acquire: pairs with the Release in
        // an earlier `wake` (3).
        self.state.swap(rest, AcqRel);
        step!("no-fence-before-check", fence());
        if !has_work() {
            return GoIdle::Idle;
        }
        // Acquire: another worker may have come and gone since; pairs with the Release above. Relaxed: as in
        // `sleep_timeout`.
        match self.state.compare_exchange(rest, RUNNING, Acquire, Relaxed) {
            Ok(_) => GoIdle::WorkFound,
            // A `wake` came first. From `IDLE` or `PARKED` its caller provides another worker (1); otherwise it means
            // this one.
            Err(_) if rest <= PARKED => GoIdle::Idle,
            Err(_) => GoIdle::WorkFound,
        }
    }
}
