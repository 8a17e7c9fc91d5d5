//! The callback worker of a domain: takes callbacks through a grace period and runs them.
//!
//! Owners push to their queues ([`crate::reclaim::queue`]) and wake the worker ([`crate::reclaim::worker_state`]).
//! Callers that wait for the worker use an [`EventCount`](crate::sync::event_count::EventCount). How much may wait is decided by the
//! [`crate::reclaim::backlog`].
//!
//! # A round
//!
//! ```text
//! assign cookies   to the callbacks of each queue that have none                            (Queue::assign_cookies)
//! run              ready callbacks, a batch of each queue in turn, for BATCH_TIME_LIMIT     (Queue::run_batch)
//! notify           callers of barrier() and throttled ones                                  (EventCount::notify_all)
//! linger           for LINGER, and until MIN_ROUND_INTERVAL after the last round began      (WorkerState::sleep_timeout)
//! wait             for the grace period, which callers of synchronize() share               (RawDomain::wait_for)
//! ```
//!
//! It lingers and waits only when no callbacks are ready. It does not linger if a caller is urgent or the backlog is
//! long. What does not run within BATCH_TIME_LIMIT runs in the next round, after the next cookies have been assigned. So a
//! callback does not wait for all of a thousand others that *another* thread has deferred.
//!
//! # Example
//!
//! One callback in an idle domain. Before, 7 grace periods have ended.
//!
//! ```text
//!   0 us   an owner pushes it, changes the state from IDLE to RUNNING, and starts the worker
//!  50      the worker assigns cookie 8. Nothing is ready and no grace period is in progress: it lingers
//! 150      LINGER is over: it leads grace period 8 (one heavy fence)
//! 180      assigns no cookie; cookie 8 is done: runs the callback, and notifies
//! 181      finds no callbacks: RUNNING to IDLE, heavy fence, looks at the queues once more, ends
//! ```
//!
//! If the owner calls `synchronize()` at 60, that leads grace period 8, and the worker, which wakes at 150, finds the
//! callback ready. If the callback is lazy, the owner parks the domain instead of starting a worker. A worker resumes
//! it at 1000, finds that nothing is urgent, and parks it until the callback is ten seconds old.
//!
//! Where the owners of all queues reclaim by themselves ([`Queue::assign_cookies`]), the worker leads no
//! grace period. It looks again after ASSESSMENT_INTERVAL. Grace periods of its own would interrupt the owners.
//!
//! A worker that finds nothing but lazy callbacks ends, and leaves a task that resumes when they must run: so domains
//! that are lazy share their threads ([`super::lazy_timer`]).
//!
//! The worker must not make a caller of `synchronize()` wait for two grace periods: one that the worker leads, and the
//! next. A program that defers something often calls `synchronize()` at once, and that serves the worker's callbacks
//! too: so the worker lingers before it leads. It waits for a grace period that is in progress, and lingers again, so
//! that a caller in a loop leads all of them.
//!
//! What owners do themselves, and how callers are throttled, is in `worker/owner.rs`; how callers wait for the worker, in
//! `worker/barrier.rs`.

mod barrier;
mod found;
mod owner;

use core::mem;
use core::task::Waker;
use std::panic::catch_unwind;
use std::time::Duration;

use self::found::{Found, has_kept, is_kept, is_ready};
use super::activity::ASSESSMENT_INTERVAL;
#[cfg(not(loom))]
use super::backlog::Backlog;
use super::backlog::Limits;
use super::callback::Callback;
use super::domain::{CallbackWorker, RawDomain, address};
use super::hazards::Hazards;
use super::invoke;
#[cfg(not(loom))]
use super::library_waits;
use super::queue::{Pending, Queue};
use super::rounds;
use super::running;
#[cfg(not(loom))]
use super::worker_pool;
use super::worker_state::{GoIdle, IDLE, LAZY_WAIT, PARKED, RATE_LIMITED};
use crate::fence::heavy;
use crate::grace_period::engine::{Denied, GpCookie};
use crate::readers::any::AnyEngine;
use crate::slots::protected::Protected;
use crate::sync::{Ordering::*, now, step};

