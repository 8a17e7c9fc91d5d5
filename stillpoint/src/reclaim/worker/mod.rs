//! The callback worker of a domain: takes callbacks through a grace period and runs them.
//!
//! Owners push to their queues ([`crate::reclaim::queue`]) and wake the worker ([`state`]). How much may wait is decided
//! by the [`crate::reclaim::backlog`].
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
//! It lingers and waits only when no callbacks are ready, and does not linger if a caller is urgent or the backlog is
//! long. What does not run within BATCH_TIME_LIMIT runs in the next round, after the next cookies have been assigned:
//! so a callback does not wait for all of a thousand others that *another* thread has deferred.
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
//! callback ready.
//!
//! Where the owners of all queues reclaim by themselves (`Queue::assign_cookies`), the worker leads no grace period,
//! which would interrupt the owners, and looks again after ASSESSMENT_INTERVAL.
//!
//! A worker that finds nothing but what hazard pointers keep ends, and leaves a task that looks again after a second:
//! so such domains share their threads ([`super::pool`]).
//!
//! The worker must not make a caller of `synchronize()` wait for two grace periods: one that the worker leads, and
//! the next. A program that defers something often calls `synchronize()` at once, and that serves the worker's
//! callbacks too: so the worker lingers before it leads. It waits for a grace period that is in progress, and lingers
//! again, so that a caller in a loop leads all of them.
//!
//! What owners do themselves, and how callers are throttled and wait for the worker, is in `owner.rs`.

mod found;
mod poll;
mod runner;
pub mod state;

use core::cell::OnceCell;
use core::task::Waker;
use std::time::Duration;

use super::backlog::Limits;
use super::callback::wake_all;
use super::domain::{self, RawDomain};
use super::hazards::Hazards;
use super::poller;
use super::pool;
use super::pool::state::Submitted;
use super::queue::Pending;
use super::queue::front::ASSESSMENT_INTERVAL;
use crate::fence::try_heavy;
use crate::grace_period::engine::{Denied, GpCookie};
use crate::slots::protected::Protected;
use crate::sync::{Ordering::*, now, step};
use found::is_kept;
use state::{CallbackWorker, GoIdle, IDLE, PARKED, RETRYING};

/// Nanoseconds between the beginnings of two rounds, and after a grace period of another leader: so a writer costs
/// the readers a thousand interrupts a second and not fifty thousand. (Owners add their own, if they defer so much
/// that it pays: `Queue::own_gp_took`.)
const MIN_ROUND_INTERVAL: u64 = if cfg!(loom) { 0 } else { 1_000_000 };
/// Nanoseconds for which the worker of an idle domain lingers: several times what a caller takes that defers
/// something and then waits.
const LINGER: u64 = if cfg!(loom) { 0 } else { 100_000 };
/// The time between rounds after one that failed.
const ROUND_INTERVAL_ON_ERROR: Duration = Duration::from_secs(1);
/// Nanoseconds after which a domain is resumed for which no thread could be started.
const FIRST_LOOK: u64 = 1_000_000;
/// Nanoseconds between two attempts to end a grace period without sleeping: a quarter of the time since the first
/// one, but at least, and at most.
const POLL_INTERVAL: [u64; 2] = [1_000_000, 100_000_000];

/// Nanoseconds for which the worker runs callbacks before it looks at the queues again.
const BATCH_TIME_LIMIT: u64 = 1_000_000;

/// Has a thread work for the domain.
pub(super) fn start_worker(domain: &dyn RawDomain) -> Submitted {
    domain.submit(|domain| domain.work().callbacks.work(domain, &|| false))
}

impl CallbackWorker {
    /// After a push: makes sure that a worker will see the callback.
    #[inline(always)]
    pub fn notify(&self, domain: &dyn RawDomain) {
        if self.state.needs_wake() {
            self.notify_slow(domain);
        }
    }

    #[cold]
    fn notify_slow(&self, domain: &dyn RawDomain) {
        // A domain that is resumed soon stays parked, until it is time to try to start a thread. Relaxed: a hint.
        let is_resumed_soon = || self.parked_until.load(Relaxed) <= now() + POLL_INTERVAL[1];
        if !(self.state.is_parked() && domain.must_wait() && is_resumed_soon()) {
            self.provide(domain);
        }
    }

    /// Wakes or starts the worker. Returns `false` if there is none.
    #[cold]
    pub(super) fn provide(&self, domain: &dyn RawDomain) -> bool {
        if pool::is_stranded() && self.state.is_idle() {
            return false;
        }
        !self.state.wake() || self.start_or_park(domain)
    }

