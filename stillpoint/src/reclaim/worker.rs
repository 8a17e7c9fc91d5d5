//! The callback worker of a domain: takes callbacks through a grace period and runs them.
//!
//! Owners push to their queues ([`crate::reclaim::queue`]) and wake the worker ([`crate::reclaim::worker_state`]).
//! Callers that wait for the worker use an [`EventCount`]. How much may wait is decided by the
//! [`crate::reclaim::backlog`].
//!
//! # A round
//!
//! ```text
//! assign cookies   to the callbacks of each queue that have none                            (Queue::assign_cookies)
//! run              ready callbacks, a batch of each queue in turn, for BATCH_TIME_LIMIT     (Queue::run_batch)
//! notify           callers of barrier() and throttled ones                                  (EventCount::notify_all)
//! linger           for LINGER, and until MIN_ROUND_INTERVAL after the last round began      (WorkerState::sleep_timeout)
//! wait             for the grace period, which callers of synchronize() share               (Host::wait_for)
//! ```
//!
//! It lingers and waits only when no callbacks are ready. It does not linger if a caller is urgent or the backlog is
//! long. What does not run within BATCH_TIME_LIMIT runs in the next round, after cookies have been assigned anew. So a
//! callback does not wait for all of a thousand others that *another* thread has deferred.
//!
//! Where all queues are those of owners that reclaim by themselves ([`Queue::assign_cookies`]), the worker leads no
//! grace period. It looks again after ASSESSMENT_INTERVAL. Grace periods of its own would interrupt the owners.
//!
//! A worker that finds nothing but lazy callbacks ends, and leaves a task that goes on when they must run: so domains
//! that are lazy share their threads ([`super::lazy_timer`]).
//!
//! The worker must not make a caller of `synchronize()` wait for two grace periods: one that the worker leads, and the
//! next. A program that defers something often calls `synchronize()` at once, and that serves the worker's callbacks
//! too: so the worker lingers before it leads. It waits for a grace period that is in progress, and lingers anew, so
//! that a caller in a loop leads all of them.
//!
//! *Owners* run callbacks too, while they push others: those that only free memory, and those of which the program says
//! that it does no harm. That keeps memory in the allocator's cache of the thread, and threads from waiting for one
//! worker. All other callbacks and destructors run in the worker only, as a caller may hold a lock that they take.
//!
//! # Throttling
//!
//! Above the high watermark of the backlog, a caller that is neither inside a section nor in a callback runs what it
//! may of its own queue, wakes the worker, and blocks. A caller inside a section does so when it leaves the outermost
//! one (`ReaderSet::defer_to_exit`), as most code that links nodes retires inside sections only.

#[cfg(any(feature = "epoch", loom))]
mod collect;

use core::mem;
use std::panic::catch_unwind;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::activity::ASSESSMENT_INTERVAL;
use super::backlog::{Amount, Backlog, Limits, MayWait};
use super::blocks::BLOCK;
use super::host::{CallerContext, Denied, Host};
use super::queue::{Held, Pending, Queue, STEP};
use super::worker_state::{GoIdle, IDLE, LAZY_WAIT, PARKED, RATE_LIMITED, WorkerState};
use crate::fence::heavy;
use crate::grace_period::cookie::GpCookie;
use crate::grace_period::stall;
use crate::sync::{AtomicU64, EventCount, Ordering::*, const_unless_loom, now, step};

/// Nanoseconds between the beginnings of two rounds, and after a grace period of another leader: so a writer costs the
/// readers a thousand interrupts a second and not fifty thousand. (Owners add their own, if they defer so much that it
/// pays: [`Queue::own_gp_took`].)
const MIN_ROUND_INTERVAL: u64 = if cfg!(loom) { 0 } else { 1_000_000 };
/// Nanoseconds for which the worker of an idle domain lingers: several times what a caller takes that defers something
/// and then waits.
const LINGER: u64 = if cfg!(loom) { 0 } else { 100_000 };
/// The time between rounds after one that failed.
const ROUND_INTERVAL_ON_ERROR: Duration = Duration::from_secs(1);
/// Nanoseconds for which lazy callbacks may wait.
const LAZY_DELAY: u64 = 10_000_000_000;
/// Nanoseconds after which a domain is resumed that was parked instead of starting a worker.
const FIRST_LOOK: u64 = 1_000_000;
/// Nanoseconds for which the worker runs callbacks before it looks at the queues again.
const BATCH_TIME_LIMIT: u64 = 1_000_000;

