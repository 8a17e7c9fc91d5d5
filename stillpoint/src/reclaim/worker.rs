//! Deferred entries of a domain: from its queues (for most kinds of readers one for each thread), through a grace period, to a worker that runs them.
//!
//! Appending is the owner's affair ([`crate::reclaim::queue`]), waking the worker [`crate::reclaim::worker_state`]'s, waiting for it
//! [`EventCount`]'s, and how much may wait [`crate::reclaim::backlog`]'s. Here is what the worker does, and what callers do for it.
//!
//! # A round
//!
//! ```text
//! collect     in each queue, the entries that have no grace period yet get the next one        (Queue::assign_cookies)
//! run         what is ripe: a batch of each queue in turn, for BATCH_TIME_LIMIT at most, under no lock     (Queue::run_batch)
//! advance     wake those that wait                                                          (EventCount::notify_all)
//! linger      for LINGER, and MIN_ROUND_INTERVAL after the last round began, unless a caller is urgent or the backlog long
//! wait        for the grace period, which callers of synchronize() share                      (Host::wait_for)
//! ```
//!
//! It lingers and waits only when nothing is ripe. What a slice leaves is run by the next one, after another collection: a
//! callback behind a thousand others of *another* thread does not wait for all of them.
//!
//! The worker must not make a caller of `synchronize()` wait for two grace periods: one that the worker has begun, and the next.
//! So it lingers before it leads one, as a program that defers something often waits for a grace period itself at once, which
//! serves the worker's entries too. It waits for one that runs, and lingers anew, so that a caller in a loop leads all of them.
//!
//! *Local* entries are run by the thread that deferred them, a block at a time while it defers others, once their grace period
//! is over: that keeps memory in the allocator's cache of that thread, and several threads from waiting for one. They are
//! the values without destructors, as nothing of the program runs then, and those of which the program says that it does no
//! harm. All other callbacks and destructors run in the worker only, as a caller may hold a lock that they take.
//!
//! # Bounds
//!
//! Above the limits of the [backlog](crate::reclaim::backlog) a caller that is neither inside a section nor a callback runs what it may of
//! its own, sets the worker to work, and waits. A caller inside a section does so on leaving the outermost one
//! ([`ReaderSet::defer_to_exit`]): most code that links nodes retires inside sections only.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::backlog::{Amount, Backlog, CallbackStats, Limits, MayWait, at_least_zero};
use super::callback::Callback;
use super::queue::{BLOCK, Held, Pending, Queue, STEP};
use super::worker_state::{GoIdle, LAZY_WAIT, RATE_LIMITED, WorkerState};
use crate::grace_period::cookie::GpCookie;
use crate::grace_period::engine::{Engine, ReaderSet};
use crate::readers::threads::ThreadReaders;
use crate::sync::{AtomicU64, EventCount, Ordering::*, const_unless_loom, now, step};

/// The worker's rounds begin this far apart, and after another's grace period, in nanoseconds, so that a writer costs the readers
/// a thousand interrupts a second and not fifty thousand. (Owners add their own, if they defer so much that it pays:
/// [`Queue::tried`].)
const MIN_ROUND_INTERVAL: u64 = if cfg!(loom) { 0 } else { 1_000_000 };
/// How long the worker of an idle domain lingers, in nanoseconds: several times as long as a caller that defers something and
/// then waits takes to begin.
const LINGER: u64 = if cfg!(loom) { 0 } else { 100_000 };
/// The same after a round that failed.
const ROUND_INTERVAL_ON_ERROR: Duration = Duration::from_secs(1);
/// How long lazy entries may wait, in nanoseconds.
const LAZY: u64 = 10_000_000_000;
/// How long the worker runs entries before it looks at the queues again, in nanoseconds.
const BATCH_TIME_LIMIT: u64 = 1_000_000;

/// The queues of a domain. They do not become fewer.
pub trait CallbackQueues {
    fn len(&self) -> usize;

    /// The queue with this index, which is below some value of [`len`](Self::len).
    fn queue(&self, index: usize) -> &Queue;

    fn iter(&self) -> impl Iterator<Item = &Queue> {
        (0..self.len()).map(|index| self.queue(index))
    }
}

impl<K> CallbackQueues for ThreadReaders<K, Queue> {
    fn len(&self) -> usize {
        self.registry().len()
    }