    /// The caller must provide the worker: starts one, or parks the domain until a thread looks at it. Returns
    /// `false` if there is no thread.
    fn try_provide(&self, domain: &dyn RawDomain) -> bool {
        match start_worker(domain) {
            Submitted::Started => true,
            Submitted::Full => self.park_instead(pool::first_look(), domain),
            Submitted::Failed => self.park_instead(now() + FIRST_LOOK, domain),
        }
    }

    /// [`try_provide`](Self::try_provide), or tells those that wait for a worker that there is none.
    fn start_or_park(&self, domain: &dyn RawDomain) -> bool {
        if self.try_provide(domain) {
            return true;
        }
        // The callbacks stay; a later push tries again. A thread that has found a worker since, and waits, must look
        // again.
        self.state.give_up();
        step!("start-failure-without-notify", self.progress.notify_all());
        step!("start-failure-without-dismissal", poller::wake(self.dismiss()));
        false
    }

    /// Parks the domain until the time `due` instead of starting a worker, or of one that sleeps. Returns `false` if
    /// that is impossible, as there is no thread that resumes parked domains.
    pub(super) fn park_instead(&self, due: u64, domain: &dyn RawDomain) -> bool {
        loop {
            match self.try_park(due, domain) {
                Some(GoIdle::Idle) => return true,
                Some(GoIdle::WorkFound) => {}
                None => return false,
            }
        }
    }

    /// [`park_instead`](Self::park_instead), but the task may be taken before the domain is parked, and then does
    /// nothing: [`GoIdle::WorkFound`].
    fn try_park(&self, due: u64, domain: &dyn RawDomain) -> Option<GoIdle> {
        // Relaxed: as in `unpark`.
        let earlier = self.parked_until.load(Relaxed);
        // Pushes that follow one another soon must not postpone it for ever.
        let due =
            if earlier <= due && domain.is_parked(earlier) { Some(earlier) } else { self.park(due, domain) };
        let due = due?;
        // No fence: if this misses a callback, the task finds it soon.
        let is_taken = || !domain.is_parked(due);
        let rest = if domain.is_resumed() { RETRYING } else { PARKED };
        let result = self.state.leave_running(rest, || (), &is_taken);
        if result == GoIdle::Idle {
            // A caller of `barrier` that has found a worker since does not wait for the task, which others may delay.
            step!("parked-without-notify", self.progress.notify_all());
        }
        Some(result)
    }

    /// Leaves a task that calls [`resume`](Self::resume) at the time `due`, in place of an earlier one. Returns
    /// `due`, or `None` if there is no thread for that.
    fn park(&self, due: u64, domain: &dyn RawDomain) -> Option<u64> {
        // Even: see `TimerKey`.
        let due = due & !1;
        self.unpark(domain);
        domain.park(due, |domain| domain.work().callbacks.resume(domain)).then(|| {
            self.parked_until.store(due, Relaxed);
            due
        })
    }