/// Nanoseconds between the beginnings of two rounds, and after a grace period of another leader: so a writer costs the
/// readers a thousand interrupts a second and not fifty thousand. (Owners add their own, if they defer so much that it
/// pays: [`Queue::own_gp_took`].)
const MIN_ROUND_INTERVAL: u64 = if cfg!(loom) { 0 } else { 1_000_000 };
/// Nanoseconds for which the worker of an idle domain lingers: several times what a caller takes that defers something
/// and then waits.
const LINGER: u64 = if cfg!(loom) { 0 } else { 100_000 };
/// The time between rounds after one that failed.
const ROUND_INTERVAL_ON_ERROR: Duration = Duration::from_secs(1);
/// For how long the worker sleeps until the owner wakes it that runs the callbacks of its queue. It may be wanted
/// meanwhile.
const OWNER_PATIENCE: Duration = Duration::from_millis(10);
/// Nanoseconds after which a domain is resumed that was parked instead of starting a worker.
const FIRST_LOOK: u64 = 1_000_000;
/// Nanoseconds between two attempts to end a grace period without sleeping: a quarter of the time since the first one,
/// but at least, and at most.
const POLL_INTERVAL: [u64; 2] = [1_000_000, 100_000_000];

/// Nanoseconds for which the worker runs callbacks before it looks at the queues again.
const BATCH_TIME_LIMIT: u64 = 1_000_000;

/// A heavy fence. If the kernel denies it, a callback that is pushed at this moment may wait for the next one.
pub(super) fn try_heavy() {
    if cfg!(loom) { heavy() } else { _ = catch_unwind(heavy) }
}

/// See [`library_waits::is_wanted`](super::library_waits).
fn is_wanted() -> bool {
    #[cfg(not(loom))]
    return library_waits::is_wanted();
    #[cfg(loom)]
    false
}

/// See [`library_waits::wait_or_try`](super::library_waits).
fn wait_or_try(domain: &dyn RawDomain, cookie: GpCookie) -> Result<bool, Denied> {
    #[cfg(not(loom))]
    return library_waits::wait_or_try(domain, cookie);
    #[cfg(loom)]
    domain.wait_for(cookie).map(|()| true)
}

/// Returns `true` if there is no thread of the library, and none could be started a moment ago.
fn is_stranded() -> bool {
    #[cfg(not(loom))]
    return worker_pool::is_stranded();
    #[cfg(loom)]
    false
}

/// Has a thread work for the domain. Returns `false` if there is no thread.
fn start_worker(domain: &dyn RawDomain) -> bool {
    domain.submit(|domain| domain.core().callbacks.work(domain, &|| false))
}

impl CallbackWorker {
    /// After a push: makes sure that a worker will see the callback.
    #[inline(always)]
    pub fn notify(&self, lazy: bool, domain: &dyn RawDomain) {
        if self.state.needs_wake(lazy) {
            self.provide(lazy, domain);
        }
    }

    /// Wakes or starts the worker. Returns `false` if there is none.
    #[cold]
    fn provide(&self, lazy: bool, domain: &dyn RawDomain) -> bool {
        if is_stranded() && self.state.is_idle() {
            return false;
        }
        let is_missing = if lazy { self.state.wake_if_idle() } else { self.state.wake() };
        !is_missing || self.start_or_park(lazy, domain)
    }

