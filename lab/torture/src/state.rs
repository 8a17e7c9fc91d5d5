//! What the threads of `torture rcu`, `qsbr` and `srcu` share, and what each updater does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::canary;
use super::far::Far;
use super::faults::Signals;
use super::oracle::Oracle;
use super::slots::{READERS, UPDATERS, WAIT_MODES, WaitMode};
use harness::pin;

/// Leaked, as callbacks and signals may come late.
#[derive(Debug)]
pub(super) struct TestState {
    pub(super) oracle: &'static Oracle,
    pub(super) updaters: [UpdaterState; UPDATERS],
    pub(super) signals: Signals,
    pub(super) cpus: Vec<usize>,
    /// The threads of readers that wait for an updater, and so are no reason why a wait lasts; 0 for others.
    pub(super) waiting: [CachePadded<AtomicU64>; READERS],
    far: Far,
    start: Instant,
    /// Microseconds that this process has had: see [`clock`](Self::clock).
    clock: AtomicU64,
    /// Ends the interval.
    pub(super) stop: AtomicBool,
}

impl TestState {
    pub(super) fn new() -> anyhow::Result<&'static Self> {
        Ok(Box::leak(Box::new(Self {
            oracle: Oracle::new(),
            updaters: Default::default(),
            signals: Signals::new(READERS),
            cpus: pin::allowed()?,
            waiting: Default::default(),
            far: Far::new(),
            start: Instant::now(),
            clock: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })))
    }

    #[inline]
    pub(super) fn stops(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the time that this process has had: the clock stops while the whole process is stopped or starved.
    /// Waits are limited by this time.
    pub(super) fn clock(&self) -> Duration {
        Duration::from_micros(self.clock.load(Relaxed))
    }

    pub(super) fn advance_clock(&self, passed: Duration) {
        self.clock.fetch_add(passed.as_micros() as u64, Relaxed);
    }

    /// [Fills the store buffer](Far::store) now and then.
    #[inline]
    pub(super) fn fill_store_buffer(&self) {
        if fastrand::bool() {
            self.store_far(fastrand::u8(..128));
        }
    }

    #[inline]
    pub(super) fn store_far(&self, stores: u8) {
        self.far.store(stores);
    }

    /// Returns `true` if a thread does not count as one that could end a wait: see [`Stillness`](super::stillness).
    pub(super) fn excuses(&self, thread: u64) -> bool {
        canary::is(thread) || self.waiting.iter().any(|waiting| waiting.load(Relaxed) == thread)
    }
}

/// The operation of an updater, and counts of what it has done.
#[derive(Debug, Default)]
pub(super) struct UpdaterState {
    /// Callbacks that have been queued; written by the updater.
    pub(super) posted: CachePadded<AtomicU64>,
    /// Callbacks that have run; written by these.
    pub(super) ran: CachePadded<AtomicU64>,
    /// 0, or the beginning of the current operation, in microseconds of [`TestState::clock`], and above that 1 plus
    /// the mode.
    busy: CachePadded<AtomicU64>,
    pub(super) returns: CachePadded<AtomicU64>,
    /// Operations beside a section that was open before, of those that ended.
    pub(super) beside: AtomicU64,
    pub(super) longest_ns: AtomicU64,
}

impl UpdaterState {
    /// Runs an operation, which returns `true` if a section was open before, and counts it.
    pub(super) fn perform(&self, state: &TestState, mode: usize, perform: impl FnOnce() -> bool) {
        let began = state.elapsed();
        self.busy.store((mode as u64 + 1) << 56 | state.clock().as_micros() as u64, Relaxed);
        let beside = perform();
        self.busy.store(0, Relaxed);
        // Relaxed: only this thread writes these. No read-modify-write: it would order what the operation does not.
        let set = |word: &AtomicU64, value| word.store(value, Relaxed);
        set(&self.returns, self.returns.load(Relaxed) + 1);
        set(&self.beside, self.beside.load(Relaxed) + u64::from(beside));
        let took = (state.elapsed() - began).as_nanos() as u64;
        set(&self.longest_ns, self.longest_ns.load(Relaxed).max(took));
    }

    /// Returns the mode of the current operation, and its beginning.
    pub(super) fn busy(&self) -> Option<(WaitMode, Duration)> {
        // Relaxed: one word, from which nothing else follows.
        let word = self.busy.load(Relaxed);
        let mode = (word >> 56).checked_sub(1)?;
        Some((WAIT_MODES[mode as usize].0, Duration::from_micros(word & (u64::MAX >> 8))))
    }
}
