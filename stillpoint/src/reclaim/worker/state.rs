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
//! | [`PARKED`] | none until a thread is to try again, or to look at what hazard pointers keep ([`crate::reclaim::pool`]) | a push, if it is time to try to start a thread or the domain is parked for long, an urgent caller, time; the thread that changes it provides a worker |
//! | [`RETRYING`] | none until a thread is to try the grace period ([`crate::reclaim::pool`]) | an urgent caller, time; the thread that changes it provides a worker |
//! | [`RATE_LIMITED`] | sleeps until the next round may begin | an urgent caller, time |
//! | [`RUNNING`] | runs; looks at the queues again before it leaves this state | |
//!
//! # Invariants
//!
//! 1. A domain has at most one worker: from the change of `IDLE`, `PARKED` or `RETRYING` to `RUNNING`, whose thread
//!    provides the worker, to the worker's change of `RUNNING` to one of these that it does not undo.
//! 2. *No callback is forgotten.* The owner pushes, executes a light fence and loads the state. The worker changes
//!    the state, executes a heavy fence and looks at the queues. If the owner's fence came first, the worker finds
//!    the callback. If the worker's came first, the owner finds the state that it must change.
//! 3. An urgent caller publishes that it is urgent, and then changes the state by a read-modify-write. The worker
//!    changes the state by a read-modify-write, and then looks for urgent callers. One of the two changes comes
//!    second, and acquires the other.
//! 4. *A parked domain is resumed*, `PARKED` or `RETRYING`. The worker leaves a task that calls
//!    [`resume`](WorkerState::resume), changes the state, and looks whether a thread has taken the task. If none has,
//!    the thread that takes it later finds the state that it must change. So a push that finds the domain parked may
//!    leave it so: a later worker finds the callback, as it executes a heavy fence before it leaves the domain `IDLE`.

use core::num::NonZeroU32;
// Not of `sync`: no decision depends on the words of `Slice`, so models need not have them.
use core::sync::atomic::{AtomicU32 as Unmodelled32, AtomicU64 as Unmodelled};
use std::time::Duration;

use crate::fence::light;
use crate::grace_period::detector::Tried;
use crate::reclaim::backlog::Backlog;
use crate::reclaim::limited::LimitWaiters;
use crate::reclaim::poller::BarrierRounds;
use crate::sync::{AtomicU64, CachePadded, EventCount, Futex, Ordering::*, const_unless_loom, step};

pub const IDLE: u64 = 0;
pub const PARKED: u64 = 1;
pub const RETRYING: u64 = 2;
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

    /// After a push: returns `true` if the caller must [`wake`](Self::wake).
    #[inline(always)]
    pub fn needs_wake(&self) -> bool {
        // Pairs with the heavy fence in `leave_running` (2).
        light();
        // Relaxed: see (2).
        self.state.load(Relaxed) < RETRYING
    }

    /// Returns `true` if the worker sleeps or the domain is parked.
    pub fn is_sleeping(&self) -> bool {
        // Relaxed: a hint. The worker may miss what the caller has just changed for one pause.
        matches!(self.state.load(Relaxed), PARKED | RATE_LIMITED)
    }

    /// Returns the name of the state.
    #[cfg(feature = "statistics-page")]
    pub fn name(&self) -> &'static str {
        // Relaxed: for statistics only.
        match self.state.load(Relaxed) {
            IDLE => "idle",
            PARKED | RETRYING => "parked",
            RATE_LIMITED => "rate_limited",
            _ => "running",
        }
    }

    /// After [`needs_wake`](Self::needs_wake): returns `true` if a thread will resume the domain.
    pub fn is_parked(&self) -> bool {
        // Relaxed: see (4).
        self.state.load(Relaxed) == PARKED
    }

    /// Returns `true` if there is no worker, nor a task that will provide one.
    pub fn is_idle(&self) -> bool {
        // Relaxed: a thread that must see that no worker could be started is notified by an `EventCount`, which
        // orders it.
        self.state.load(Relaxed) == IDLE
    }

    /// Returns `true` if there is no worker, though the domain may be parked; if it is [`RETRYING`], only where
    /// `others_may_wait` for the caller, so that it must not wait for them.
    pub fn has_no_worker(&self, others_may_wait: bool) -> bool {
        // Relaxed: as in `is_idle`.
        self.state.load(Relaxed) <= if others_may_wait { RETRYING } else { PARKED }
    }

    /// Wakes the worker. Returns `true` if there is none: the caller must provide one.
    #[must_use]
    pub fn wake(&self) -> bool {
        // Release: publishes that the caller is urgent; pairs with the Acquire in `leave_running`. Acquire: the new
        // worker comes after the last one; pairs with the Release in `leave_running`.
        let old = self.state.swap(RUNNING, AcqRel);
        if old == RATE_LIMITED {
            step!("sleep-not-ended", self.state.wake(1, ALL));
        }
        old <= RETRYING
    }

    /// For the task of a parked domain: returns `true` if the caller must provide a worker.
    #[must_use]
    pub fn resume(&self) -> bool {
        // Acquire: as in `wake`. Relaxed: a failure means that there is a worker, or none because none could be
        // provided for the parked domain.
        let begins = |from| self.state.compare_exchange(from, RUNNING, Acquire, Relaxed).is_ok();
        begins(RETRYING) || begins(PARKED) || begins(IDLE)
    }

    /// For a caller that could not provide a worker: there is none.
    pub fn give_up(&self) {
        // Release: pairs with the Acquire in `wake` by the next worker's provider. A thread that has
        // relied on this worker pushes again some day, or waits and is notified.
        self.state.swap(IDLE, Release);
    }

    /// For the worker: sleeps for `time` in the state [`RATE_LIMITED`], unless `has_work` returns `true`. Without a
    /// fence: see (3).
    pub fn sleep_timeout(&self, time: Duration, has_work: &dyn Fn() -> bool) {
        if self.leave_running(RATE_LIMITED, || (), has_work) == GoIdle::WorkFound {
            return;
        }
        // Once: if the sleep ends early, the worker looks at the queues, which does no harm.
        self.state.wait_timeout(RATE_LIMITED, ALL, time);
        // Relaxed: if the worker misses what the thread that woke it did, it acquires that in `leave_running`, before
        // it sleeps again.
        self.state.swap(RUNNING, Relaxed);
    }

    /// For the worker: changes the state to `rest`, unless `has_work` returns `true` after `fence`.
    pub fn leave_running(&self, rest: u64, fence: fn(), has_work: &dyn Fn() -> bool) -> GoIdle {
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
            // A `wake` came first. Unless this one sleeps, its caller provides another worker (1).
            Err(_) if rest <= RETRYING => GoIdle::Idle,
            Err(_) => GoIdle::WorkFound,
        }
    }
}