    /// The caller must provide the worker: starts one, or parks the domain for a moment if none can be started, or if
    /// all is `lazy`. Returns `false` if there is no thread.
    fn start_or_park(&self, lazy: bool, domain: &dyn RawDomain) -> bool {
        if lazy && self.try_park(FIRST_LOOK, domain) == Some(GoIdle::Idle)
            || start_worker(domain)
            || self.park_instead(FIRST_LOOK, domain)
        {
            return true;
        }
        // The callbacks stay; a later push tries again. A thread that has found a worker since, and waits, must look again.
        self.state.give_up();
        step!("start-failure-without-notify", self.progress.notify_all());
        step!("start-failure-without-dismissal", rounds::wake(self.rounds.dismiss(&self.urgent)));
        false
    }

    /// Parks the domain for `delay` nanoseconds instead of starting a worker, or of one that sleeps. Returns `false`
    /// if that is impossible, as there is no thread that resumes parked domains.
    fn park_instead(&self, delay: u64, domain: &dyn RawDomain) -> bool {
        loop {
            match self.try_park(delay, domain) {
                Some(GoIdle::Idle) => return true,
                Some(GoIdle::WorkFound) => {}
                None => return false,
            }
        }
    }

    /// [`park_instead`](Self::park_instead), but the task may be taken before the domain is parked, and then does
    /// nothing: [`GoIdle::WorkFound`].
    fn try_park(&self, delay: u64, domain: &dyn RawDomain) -> Option<GoIdle> {
        let due = now() + delay;
        // Relaxed: as in `unpark`.
        let earlier = self.parked_until.load(Relaxed);
        // Pushes that follow one another soon must not postpone it for ever.
        let due =
            if earlier <= due && domain.is_parked(earlier) { Some(earlier) } else { self.park(due, domain) };
        let due = due?;
        // No fence: if this misses a callback, the task finds it soon.
        let is_taken = || !domain.is_parked(due);
        let result = self.state.leave_running(PARKED, || (), is_taken);
        if result == GoIdle::Idle {
            // A caller of `barrier` that has found a worker since does not wait for the task, which others may delay.
            step!("parked-without-notify", self.progress.notify_all());
        }
        Some(result)
    }

    /// Leaves a task that calls [`resume`](Self::resume) at the time `due`, in place of an earlier one. Returns `due`,
    /// or `None` if there is no thread for that.
    fn park(&self, due: u64, domain: &dyn RawDomain) -> Option<u64> {
        // Even: see `TimerKey`.
        let due = due & !1;
        self.unpark(domain);
        domain.park(due, |domain| domain.core().callbacks.resume(domain)).then(|| {
            self.parked_until.store(due, Relaxed);
            due
        })
    }

    fn unpark(&self, domain: &dyn RawDomain) {
        // Relaxed, here and above: accesses are ordered by changes of the state.
        let due = self.parked_until.load(Relaxed);
        if due != 0 {
            self.parked_until.store(0, Relaxed);
            domain.unpark(due);
        }
    }