/// See the [module](self).
#[derive(Debug)]
pub struct CallbackWorker {
    state: CachePadded<WorkerState>,
    progress: CachePadded<EventCount>,
    backlog: Backlog,
    /// Callers that want all callbacks to run now.
    urgent: AtomicU64,
    /// 1 after [`close`](Self::close).
    closed: AtomicU64,
    /// When the last round began, or the grace period of another leader ended.
    last_round: AtomicU64,
    /// The queue with which the next round begins to run callbacks.
    first: AtomicU64,
    /// Rounds that failed: see [`Denied`].
    failures: AtomicU64,
    /// The time for which the domain was last parked, or 0. Only the worker, or the thread that is to provide it,
    /// accesses this.
    parked_until: AtomicU64,
    /// See [`collect`].
    #[cfg(any(feature = "epoch", loom))]
    run_at_impatience: AtomicU64,
}

/// What the worker finds in the queues.
struct Found {
    /// The most urgent kind of callback in queues that are not held.
    pending: Pending,
    /// The first cookie that callbacks wait for.
    cookie: Option<GpCookie>,
    /// The owner of a queue is running callbacks.
    is_held: bool,
    /// The owners of the other queues reclaim without the worker.
    owners_suffice: bool,
}

/// Makes the worker hurry until it is dropped.
struct ExpediteGuard<'a>(&'a AtomicU64);

impl Drop for ExpediteGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A heavy fence. If the kernel denies it, a callback that is pushed at this moment may wait for the next one.
fn try_heavy() {
    if cfg!(loom) { heavy() } else { _ = catch_unwind(heavy) }
}