    pub(super) fn unpark(&self, domain: &dyn RawDomain) {
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

    pub fn set_limits(&self, limits: Limits) {
        self.backlog.set_limits(limits);
        // For callers that were throttled by the old ones.
        self.progress.notify_all();
        poller::wake(self.take_limited());
    }

    /// Returns the wakers of futures whose barriers have ended, or that may go on below the limit.
    pub(super) fn advance_rounds(&self, domain: &dyn RawDomain) -> Vec<Waker> {
        let (mut served, has_begun) = self.rounds.advance(&self.urgent, || domain.queues(), domain.hazards());
        if has_begun {
            step!(
                "round-without-worker",
                if self.state.wake() {
                    self.start_or_park(domain);
                    if domain::must_do_without() {
                        // The domain may be parked for long. Threads that poll become its worker.
                        poller::wake(self.dismiss());
                    }
                }
            );
        }
        step!("run-without-wake", served.append(&mut self.take_limited()));
        served
    }

    /// There is no worker: removes all futures. Returns the wakers to call.
    fn dismiss(&self) -> Vec<Waker> {
        let mut dismissed = self.rounds.dismiss(&self.urgent);
        dismissed.append(&mut self.limited.take(usize::MAX));
        dismissed
    }

    /// Returns the most urgent kind of callback in any queue.
    pub(super) fn pending(&self, domain: &dyn RawDomain) -> Pending {
        if (0..domain.queue_count()).any(|index| domain.queue(index).has_pending()) {
            return Pending::Urgent;
        }
        domain.hazards().map_or(Pending::None, Hazards::pending)
    }

    /// [`pending`](Self::pending), for the worker.
    fn left(&self, domain: &dyn RawDomain) -> Pending {
        // Not in the queue of what is kept.
        if domain.pending_queues().any(|(number, _)| number != 0) {
            return Pending::Urgent;
        }
        domain.hazards().map_or(Pending::None, Hazards::pending)
    }

    /// The worker's loop: runs until all queues are empty, or until `stop` returns `true`, or until the domain is
    /// parked: nothing is left but what hazard pointers keep, or this thread is wanted.
    pub fn work(&self, domain: &dyn RawDomain, stop: &dyn Fn() -> bool) {
        self.unpark(domain);
        let mut lingers_since = None;
        loop {
            if stop() && self.stop(domain) == GoIdle::Idle {
                return;
            }
            // Before each sleep.
            let mut served = Vec::new();
            step!("round-not-ended", served = self.advance_rounds(domain));
            let found = self.assign_cookies(domain);
            let until_assessment = || self.time_until(now() + ASSESSMENT_INTERVAL);
            if found.pending == Pending::None && self.end(domain) == GoIdle::Idle {
                // This thread is no worker any more.
                return wake_all(served);
            }
            if self.wake_elsewhere(served, domain) == GoIdle::Idle {
                return;
            }
            let next = if found.pending == Pending::None {
                lingers_since = None;
                GoIdle::WorkFound
            } else if let Some(time) = found.kept_time(domain) {
                lingers_since = None;
                self.wait_for_kept(time, domain)
            } else if self.run_slice(domain) {
                self.backlog.end_gp_wait();
                step!("run-without-notify", self.progress.notify_all());
                // What is left comes after the domains that are due by now.
                let is_done = domain::is_wanted() && self.left(domain) == Pending::None;
                if is_done { GoIdle::WorkFound } else { self.give_thread_up(0, domain) }
            } else if let Some(time) = found.owners_suffice.then(until_assessment).flatten() {
                lingers_since = None;
                self.rest(time, &|| self.must_hurry(), domain)
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
    pub(super) fn stop(&self, domain: &dyn RawDomain) -> GoIdle {
        let pending = self.left(domain);
        step!("stopped-worker-leaves-rest", {
            if pending != Pending::None && self.try_provide(domain) {
                return GoIdle::Idle;
            }
        });
        let is_pushed = || pending == Pending::None && self.left(domain) != Pending::None;
        let result = self.state.leave_running(IDLE, try_heavy, &is_pushed);
        if result == GoIdle::Idle {
            step!("worker-stops-without-notify", self.progress.notify_all());
            step!("worker-stops-without-dismissal", poller::wake(self.dismiss()));
        }
        result
    }

    /// Has another thread call the wakers. If there is none, this one stops being the worker before it calls them:
    /// they may block, and may wait for the worker.
    fn wake_elsewhere(&self, wakers: Vec<Waker>, domain: &dyn RawDomain) -> GoIdle {
        let Some(call) = poller::submit(wakers) else { return GoIdle::WorkFound };
        while self.stop(domain) == GoIdle::WorkFound {}
        call();
        GoIdle::Idle
    }

    /// Parks the domain for `delay` nanoseconds, which ends the worker, if its thread is wanted.
    fn give_thread_up(&self, delay: u64, domain: &dyn RawDomain) -> GoIdle {
        let is_parked = domain::is_wanted() && self.park_instead(now() + delay, domain);
        if is_parked { GoIdle::Idle } else { GoIdle::WorkFound }
    }

    /// Sleeps for `time`, or until another thread wakes the worker because it `must_go_on`. If this thread is wanted,
    /// parks the domain instead.
    fn rest(&self, time: Duration, must_go_on: &dyn Fn() -> bool, domain: &dyn RawDomain) -> GoIdle {
        let result = self.give_thread_up(time.as_nanos() as u64, domain);
        if result == GoIdle::WorkFound {
            // No fence: see invariant 3 of the worker's state.
            self.state.sleep_timeout(time, must_go_on);
        }
        result
    }

    /// There are no callbacks: ends the worker, unless some are pushed at this moment.
    fn end(&self, domain: &dyn RawDomain) -> GoIdle {
        self.backlog.end_gp_wait();
        let has_work = || self.left(domain) != Pending::None;
        let result = self.state.leave_running(IDLE, try_heavy, &has_work);
        if result == GoIdle::Idle {
            // Nothing waits, although owners may not have reported the last bytes that they have run.
            step!("run-without-notify", step!("idle-without-notify", self.progress.notify_all()));
            step!("idle-without-wake", poller::wake(self.limited.take(usize::MAX)));
            step!("round-not-ended", poller::wake(self.advance_rounds(domain)));
        }
        result
    }

    /// There is only what hazard pointers keep: parks the domain for `time`, which ends the worker, or sleeps for a
    /// while if that is impossible.
    fn wait_for_kept(&self, time: Duration, domain: &dyn RawDomain) -> GoIdle {
        let has_work = || self.left(domain) == Pending::Urgent;
        let due = now().saturating_add(time.as_nanos() as u64);
        let Some(due) = self.park(due, domain) else {
            // A push does not end it.
            self.state.sleep_timeout(time.min(Duration::from_nanos(POLL_INTERVAL[1])), &has_work);
            return GoIdle::WorkFound;
        };
        let has_work = || has_work() || !domain.is_parked(due);
        let result = self.state.leave_running(PARKED, try_heavy, &has_work);
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
        let is_done = |cookie| domain.engine().is_done(cookie);
        let Some(cookie) = cookie else {
            // Owners have claimed their queues, and may be inside a destructor that blocks. (No time passes in a
            // model.)
            let since = *lingers_since.get_or_insert_with(now);
            let blocked = now().saturating_sub(since);
            let time = Duration::from_nanos((blocked / 4).clamp(MIN_ROUND_INTERVAL, 4 * MIN_ROUND_INTERVAL));
            return if cfg!(loom) { GoIdle::WorkFound } else { self.rest(time, &|| false, domain) };
        };
        if is_done(cookie) {
            return GoIdle::WorkFound;
        }
        let in_progress = domain.engine().in_progress();
        // A parked domain would linger each time it is resumed.
        let linger = if domain::is_wanted() { 0 } else { LINGER };
        let linger_end = *lingers_since.get_or_insert_with(now) + linger;
        let pause = || self.time_until(linger_end.max(self.last_round.load(Relaxed) + MIN_ROUND_INTERVAL));
        if let Some(time) = in_progress.is_none().then(pause).flatten() {
            return self.rest(time, &|| pause().is_none(), domain);
        }
        *lingers_since = None;
        let begin = now();
        if self.backlog.gp_wait().is_none() {
            self.backlog.begin_gp_wait(begin);
        }
        // The cookie may have ended since, and the one in progress be a later one: its readers may wait for callbacks.
        let first = in_progress.map_or(cookie, |current| current.min(cookie));
        let result = domain::wait_or_try(domain, first);
        if is_done(cookie) || result != Ok(false) {
            self.backlog.end_gp_wait();
        }
        match result {
            Ok(true) => {}
            Ok(false) => {
                let waited = self.backlog.gp_wait().unwrap_or(0);
                let due = now() + pool::retry_delay(waited, POLL_INTERVAL);
                return if self.park_instead(due, domain) { GoIdle::Idle } else { GoIdle::WorkFound };
            }
            Err(Denied) => {
                step!("failed-round-without-notify", {
                    self.failures.fetch_add(1, Relaxed);
                    self.progress.notify_all();
                });
                let mut dismissed = Vec::new();
                step!("failed-round-without-dismissal", dismissed = self.dismiss());
                if self.wake_elsewhere(dismissed, domain) == GoIdle::Idle {
                    return GoIdle::Idle;
                }
                // The callbacks stay; an urgent caller tries again now.
                return self.rest(ROUND_INTERVAL_ON_ERROR, &|| self.is_urgent(), domain);
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

    /// Runs ready callbacks for [`BATCH_TIME_LIMIT`]. Returns `true` if there were some.
    pub(super) fn run_slice(&self, domain: &dyn RawDomain) -> bool {
        // It begins where the last one ended.
        let first = self.first.load(Relaxed) as usize;
        let begin = now();
        let _running = self.slice.begin(begin);
        let all = self.is_urgent() || self.backlog.above_limit();
        let runner = self.runner(domain);
        let (code, mut has_run) = (OnceCell::new(), false);
        loop {
            let mut is_empty = true;
            let from_first = domain.pending_queues().skip_while(|(number, _)| *number < first);
            let others = domain.pending_queues().take_while(|(number, _)| *number < first);
            for (number, queue) in from_first.chain(others) {
                let count = |amount| {
                    if !is_kept(queue, domain) {
                        self.backlog.reported.run(amount);
                    }
                };
                let run = |callback, protected: &mut Option<Protected>| {
                    code.get_or_init(pool::in_code);
                    runner.run(callback, protected);
                };
                if !queue.run_batch(runner.engine, all, begin + BATCH_TIME_LIMIT, run, count) {
                    continue;
                }
                (is_empty, has_run) = (false, true);
                if now() - begin > BATCH_TIME_LIMIT {
                    self.first.store(number as u64 + 1, Relaxed);
                    return true;
                }
            }
            if is_empty {
                return has_run;
            }
        }
    }
}