    /// The task of a parked domain: works, unless there is a worker.
    pub fn resume(&self, domain: &dyn RawDomain) {
        if self.state.resume() {
            self.work(domain, &|| false);
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

    /// Returns the wakers of futures whose barriers have ended.
    fn advance_rounds(&self, domain: &dyn RawDomain) -> Vec<Waker> {
        let (served, has_begun) = self.rounds.advance(&self.urgent, || domain.queues(), domain.hazards());
        if has_begun {
            step!(
                "round-without-worker",
                if self.state.wake() {
                    self.start_or_park(false, domain);
                    #[cfg(not(loom))]
                    if library_waits::must_do_without() {
                        // The domain may be parked for long. Threads that poll become its worker.
                        rounds::wake(self.rounds.dismiss(&self.urgent));
                    }
                }
            );
        }
        served
    }

    /// Returns the most urgent kind of callback in any queue.
    fn pending(&self, domain: &dyn RawDomain) -> Pending {
        domain.queues().map(Queue::pending).max().unwrap_or(Pending::None)
    }

    /// The worker's loop: runs until all queues are empty, or hold nothing but lazy callbacks, or until `stop` returns
    /// `true`, or until the domain is parked, as this thread is wanted.
    pub fn work(&self, domain: &dyn RawDomain, stop: &dyn Fn() -> bool) {
        self.unpark(domain);
        let mut lingers_since = None;
        // The last sleep was for an owner that had claimed its queue.
        let mut has_slept_for_owner = false;
        loop {
            if stop() && self.stop(domain) == GoIdle::Idle {
                return;
            }
            // Before each sleep.
            let mut served = Vec::new();
            step!("round-not-ended", served = self.advance_rounds(domain));
            let found = self.assign_cookies(domain);
            let until_assessment = || self.time_until(now() + ASSESSMENT_INTERVAL);
            let again = mem::take(&mut has_slept_for_owner);
            if found.pending == Pending::None && !found.is_held && self.end(domain) == GoIdle::Idle {
                // This thread is no worker any more.
                return running::wake_all(served);
            }
            if self.wake_elsewhere(served, domain) == GoIdle::Idle {
                return;
            }
            let next = if found.pending == Pending::None {
                lingers_since = None;
                has_slept_for_owner = found.is_held && !again;
                if found.is_held { self.wait_for_owner(again, domain) } else { GoIdle::WorkFound }
            } else if let Some(time) = self.lazy_time(&found, domain) {
                lingers_since = None;
                self.wait_lazily(time, &found, domain)
            } else if self.run_slice(domain) {
                self.backlog.end_gp_wait();
                step!("run-without-notify", self.progress.notify_all());
                self.give_thread_up(FIRST_LOOK, domain)
            } else if let Some(time) = found.owners_suffice.then(until_assessment).flatten() {
                lingers_since = None;
                self.rest(time, || self.must_hurry(), domain)
            } else {
                self.wait_for_grace_period(found.cookie, &mut lingers_since, domain)
            };
            if next == GoIdle::Idle {
                return;
            }
        }
    }

    /// This thread stops being the worker, unless something has just been pushed. What is pending gets another
    /// worker, if there is a thread.
    fn stop(&self, domain: &dyn RawDomain) -> GoIdle {
        let pending = self.pending(domain);
        step!("stopped-worker-leaves-rest", {
            if pending != Pending::None && (start_worker(domain) || self.park_instead(FIRST_LOOK, domain)) {
                return GoIdle::Idle;
            }
        });
        let is_pushed = || pending == Pending::None && self.pending(domain) != Pending::None;
        let result = self.state.leave_running(IDLE, try_heavy, is_pushed);
        if result == GoIdle::Idle {
            step!("worker-stops-without-notify", self.progress.notify_all());
            step!("worker-stops-without-dismissal", rounds::wake(self.rounds.dismiss(&self.urgent)));
        }
        result
    }

    /// Has another thread call the wakers. If there is none, this one stops being the worker before it calls them:
    /// they may block, and may wait for the worker.
    fn wake_elsewhere(&self, wakers: Vec<Waker>, domain: &dyn RawDomain) -> GoIdle {
        let Some(call) = rounds::submit(wakers) else { return GoIdle::WorkFound };
        while self.stop(domain) == GoIdle::WorkFound {}
        call();
        GoIdle::Idle
    }

    /// Parks the domain for `delay` nanoseconds, which ends the worker, if its thread is wanted.
    fn give_thread_up(&self, delay: u64, domain: &dyn RawDomain) -> GoIdle {
        if is_wanted() && self.park_instead(delay, domain) { GoIdle::Idle } else { GoIdle::WorkFound }
    }

    /// Sleeps for `time`, or until another thread wakes the worker because it `must_go_on`. If this thread is wanted,
    /// parks the domain instead.
    fn rest(&self, time: Duration, must_go_on: impl FnOnce() -> bool, domain: &dyn RawDomain) -> GoIdle {
        let result = self.give_thread_up(time.as_nanos() as u64, domain);
        if result == GoIdle::WorkFound {
            // No fence: see invariant 3 of the worker's state.
            self.state.sleep_timeout(RATE_LIMITED, time, || (), must_go_on);
        }
        result
    }

    /// All queues with callbacks are held: sleeps until the owner of one wakes the worker when it has run its callbacks.
    /// `again`: the worker was woken for nothing. What is retired in the owner's destructor must not wake it each time.
    fn wait_for_owner(&self, again: bool, domain: &dyn RawDomain) -> GoIdle {
        let is_ready = || is_ready(self.must_run_lazy(), domain);
        if again {
            return self.rest(Duration::from_nanos(MIN_ROUND_INTERVAL), is_ready, domain);
        }
        let result = self.give_thread_up(MIN_ROUND_INTERVAL, domain);
        if result == GoIdle::WorkFound {
            self.state.sleep_timeout(LAZY_WAIT, OWNER_PATIENCE, try_heavy, is_ready);
        }
        result
    }

    /// There are no callbacks: ends the worker, unless some are pushed at this moment.
    fn end(&self, domain: &dyn RawDomain) -> GoIdle {
        self.backlog.end_gp_wait();
        let has_work = || self.pending(domain) != Pending::None;
        let result = self.state.leave_running(IDLE, try_heavy, has_work);
        if result == GoIdle::Idle {
            // Owners may have run what a barrier waits for.
            step!("run-without-notify", step!("idle-without-notify", self.progress.notify_all()));
            step!("round-not-ended", rounds::wake(self.advance_rounds(domain)));
        }
        result
    }

    /// There are only lazy callbacks: parks the domain for `time`, which ends the worker, or sleeps if that is
    /// impossible.
    fn wait_lazily(&self, time: Duration, found: &Found, domain: &dyn RawDomain) -> GoIdle {
        let others_are_ready =
            || domain.queues().any(|queue| !is_kept(queue, domain) && queue.is_ready(true));
        // It may wait for less time than lazy callbacks.
        let is_first_kept = || !found.has_kept && has_kept(domain);
        let has_work = || {
            is_ready(false, domain)
                || is_first_kept()
                || self.must_run_lazy() && (!found.only_kept || others_are_ready())
        };
        let due = now().saturating_add(time.as_nanos() as u64);
        let Some(due) = self.park(due, domain) else {
            self.state.sleep_timeout(LAZY_WAIT, time, try_heavy, has_work);
            return GoIdle::WorkFound;
        };
        let has_work = || has_work() || !domain.is_parked(due);
        let result = self.state.leave_running(PARKED, try_heavy, has_work);
        if result == GoIdle::WorkFound {
            self.unpark(domain);
        }
        result
    }

    /// Lingers, or waits for the grace period. If this thread must not sleep for readers, tries one, and parks the
    /// domain.
    fn wait_for_grace_period(
        &self,
        cookie: Option<GpCookie>,
        lingers_since: &mut Option<u64>,
        domain: &dyn RawDomain,
    ) -> GoIdle {
        let is_done = |cookie| domain.core().engine.is_done(cookie);
        let Some(cookie) = cookie.filter(|cookie| !is_done(*cookie)) else { return GoIdle::WorkFound };
        let in_progress = domain.core().engine.in_progress();
        let linger_end = *lingers_since.get_or_insert_with(now) + LINGER;
        let pause = || self.time_until(linger_end.max(self.last_round.load(Relaxed) + MIN_ROUND_INTERVAL));
        if let Some(time) = in_progress.is_none().then(pause).flatten().filter(|_| !is_wanted()) {
            // No fence: see invariant 3 of the worker's state.
            self.state.sleep_timeout(RATE_LIMITED, time, || (), || pause().is_none());
            return GoIdle::WorkFound;
        }
        *lingers_since = None;
        let begin = now();
        if self.backlog.gp_wait().is_none() {
            self.backlog.begin_gp_wait(begin);
        }
        let result = wait_or_try(domain, in_progress.unwrap_or(cookie));
        if is_done(cookie) || result != Ok(false) {
            self.backlog.end_gp_wait();
        }
        match result {
            Ok(true) => {}
            Ok(false) => {
                let [least, most] = POLL_INTERVAL;
                let waited = self.backlog.gp_wait().unwrap_or(0);
                let delay = (waited / 4).clamp(least, most);
                return if self.park_instead(delay, domain) { GoIdle::Idle } else { GoIdle::WorkFound };
            }
            Err(Denied) => {
                step!("failed-round-without-notify", {
                    self.failures.fetch_add(1, Relaxed);
                    self.progress.notify_all();
                });
                let mut dismissed = Vec::new();
                step!("failed-round-without-dismissal", dismissed = self.rounds.dismiss(&self.urgent));
                if self.wake_elsewhere(dismissed, domain) == GoIdle::Idle {
                    return GoIdle::Idle;
                }
                // The callbacks stay; an urgent caller tries again now.
                return self.rest(ROUND_INTERVAL_ON_ERROR, || self.is_urgent(), domain);
            }
        }
        self.last_round.store(if in_progress.is_some() { now() } else { begin }, Relaxed);
        GoIdle::WorkFound
    }

    /// Returns the time until `moment`, unless it has passed or the worker must hurry.
    fn time_until(&self, moment: u64) -> Option<Duration> {
        let left = moment.saturating_sub(now());
        (left != 0 && !self.must_hurry()).then(|| Duration::from_nanos(left))
    }

    /// For a batch of callbacks.
    fn runner<'a>(&'a self, domain: &'a dyn RawDomain) -> Runner<'a> {
        let (engine, hazards) = (&domain.core().engine, domain.hazards());
        Runner { worker: self, domain, address: address(domain), engine, hazards }
    }

    /// Runs ready callbacks for [`BATCH_TIME_LIMIT`]. Returns `true` if there were some.
    fn run_slice(&self, domain: &dyn RawDomain) -> bool {
        // It begins where the last one ended.
        let first = self.first.load(Relaxed) as usize;
        let begin = now();
        let _running = self.slice.begin(begin);
        let all = self.is_urgent() || self.backlog.above_limit();
        let runner = self.runner(domain);
        let mut has_run = false;
        loop {
            let mut is_empty = true;
            let queues = || domain.queues().enumerate();
            for (index, queue) in queues().skip(first).chain(queues().take(first)) {
                if queue.pending() == Pending::None {
                    continue;
                }
                let count = |amount| {
                    if !is_kept(queue, domain) {
                        self.backlog.remove(amount);
                    }
                };
                let run = |callback, protected: &mut Option<Protected>| runner.run(callback, protected);
                if !queue.run_batch(runner.engine, all, begin + BATCH_TIME_LIMIT, run, count) {
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
}

/// What each callback of a batch needs of its domain, read once.
struct Runner<'a> {
    worker: &'a CallbackWorker,
    domain: &'a dyn RawDomain,
    address: *const (),
    engine: &'a AnyEngine,
    hazards: Option<&'a Hazards>,
}

impl Runner<'_> {
    /// Runs a callback whose grace period has ended, or keeps it, if a hazard pointer protects its value. `protected`: see
    /// [`Hazards::is_protected`].
    #[inline(always)]
    fn run(&self, callback: Callback, protected: &mut Option<Protected>) {
        if let Some(hazards) = self.hazards {
            if hazards.is_protected(&callback, protected, self.engine) {
                step!("protected-value-freed", {
                    let is_first = hazards.keep(callback);
                    // For when no other work comes. The worker looks at what is kept sooner than at what is lazy, so it must
                    // know of the first.
                    return step!("kept-without-notify", self.worker.notify(!is_first, self.domain));
                });
            }
        }
        invoke::run(self.domain, self.address, callback);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