impl CallbackWorker {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                state: CachePadded::new(WorkerState::new()),
                progress: CachePadded::new(EventCount::new()),
                backlog: Backlog::new(),
                urgent: AtomicU64::new(0),
                closed: AtomicU64::new(0),
                last_round: AtomicU64::new(0),
                first: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                parked_until: AtomicU64::new(0),
                #[cfg(any(feature = "epoch", loom))]
                run_at_impatience: AtomicU64::new(u64::MAX),
            }
        }
    }

    /// After a push: makes sure that a worker will see the callback.
    #[inline(always)]
    pub fn notify(&self, lazy: bool, host: &impl Host) {
        if self.state.needs_wake(lazy) {
            self.provide(lazy, host);
        }
    }

    /// Wakes or starts the worker. Returns `false` if there is none.
    #[cold]
    fn provide(&self, lazy: bool, host: &impl Host) -> bool {
        // Twice: the task may be taken before the domain is parked.
        let park_instead = || self.park_instead(host) || self.park_instead(host);
        let is_missing = if lazy { self.state.wake_if_idle() } else { self.state.wake() };
        if !is_missing || lazy && self.park_instead(host) || host.start_worker() || park_instead() {
            return true;
        }
        // The callbacks stay; the next push tries again. A thread that found a worker meanwhile, and waits, must look
        // again.
        self.state.give_up();
        step!("start-failure-without-notify", self.progress.notify_all());
        false
    }

    /// Instead of starting a worker: for a lazy callback, and if none can be started but there is a thread that resumes
    /// parked domains. Returns `false` if that is impossible.
    fn park_instead(&self, host: &impl Host) -> bool {
        let due = now() + FIRST_LOOK;
        // Relaxed: as in `unpark`.
        let earlier = self.parked_until.load(Relaxed);
        // Pushes that follow one another soon must not postpone it for ever.
        let due =
            if earlier <= due && host.is_parked(earlier) { Some(earlier) } else { self.park(due, host) };
        let Some(due) = due else { return false };
        // No fence: if this misses a callback, the task finds it soon.
        let has_work = || !host.is_parked(due);
        if self.state.leave_running(PARKED, || (), has_work) == GoIdle::Idle {
            // A caller of `barrier` that found a worker meanwhile does not wait for the task, which others may delay.
            step!("parked-without-notify", self.progress.notify_all());
            return true;
        }
        self.unpark(host);
        false
    }

    /// Leaves a task that calls [`resume`](Self::resume) at the time `due`, in place of an earlier one. Returns `due`,
    /// or `None` if there is no thread for that.
    fn park(&self, due: u64, host: &impl Host) -> Option<u64> {
        self.unpark(host);
        host.park(due).then(|| {
            self.parked_until.store(due, Relaxed);
            due
        })
    }

    fn unpark(&self, host: &impl Host) {
        // Relaxed, here and above: accesses are ordered by changes of the state.
        let due = self.parked_until.load(Relaxed);
        if due != 0 {
            self.parked_until.store(0, Relaxed);
            host.unpark(due);
        }
    }

    /// The task of a parked domain: works, unless there is a worker.
    pub fn resume(&self, host: &impl Host) {
        if self.state.resume() {
            self.work(host, || false);
        }
    }

    /// After a push: the owner runs some of its ready callbacks.
    #[cold]
    pub fn reclaim_some(&self, queue: &Queue, host: &impl Host) {
        self.run_own(queue, host, STEP);
        if queue.has_freed_much() {
            self.report(queue);
        }
    }

    /// After the push of a block: the owner runs ready callbacks, and reports to the backlog.
    #[cold]
    pub fn flush(&self, queue: &Queue, context: impl FnOnce() -> CallerContext, host: &impl Host) {
        // More than it has pushed, so that the queue becomes shorter.
        self.run_own(queue, host, if self.backlog.above_low_mark() { 2 * BLOCK } else { STEP + 1 });
        self.report(queue);
        // Only now: a destructor that has run may have begun a section, or ended one.
        self.reduce_backlog(queue, context(), host);
    }

    /// After [`count`](Self::count): leads a grace period, throttles the caller, or wakes the worker, if the backlog
    /// requires it.
    #[cold]
    pub fn reduce_backlog(&self, queue: &Queue, context: CallerContext, host: &impl Host) {
        if !context.is_inside {
            if host.is_alone() {
                _ = host.try_synchronize();
            } else if queue.own_gp_is_due() {
                let begin = now();
                _ = host.try_synchronize();
                queue.own_gp_took(now() - begin);
            }
        }
        let has_waited = self.throttle_above_mark(context.is_owner.then_some(queue), context.wait, host);
        if !has_waited && self.backlog.above_low_mark() && self.state.is_sleeping() {
            step!("flush-threshold-does-not-wake-worker", self.provide(false, host));
        } else if !has_waited && self.backlog.above_unknown_mark() {
            // It may have found lazy callbacks only.
            self.notify(false, host);
        }
    }

    /// The owner runs what it may, and hands over the rest, without blocking. Returns `true` if callbacks are left.
    pub fn hand_over(&self, queue: &Queue, is_inside: impl FnOnce() -> bool, host: &impl Host) -> bool {
        self.run_own(queue, host, u64::MAX);
        // Only now: as in `flush`.
        if !is_inside() && queue.pending() != Pending::None {
            _ = host.try_synchronize();
            self.run_own(queue, host, u64::MAX);
        }
        step!("flush-without-expedite", queue.expedite());
        self.report(queue);
        self.notify_if_pending(queue, host)
    }

    /// Wakes the worker if the queue has callbacks. Returns `true` if it has.
    pub fn notify_if_pending(&self, queue: &Queue, host: &impl Host) -> bool {
        let is_pending = queue.pending() != Pending::None;
        if is_pending {
            self.notify(false, host);
        }
        is_pending
    }

    fn run_own(&self, queue: &Queue, host: &impl Host, limit: u64) {
        let is_wanted = queue.run_local(limit, host.engine(), |callback| host.run(callback));
        if is_wanted {
            step!("claim-released-without-notify", self.provide(false, host));
        }
    }

    /// Reports to the backlog what the owner of the queue has pushed and run. Also when the thread exits, so that what
    /// it has run does not count for ever.
    pub fn report(&self, queue: &Queue) {
        self.count(queue.take_unreported());
    }

    /// Counts what an owner has pushed and run.
    pub fn count(&self, [added, freed]: [Amount; 2]) {
        self.backlog.add(added);
        if freed.count != 0 {
            self.backlog.remove(freed);
            // A throttled caller may wait for just these.
            step!("freed-without-notify", self.progress.notify_all());
        }
    }

    #[cfg(not(loom))]
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    pub fn set_limits(&self, limits: Limits) {
        self.backlog.set_limits(limits);
        // For callers that were throttled by the old ones.
        self.progress.notify_all();
    }

    /// Returns `true` if the owner of the queue, which could not be throttled until now, must flush.
    #[cfg(not(loom))]
    pub fn must_throttle(&self, queue: &Queue) -> bool {
        self.backlog.above_high_mark() && queue.pending() != Pending::None
    }

    /// Throttles the caller if too much waits, and if it may wait. `own` is the calling thread's queue. Returns `true`
    /// if it has waited.
    pub fn throttle_above_mark(&self, own: Option<&Queue>, wait: MayWait, host: &impl Host) -> bool {
        let must_wait = wait != MayWait::No && self.backlog.above_high_mark();
        if must_wait {
            self.throttle(own, wait, host);
        }
        must_wait
    }

    /// Blocks until less waits, but no longer than the backlog allows.
    #[cold]
    fn throttle(&self, own: Option<&Queue>, wait: MayWait, host: &impl Host) {
        let failures = self.failures.load(Relaxed);
        let timeout = self.backlog.begin_wait(wait);
        let _expedite = self.expedite();
        self.provide(false, host);
        let mut is_below = false;
        let in_time = self.progress.wait_until(Some(timeout), || {
            if let Some(queue) = own {
                self.run_own(queue, host, u64::MAX);
                self.report(queue);
            }
            is_below = !self.backlog.above_high_mark();
            let has_failed = self.failures.load(Relaxed) != failures;
            // This thread must not become the worker if none can be started: it may hold a lock that a callback takes.
            let is_empty = || self.pending(host) == Pending::None;
            is_below || has_failed || self.state.is_idle() && (is_empty() || !self.provide(false, host))
        });
        self.backlog.end_wait(wait, in_time, is_below);
    }

    /// Makes the worker hurry. A [`WorkerState::wake`] after this makes it notice.
    fn expedite(&self) -> ExpediteGuard<'_> {
        self.urgent.fetch_add(1, Relaxed);
        ExpediteGuard(&self.urgent)
    }

    fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// Returns `true` if the worker must not pause between rounds, and must run lazy callbacks too.
    fn must_hurry(&self) -> bool {
        self.is_urgent() || self.backlog.above_low_mark()
    }

    /// Returns `true` if the worker must run lazy callbacks.
    fn must_run_lazy(&self) -> bool {
        self.must_hurry() || self.backlog.above_unknown_mark()
    }

    /// Blocks until all callbacks have run that were pushed before.
    pub fn barrier(&self, host: &impl Host) -> Result<(), Denied> {
        let marks: Vec<_> = host.queues().map(|queue| (queue, queue.tail())).collect();
        let failures = self.failures.load(Relaxed);
        let _expedite = self.expedite();
        for (queue, mark) in marks {
            if queue.completed() >= mark {
                continue;
            }
            let reached = || queue.completed() >= mark || self.failures.load(Relaxed) != failures;
            step!(
                "barrier-does-not-wake-worker",
                if self.state.wake() {
                    self.provide_or_work(host, reached);
                }
            );
            step!("barrier-does-not-wait", {
                self.progress.wait_until(None, || {
                    if !reached() && self.state.has_no_worker() {
                        step!(
                            "no-caller-continues",
                            if self.state.wake() {
                                self.provide_or_work(host, reached);
                            }
                        );
                    }
                    reached()
                });
                if queue.completed() < mark {
                    return Err(Denied);
                }
            });
        }
        Ok(())
    }

    /// Has all callbacks run now, by a worker, or by this thread if none can be started. Nothing is pushed any more,
    /// and there are no readers.
    ///
    /// A thread that acts as the worker until its own condition holds goes on until all have run: it looks for this
    /// after it has changed the state, and this thread changes the state afterwards (invariant 3 of the worker's state).
    pub fn close(&self, host: &impl Host) {
        // Relaxed, both: ordered by `wake`.
        self.urgent.fetch_add(1, Relaxed);
        step!("close-not-announced", self.closed.store(1, Relaxed));
        if self.pending(host) != Pending::None && self.state.wake() {
            self.provide_or_work(host, || false);
        }
    }

    /// The caller must provide a worker: starts one, or works until `stop` returns `true` if none can be started.
    fn provide_or_work(&self, host: &impl Host, stop: impl Fn() -> bool) {
        if host.start_worker() {
            return;
        }
        if stall::is_reporting() {
            // A grace period waits for this thread: the last handle was dropped in a stall hook. The callbacks stay, or
            // a thread that waits for the domain to close is their worker.
            self.state.give_up();
            return self.progress.notify_all();
        }
        self.work(host, stop);
    }

    /// Returns the most urgent kind of callback in any queue.
    fn pending(&self, host: &impl Host) -> Pending {
        host.queues().map(Queue::pending).max().unwrap_or(Pending::None)
    }

    /// The worker's loop: runs until all queues are empty, or hold nothing but lazy callbacks, or until `stop` returns
    /// `true` and the domain is not closed.
    pub fn work(&self, host: &impl Host, stop: impl Fn() -> bool) {
        let is_ready = |lazy| host.queues().any(|queue| queue.is_ready(lazy));
        let lazy_until =
            || host.queues().filter_map(Queue::oldest).min().map_or(0, |oldest| oldest + LAZY_DELAY);
        self.unpark(host);
        let mut lingers_since = None;
        // The last sleep was for an owner that had claimed its queue.
        let mut has_slept_for_owner = false;
        loop {
            let is_closed = || self.closed.load(Relaxed) != 0;
            if !is_closed() && stop() && self.state.leave_running(IDLE, || (), is_closed) == GoIdle::Idle {
                step!("worker-stops-without-notify", self.progress.notify_all());
                return;
            }
            let found = self.assign_cookies(host);
            let again = mem::take(&mut has_slept_for_owner);
            match found.pending {
                // The owner of a queue wakes the worker when it has run its callbacks.
                Pending::None if found.is_held => {
                    let is_ready = || is_ready(self.must_run_lazy());
                    if again {
                        // It was woken for nothing. What is retired in the owner's destructor must not wake it each
                        // time.
                        let time = Duration::from_nanos(MIN_ROUND_INTERVAL);
                        self.state.sleep_timeout(RATE_LIMITED, time, || (), is_ready);
                    } else {
                        has_slept_for_owner = true;
                        self.state.sleep_timeout(
                            LAZY_WAIT,
                            Duration::from_nanos(LAZY_DELAY),
                            try_heavy,
                            is_ready,
                        );
                    }
                    lingers_since = None;
                }
                Pending::None => {
                    let has_work = || self.pending(host) != Pending::None;
                    if self.state.leave_running(IDLE, try_heavy, has_work) == GoIdle::Idle {
                        // Owners may have run what a barrier waits for.
                        step!("run-without-notify", step!("idle-without-notify", self.progress.notify_all()));
                        return;
                    }
                }
                Pending::Lazy
                    if !self.backlog.above_unknown_mark()
                        && let Some(time) = self.time_until(lazy_until()) =>
                {
                    let has_work = || is_ready(false) || self.must_run_lazy();
                    let due = now().saturating_add(time.as_nanos() as u64);
                    if let Some(due) = self.park(due, host) {
                        let has_work = || has_work() || !host.is_parked(due);
                        if self.state.leave_running(PARKED, try_heavy, has_work) == GoIdle::Idle {
                            return;
                        }
                        self.unpark(host);
                    } else {
                        self.state.sleep_timeout(LAZY_WAIT, time, try_heavy, has_work);
                    }
                    lingers_since = None;
                }
                _ if self.run_slice(host) => {
                    step!("run-without-notify", self.progress.notify_all());
                }
                _ if found.owners_suffice
                    && let Some(time) = self.time_until(now() + ASSESSMENT_INTERVAL) =>
                {
                    // No fence: as in `wait_for_grace_period`.
                    self.state.sleep_timeout(RATE_LIMITED, time, || (), || self.must_hurry());
                    lingers_since = None;
                }
                _ => self.wait_for_grace_period(found.cookie, &mut lingers_since, host),
            }
        }
    }

    /// Lingers, or waits for the grace period.
    fn wait_for_grace_period(
        &self,
        cookie: Option<GpCookie>,
        lingers_since: &mut Option<u64>,
        host: &impl Host,
    ) {
        let Some(cookie) = cookie.filter(|cookie| !host.engine().is_done(*cookie)) else { return };
        let in_progress = host.engine().in_progress();
        let linger_end = *lingers_since.get_or_insert_with(now) + LINGER;
        let pause = || self.time_until(linger_end.max(self.last_round.load(Relaxed) + MIN_ROUND_INTERVAL));
        if in_progress.is_none()
            && let Some(time) = pause()
        {
            // No fence: see invariant 3 of the worker's state.
            self.state.sleep_timeout(RATE_LIMITED, time, || (), || pause().is_none());
            return;
        }
        *lingers_since = None;
        let begin = now();
        self.backlog.begin_gp_wait(begin);
        let result = host.wait_for(in_progress.unwrap_or(cookie));
        self.backlog.end_gp_wait();
        self.last_round.store(if in_progress.is_some() { now() } else { begin }, Relaxed);
        if result.is_err() {
            step!("failed-round-without-notify", {
                self.failures.fetch_add(1, Relaxed);
                self.progress.notify_all();
            });
            // The callbacks stay; an urgent caller tries again now.
            self.state.sleep_timeout(RATE_LIMITED, ROUND_INTERVAL_ON_ERROR, || (), || self.is_urgent());
        }
    }

    /// Returns the time until `moment`, unless it has passed or the worker must hurry.
    fn time_until(&self, moment: u64) -> Option<Duration> {
        let left = moment.saturating_sub(now());
        (left != 0 && !self.must_hurry()).then(|| Duration::from_nanos(left))
    }

    /// Assigns cookies to the callbacks that have none.
    fn assign_cookies(&self, host: &impl Host) -> Found {
        let mut found = Found { pending: Pending::None, cookie: None, is_held: false, owners_suffice: true };
        for queue in host.queues() {
            let pending = queue.pending();
            if pending == Pending::None {
                continue;
            }
            match queue.assign_cookies(host.engine()) {
                Ok((cookie, owner_suffices)) => {
                    found.owners_suffice &= owner_suffices;
                    found.pending = found.pending.max(pending);
                    found.cookie = cookie.into_iter().chain(found.cookie).min();
                }
                Err(Held) => found.is_held = true,
            }
        }
        found
    }

    /// Runs ready callbacks for [`BATCH_TIME_LIMIT`]. Returns `true` if there were some.
    fn run_slice(&self, host: &impl Host) -> bool {
        // It begins where the last one ended.
        let first = self.first.load(Relaxed) as usize;
        let begin = now();
        let all = self.is_urgent() || self.backlog.above_high_mark();
        let mut has_run = false;
        loop {
            let mut is_empty = true;
            let queues = || host.queues().enumerate();
            for (index, queue) in queues().skip(first).chain(queues().take(first)) {
                if queue.pending() == Pending::None {
                    continue;
                }
                let count = |amount| self.backlog.remove(amount);
                if !queue.run_batch(host.engine(), all, |callback| host.run(callback), count) {
                    continue;
                }
                (is_empty, has_run) = (false, true);
                if now() - begin > BATCH_TIME_LIMIT {
                    self.first.store(index as u64 + 1, Relaxed);
                    return true;
                }
            }
            if is_empty {
                return has_run;
            }
        }
    }

    /// Forgets the worker and the callers that wait for it. The caller resets the queues.
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

#[cfg(all(test, not(loom)))]
mod tests;