/// The worker that runs callbacks, and what the threads that wait for it share with it: see [`super`].
#[derive(Debug)]
pub struct CallbackWorker {
    pub state: CachePadded<WorkerState>,
    pub(in crate::reclaim) progress: CachePadded<EventCount>,
    pub backlog: Backlog,
    /// Barriers that are futures.
    pub rounds: BarrierRounds,
    /// Futures that are ready below the limit.
    pub limited: LimitWaiters,
    /// Callers that want all callbacks to run now.
    pub(in crate::reclaim) urgent: AtomicU64,
    /// When the last round began, or the grace period of another leader ended.
    pub(in crate::reclaim) last_round: AtomicU64,
    /// The queue with which the next round begins to run callbacks.
    pub(in crate::reclaim) first: AtomicU64,
    /// Rounds that failed: see [`Denied`](crate::grace_period::engine::Denied).
    pub(in crate::reclaim) failures: AtomicU64,
    /// The time for which the domain was last parked, or 0. Only the worker, or the thread that is to provide it,
    /// changes this.
    pub(in crate::reclaim) parked_until: AtomicU64,
    /// The grace period that is tried while the domain is parked.
    pub(crate) tried: Tried,
    /// What the worker runs now.
    pub slice: Slice,
}

impl CallbackWorker {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                state: CachePadded::new(WorkerState::new()),
                progress: CachePadded::new(EventCount::new()),
                backlog: Backlog::new(),
                rounds: BarrierRounds::new(),
                limited: LimitWaiters::new(),
                urgent: AtomicU64::new(0),
                last_round: AtomicU64::new(0),
                first: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                parked_until: AtomicU64::new(0),
                tried: Tried::new(),
                slice: Slice::new(),
            }
        }
    }

    /// Forgets the worker and the callers that wait for it. The caller resets the queues.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        self.state.give_up();
        self.backlog.reset_in_child();
        // SAFETY: the caller's contract.
        unsafe {
            self.rounds.reset_in_child();
            self.limited.reset_in_child();
        }
        self.urgent.store(0, Relaxed);
        self.tried.forget();
        self.slice.end();
    }
}

/// The callbacks that a worker runs now: since when, in nanoseconds of [`now`](crate::sync::now), or 0, and in which
/// thread. Recorded for the statistics page only. Relaxed: statistics only.
#[derive(Debug)]
pub struct Slice {
    since: Unmodelled,
    thread: Unmodelled32,
}

impl Slice {
    pub const fn new() -> Self {
        Self { since: Unmodelled::new(0), thread: Unmodelled32::new(0) }
    }

    /// The calling thread runs callbacks from now on, until the result is dropped.
    pub fn begin(&self, now: u64) -> Running<'_> {
        if cfg!(feature = "statistics-page") {
            #[cfg(not(loom))]
            self.thread.store(crate::sys::thread::tid().unsigned_abs(), Relaxed);
            self.since.store(now.max(1), Relaxed);
        }
        Running(self)
    }

    /// No thread runs callbacks.
    pub fn end(&self) {
        if cfg!(feature = "statistics-page") {
            self.since.store(0, Relaxed);
        }
    }

    /// Returns for how many nanoseconds a thread has run callbacks, and its id, if one does.
    #[cfg(feature = "statistics-page")]
    pub fn running(&self) -> Option<(u64, u32)> {
        let since = self.since.load(Relaxed);
        (since != 0).then(|| (crate::sync::now().saturating_sub(since), self.thread.load(Relaxed)))
    }
}

/// A thread that runs callbacks: see [`Slice::begin`].
#[derive(Debug)]
pub struct Running<'a>(&'a Slice);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