    fn queue(&self, index: usize) -> &Queue {
        self.registry().attached(index)
    }
}

/// What the algorithm needs of the world around it.
pub trait Host {
    type Readers: ReaderSet;
    type Queues: CallbackQueues;

    fn engine(&self) -> &Engine<Self::Readers>;

    fn queues(&self) -> &Self::Queues;

    /// Returns `true` if no other thread can be inside a section: a grace period then costs nothing.
    fn is_alone(&self) -> bool;

    /// Waits until the grace period has ended.
    fn wait_for(&self, due: GpCookie) -> Result<(), Denied>;

    /// Runs an entry, whose grace period is over.
    fn run(&self, entry: Callback);

    /// A heavy fence.
    fn fence(&self);

    /// Whether the calling thread runs a stall hook.
    fn is_reporting(&self) -> bool {
        false
    }

    /// Provides a worker: somebody who calls [`CallbackWorker::work`]. False if that cannot be done.
    fn start_worker(&self) -> bool;

    /// Completes a grace period if that takes no time to speak of; never waits. The calling thread is outside.
    fn try_synchronize(&self) -> bool;
}

/// The kernel denies the heavy fence, which worked before: grace periods fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied;

/// Who does the bookkeeping of a queue, and where.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// The queue is the calling thread's own.
    pub is_owner: bool,
    /// Inside a section: no grace period can end.
    pub is_inside: bool,
    /// Whether it may be made to wait.
    pub wait: MayWait,
}

/// See the [module](self).
#[derive(Debug)]
pub struct CallbackWorker {
    state: CachePadded<WorkerState>,
    progress: CachePadded<EventCount>,
    backlog: Backlog,
    /// Callers that want all to run now.
    urgent: AtomicU64,
    /// When the last round began, or another's grace period ended, and the first queue of the next slice: the worker's.
    last_round: AtomicU64,
    first: AtomicU64,
    /// Rounds that failed: see [`Denied`].
    failures: AtomicU64,
}

impl CallbackWorker {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                state: CachePadded::new(WorkerState::new()),
                progress: CachePadded::new(EventCount::new()),
                backlog: Backlog::new(),
                urgent: AtomicU64::new(0),
                last_round: AtomicU64::new(0),
                first: AtomicU64::new(0),
                failures: AtomicU64::new(0),
            }
        }
    }

    /// After an entry was appended: sees to it that a worker will look.
    #[inline(always)]
    pub fn notify(&self, lazy: bool, host: &impl Host) {
        if self.state.needs_wake(lazy) {
            self.provide(lazy, host);
        }
    }

    /// Sets the worker to work. False if there is none, and none can be had.
    #[cold]
    fn provide(&self, lazy: bool, host: &impl Host) -> bool {
        let alone = if lazy { self.state.wake_if_idle() } else { self.state.wake() };
        if !alone || host.start_worker() {
            return true;
        }
        // The entries stay; the next one tries again. A thread that rang meanwhile and waits must look to it itself.
        self.state.give_up();
        step!("start-failure-without-notify", self.progress.notify_all());
        false
    }

    /// The owner runs a few of its own entries.
    #[cold]
    pub fn reclaim_some(&self, queue: &Queue, host: &impl Host) {
        self.run_own(queue, host, STEP);
        if queue.has_freed_much() {
            self.report(queue);
        }
    }

    /// The owner's bookkeeping, a block at a time.
    #[cold]
    pub fn flush(&self, queue: &Queue, caller: impl FnOnce() -> Caller, host: &impl Host) {
        // Otherwise a little more than is added, so that it gets less.
        self.run_own(queue, host, if self.backlog.above_low_mark() { 2 * BLOCK } else { STEP + 1 });
        self.report(queue);
        // Only now: a destructor that ran may have begun a section, or ended one.
        self.reduce_backlog(queue, caller(), host);
    }

    /// Sees to it that less waits, if that is called for, after [`count`](Self::count).
    #[cold]
    pub fn reduce_backlog(&self, queue: &Queue, caller: Caller, host: &impl Host) {
        if !caller.is_inside {
            if host.is_alone() {
                host.try_synchronize();
            } else if queue.is_due() {
                let begin = now();
                host.try_synchronize();
                queue.tried(now() - begin);
            }
        }
        let has_waited = self.throttle_if_above(caller.is_owner.then_some(queue), caller.wait, host);
        if !has_waited && self.backlog.above_low_mark() && self.state.is_sleeping() {
            step!("flush-threshold-does-not-wake-worker", self.provide(false, host));
        }
    }

    fn run_own(&self, queue: &Queue, host: &impl Host, limit: u64) {
        let engine = host.engine();
        let wanted =
            queue.run_local(limit, |due| engine.is_done(due), || engine.snapshot(), |entry| host.run(entry));
        if wanted {
            step!("claim-released-without-notify", self.provide(false, host));
        }
    }

    /// Tells the domain what the owner of the queue has added and run. Once more when its thread ends, so that what it has run
    /// does not count for ever.
    pub fn report(&self, queue: &Queue) {
        self.count(queue.report());
    }

    /// What has been added, and what its owner has run.
    pub fn count(&self, [added, freed]: [Amount; 2]) {
        self.backlog.added(added);
        if freed.count != 0 {
            self.backlog.freed(freed);
            // Somebody may have been waiting for just these.
            step!("freed-without-notify", self.progress.notify_all());
        }
    }

    pub fn set_limits(&self, limits: Limits) {
        self.backlog.set_limits(limits);
        // For those who wait above the old ones.
        self.progress.notify_all();
    }

    /// Whether the owner of the queue, which only now may wait, should do its bookkeeping for that.
    #[cfg(not(loom))]
    pub fn must_throttle(&self, queue: &Queue) -> bool {
        self.backlog.above_high_mark() && queue.holds() != Pending::None
    }

    /// [`throttle`](Self::throttle), if too much waits and the caller may. Whether it has.
    fn throttle_if_above(&self, own: Option<&Queue>, wait: MayWait, host: &impl Host) -> bool {
        let presses = wait != MayWait::No && self.backlog.above_high_mark();
        if presses {
            self.throttle(own, wait, host);
        }
        presses
    }

    /// Waits until less waits. `own` is the calling thread's queue.
    #[cold]
    fn throttle(&self, own: Option<&Queue>, wait: MayWait, host: &impl Host) {
        let failures = self.failures.load(Relaxed);
        let patience = self.backlog.begin_wait(wait);
        let _urgent = self.urgent();
        self.provide(false, host);
        let mut is_small = false;
        let ended = self.progress.wait_until(Some(patience), || {
            if let Some(queue) = own {
                self.run_own(queue, host, u64::MAX);
                self.report(queue);
            }
            is_small = !self.backlog.above_high_mark();
            let failed = self.failures.load(Relaxed) != failures;
            // Where no worker can be had, this thread must not be one: it may hold a lock that a callback takes.
            let is_empty = || self.holds(host.queues()) == Pending::None;
            is_small || failed || self.state.is_idle() && (is_empty() || !self.provide(false, host))
        });
        self.backlog.end_wait(wait, ended, is_small);
    }

    /// The thread that owns the queue ends: tells the domain what is in it, and waits if that is too much. What the thread has not
    /// run is the worker's.
    #[cfg(not(loom))]
    pub fn end_of_owner(&self, queue: &Queue, wait: MayWait, host: &impl Host) {
        self.report(queue);
        self.throttle_if_above(None, wait, host);
    }

    /// Says that all is to run now, until dropped. [`WorkerState::wake`] after this makes the worker notice.
    fn urgent(&self) -> ExpediteGuard<'_> {
        self.urgent.fetch_add(1, Relaxed);
        ExpediteGuard(&self.urgent)
    }

    fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// Returns when everything has run that was appended before.
    pub fn barrier(&self, host: &impl Host) -> Result<(), Denied> {
        let marks: Vec<_> = host.queues().iter().map(|queue| (queue, queue.pushed())).collect();
        let failures = self.failures.load(Relaxed);
        let _urgent = self.urgent();
        for (queue, mark) in marks {
            if queue.done() >= mark {
                continue;
            }
            let reached = || queue.done() >= mark || self.failures.load(Relaxed) != failures;
            step!(
                "barrier-does-not-wake-worker",
                if self.state.wake() {
                    self.provide_or_work(host, reached);
                }
            );
            step!("barrier-does-not-wait", {
                self.progress.wait_until(None, || {
                    if !reached() && self.state.is_idle() {
                        step!(
                            "no-caller-continues",
                            if self.state.wake() {
                                self.provide_or_work(host, reached);
                            }
                        );
                    }
                    reached()
                });
                if queue.done() < mark {
                    return Err(Denied);
                }
            });
        }
        Ok(())
    }

    /// Nobody defers anything any more, and nobody reads: all is to run now, in a worker, or here if none can be had.
    #[cfg(not(loom))]
    pub fn close(&self, host: &impl Host) {
        // Relaxed: `wake` orders it.
        self.urgent.fetch_add(1, Relaxed);
        if self.holds(host.queues()) != Pending::None && self.state.wake() {
            self.provide_or_work(host, || false);
        }
    }

    /// For who has rung and found no worker: provides one, or, if none can be had, is the worker until `enough`.
    fn provide_or_work(&self, host: &impl Host, enough: impl Fn() -> bool) {
        if host.start_worker() {
            return;
        }
        if host.is_reporting() {
            // A grace period waits for this thread: the last handle has gone in a stall hook. What is left stays.
            return self.state.give_up();
        }
        self.work(host, enough);
    }

    /// The most pressing thing in any queue.
    fn holds(&self, queues: &impl CallbackQueues) -> Pending {
        queues.iter().map(Queue::holds).max().unwrap_or(Pending::None)
    }

    /// A worker's life, from the alarm until nothing is left to do, or `enough`.
    pub fn work(&self, host: &impl Host, enough: impl Fn() -> bool) {
        let queues = host.queues();
        let fence = || host.fence();
        // When the entries that wait now began to.
        let mut lingers_since = None;
        // The last thing it did was to sleep until an owner has done.
        let mut was_held = false;
        loop {
            if enough() {
                self.state.give_up();
                step!("worker-stops-without-notify", self.progress.notify_all());
                return;
            }
            let found = self.assign_cookies(host);
            let after_held = core::mem::replace(&mut was_held, false);
            match found.holds {
                // An owner at work makes the worker look again when it has done.
                Pending::None if found.held => {
                    let hurry = || self.is_urgent() || self.backlog.above_low_mark();
                    let ready = || queues.iter().any(|queue| queue.is_ready(hurry()));
                    if after_held {
                        // Woken in vain: what is retired in the owner's destructor must not do so each time.
                        self.state.sleep_timeout(
                            RATE_LIMITED,
                            Duration::from_nanos(MIN_ROUND_INTERVAL),
                            || (),
                            ready,
                        );
                    } else {
                        was_held = true;
                        self.state.sleep_timeout(LAZY_WAIT, Duration::from_nanos(LAZY), fence, ready);
                    }
                    lingers_since = None;
                    continue;
                }
                Pending::None => {
                    if self.state.try_go_idle(fence, || self.holds(queues) != Pending::None) == GoIdle::Idle {
                        // What a caller waits for may have been run by its owner.
                        step!("run-without-notify", step!("idle-without-notify", self.progress.notify_all()));
                        return;
                    }
                    continue;
                }
                Pending::Lazy if let Some(rest) = self.lazy_rest(queues) => {
                    let eager = || queues.iter().any(|queue| queue.is_ready(false));
                    let early = || eager() || self.is_urgent() || self.backlog.above_low_mark();
                    self.state.sleep_timeout(LAZY_WAIT, rest, fence, early);
                    lingers_since = None;
                    continue;
                }
                _ => {}
            }
            if self.run_slice(host) {
                step!("run-without-notify", self.progress.notify_all());
                continue;
            }
            let Some(due) = found.due.filter(|due| !host.engine().is_done(*due)) else { continue };
            let begin = *lingers_since.get_or_insert_with(now);
            let running = host.engine().in_progress();
            if running.is_none()
                && let Some(rest) = self.pause(begin)
            {
                // No fence: see the alarm's invariant 3.
                self.state.sleep_timeout(RATE_LIMITED, rest, || (), || self.pause(begin).is_none());
                continue;
            }
            lingers_since = None;
            let began = now();
            let waited = host.wait_for(running.unwrap_or(due));
            self.last_round.store(if running.is_some() { now() } else { began }, Relaxed);
            if waited.is_err() {
                step!("failed-round-without-notify", {
                    self.failures.fetch_add(1, Relaxed);
                    self.progress.notify_all();
                });
                // The entries stay; an urgent caller tries again now.
                self.state.sleep_timeout(RATE_LIMITED, ROUND_INTERVAL_ON_ERROR, || (), || self.is_urgent());
            }
        }
    }

    /// Gives every entry a grace period to wait for.
    fn assign_cookies<H: Host>(&self, host: &H) -> Found {
        let engine = host.engine();
        let mut found = Found { holds: Pending::None, due: None, held: false };
        for queue in host.queues().iter() {
            let holds = queue.holds();
            if holds == Pending::None {
                continue;
            }
            match queue.assign_cookies(|due| engine.is_done(due), || engine.snapshot()) {
                Ok(due) => {
                    found.holds = found.holds.max(holds);
                    found.due = due.into_iter().chain(found.due).min();
                }
                Err(Held) => found.held = true,
            }
        }
        found
    }

    /// How long lazy entries may wait still, if nothing else makes them run.
    fn lazy_rest(&self, queues: &impl CallbackQueues) -> Option<Duration> {
        let oldest = queues.iter().filter_map(Queue::oldest).min();
        let rest = oldest.map_or(0, |oldest| (oldest + LAZY).saturating_sub(now()));
        (rest != 0 && !self.is_urgent() && !self.backlog.above_low_mark()).then(|| Duration::from_nanos(rest))
    }

    /// How long until the worker may lead a grace period, if it has `begun` to linger.
    fn pause(&self, begun: u64) -> Option<Duration> {
        let from = (self.last_round.load(Relaxed) + MIN_ROUND_INTERVAL).max(begun + LINGER);
        let rest = from.saturating_sub(now());
        (rest != 0 && !self.is_urgent() && !self.backlog.above_low_mark()).then(|| Duration::from_nanos(rest))
    }

    /// Runs ripe entries, for a time. Whether there were some.
    fn run_slice(&self, host: &impl Host) -> bool {
        let engine = host.engine();
        let (queues, len) = (host.queues(), host.queues().len());
        // A slice begins where the last one ended.
        let first = self.first.load(Relaxed) as usize;
        let begin = now();
        let all = self.is_urgent() || self.backlog.above_high_mark();
        let mut any = false;
        loop {
            let mut idle = true;
            for index in (first..len).chain(0..first.min(len)) {
                let queue = queues.queue(index);
                if queue.holds() == Pending::None {
                    continue;
                }
                let amount = queue.run_batch(|due| engine.is_done(due), all, |entry| host.run(entry));
                if amount.count == 0 {
                    continue;
                }
                self.backlog.run(amount);
                (idle, any) = (false, true);
                if now() - begin > BATCH_TIME_LIMIT {
                    self.first.store(index as u64 + 1, Relaxed);
                    return true;
                }
            }
            if idle {
                return any;
            }
        }
    }

    /// Counters of now.
    pub fn tally(&self, queues: &impl CallbackQueues) -> CallbackStats {
        let now = now();
        let mut tally = self.backlog.tally();
        for queue in queues.iter() {
            // In this order, so that no entry has run that was not appended.
            let done = queue.done();
            tally.queued += queue.pushed() - done;
            let [added, freed] = queue.unreported();
            tally.bytes = tally.bytes.wrapping_add(added.bytes).wrapping_sub(freed.bytes);
            tally.run += freed.count;
            let age = queue.oldest().map_or(0, |since| now.saturating_sub(since));
            tally.oldest = tally.oldest.max(Duration::from_nanos(age));
        }
        tally.bytes = at_least_zero(tally.bytes);
        tally
    }

    /// Forgets the worker and those who wait for it. The queues are the caller's affair.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.state.give_up();
        self.backlog.reset_in_child();
        self.urgent.store(0, Relaxed);
    }
}

/// What the worker finds in the queues.
struct Found {
    /// The most pressing thing in those that are not held.
    holds: Pending,
    /// The first grace period that entries wait for.
    due: Option<GpCookie>,
    /// Whether the owner of some other is running entries.
    held: bool,
}

/// A caller is urgent.
struct ExpediteGuard<'a>(&'a AtomicU64);

impl Drop for ExpediteGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
