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

use self::found::{Found, LAZY_DELAY, has_kept, is_kept, is_ready};
use super::activity::ASSESSMENT_INTERVAL;
#[cfg(not(loom))]
use super::backlog::Backlog;
use super::backlog::Limits;
use super::callback::Callback;
use super::domain::{CallbackWorker, RawDomain, try_synchronize};
use super::queue::{Pending, Queue};
use super::rounds;
use super::running;
use super::worker_state::{GoIdle, IDLE, LAZY_WAIT, PARKED, RATE_LIMITED};
#[cfg(not(loom))]
use super::{library_waits::may_wait, worker_pool};
use crate::fence::heavy;
use crate::grace_period::engine::GpCookie;
use crate::slots::protected::Protected;
use crate::sync::block_on::wake_all;
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

fn is_timer() -> bool {
    #[cfg(not(loom))]
    return worker_pool::is_timer();
    #[cfg(loom)]
    false
}

/// Returns `true` if there is no thread of the library, and none could be started a moment ago.
fn is_stranded() -> bool {
    #[cfg(not(loom))]
    return worker_pool::is_stranded();
    #[cfg(loom)]
    false
}

/// Has a thread work for the domain. Returns `false` if there is no thread.
fn start_worker(domain: &impl RawDomain) -> bool {
    domain.submit(|domain| domain.core().callbacks.work(domain, &|| false))
}

impl CallbackWorker {
    /// After a push: makes sure that a worker will see the callback.
    #[inline(always)]
    pub fn notify(&self, lazy: bool, domain: &impl RawDomain) {
        if self.state.needs_wake(lazy) {
            self.provide(lazy, domain);
        }
    }

    /// Wakes or starts the worker. Returns `false` if there is none.
    #[cold]
    fn provide(&self, lazy: bool, domain: &impl RawDomain) -> bool {
        if is_stranded() && self.state.is_idle() {
            return false;
        }
        let park = || self.park_instead(FIRST_LOOK, domain);
        let is_missing = if lazy { self.state.wake_if_idle() } else { self.state.wake() };
        // Twice: the task may be taken before the domain is parked.
        if !is_missing || lazy && park() || start_worker(domain) || park() || park() {
            return true;
        }
        // The callbacks stay; a later push tries again. A thread that has found a worker since, and waits, must look again.
        self.state.give_up();
        step!("start-failure-without-notify", self.progress.notify_all());
        step!("start-failure-without-dismissal", self.rounds.dismiss(&self.urgent));
        false
    }

    /// Parks the domain for `delay` nanoseconds instead of starting a worker, or of one that sleeps: for a lazy callback, and
    /// if no thread can be started but there is one that resumes parked domains. Returns `false` if that is impossible.
    fn park_instead(&self, delay: u64, domain: &impl RawDomain) -> bool {
        let due = now() + delay;
        // Relaxed: as in `unpark`.
        let earlier = self.parked_until.load(Relaxed);
        // Pushes that follow one another soon must not postpone it for ever.
        let due =
            if earlier <= due && domain.is_parked(earlier) { Some(earlier) } else { self.park(due, domain) };
        let Some(due) = due else { return false };
        // No fence: if this misses a callback, the task finds it soon.
        let has_work = || !domain.is_parked(due);
        if self.state.leave_running(PARKED, || (), has_work) == GoIdle::Idle {
            // A caller of `barrier` that has found a worker since does not wait for the task, which others may delay.
            step!("parked-without-notify", self.progress.notify_all());
            return true;
        }
        self.unpark(domain);
        false
    }

    /// Leaves a task that calls [`resume`](Self::resume) at the time `due`, in place of an earlier one. Returns `due`,
    /// or `None` if there is no thread for that.
    fn park(&self, due: u64, domain: &impl RawDomain) -> Option<u64> {
        // Even: see `TimerKey`.
        let due = due & !1;
        self.unpark(domain);
        domain.park(due, |domain| domain.core().callbacks.resume(domain)).then(|| {
            self.parked_until.store(due, Relaxed);
            due
        })
    }

    fn unpark(&self, domain: &impl RawDomain) {
        // Relaxed, here and above: accesses are ordered by changes of the state.
        let due = self.parked_until.load(Relaxed);
        if due != 0 {
            self.parked_until.store(0, Relaxed);
            domain.unpark(due);
        }
    }

    /// The task of a parked domain: works, unless there is a worker.
    pub fn resume(&self, domain: &impl RawDomain) {
        if self.state.resume() {
            if is_timer() { self.work_without_sleep(domain) } else { self.work(domain, &|| false) }
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
    fn advance_rounds(&self, domain: &impl RawDomain) -> Vec<Waker> {
        let (served, has_begun) = self.rounds.advance(&self.urgent, || domain.queues(), domain.hazards());
        if has_begun {
            step!(
                "round-without-worker",
                if self.state.wake() && !start_worker(domain) {
                    self.state.give_up();
                    self.progress.notify_all();
                    self.rounds.dismiss(&self.urgent);
                }
            );
        }
        served
    }

    /// Returns the most urgent kind of callback in any queue.
    fn pending(&self, domain: &impl RawDomain) -> Pending {
        domain.queues().map(Queue::pending).max().unwrap_or(Pending::None)
    }

    /// The worker's loop: runs until all queues are empty, or hold nothing but lazy callbacks, or until `stop` returns
    /// `true` and the domain is not closed.
    pub fn work(&self, domain: &impl RawDomain, stop: &dyn Fn() -> bool) {
        self.unpark(domain);
        self.backlog.end_gp_wait();
        let mut lingers_since = None;
        // The last sleep was for an owner that had claimed its queue.
        let mut has_slept_for_owner = false;
        loop {
            let is_closed = || self.closed.load(Relaxed) != 0;
            if !is_closed() && stop() && self.state.leave_running(IDLE, || (), is_closed) == GoIdle::Idle {
                step!("worker-stops-without-notify", self.progress.notify_all());
                return step!("worker-stops-without-dismissal", self.rounds.dismiss(&self.urgent));
            }
            // Before each sleep.
            let mut served = Vec::new();
            step!("round-not-ended", served = self.advance_rounds(domain));
            let found = self.assign_cookies(domain);
            let until_assessment = || self.time_until(now() + ASSESSMENT_INTERVAL);
            let again = mem::take(&mut has_slept_for_owner);
            if found.pending == Pending::None && !found.is_held && self.end(domain) == GoIdle::Idle {
                // This thread is no worker any more.
                return wake_all(served);
            }
            rounds::wake(served);
            if found.pending == Pending::None {
                if found.is_held {
                    self.wait_for_owner(again, domain);
                    has_slept_for_owner = !again;
                    lingers_since = None;
                }
            } else if let Some(time) = self.lazy_time(&found, domain) {
                if self.wait_lazily(time, &found, domain) == GoIdle::Idle {
                    return;
                }
                lingers_since = None;
            } else if self.run_slice(domain) {
                step!("run-without-notify", self.progress.notify_all());
            } else if let Some(time) = found.owners_suffice.then(until_assessment).flatten() {
                // No fence: as in `wait_for_grace_period`.
                self.state.sleep_timeout(RATE_LIMITED, time, || (), || self.must_hurry());
                lingers_since = None;
            } else if self.wait_for_grace_period(found.cookie, &mut lingers_since, domain) == GoIdle::Idle {
                return;
            }
        }
    }

    /// All queues with callbacks are held: sleeps until the owner of one wakes the worker when it has run its callbacks.
    /// `again`: the worker was woken for nothing. What is retired in the owner's destructor must not wake it each time.
    fn wait_for_owner(&self, again: bool, domain: &impl RawDomain) {
        let is_ready = || is_ready(self.must_run_lazy(), domain);
        if again {
            let time = Duration::from_nanos(MIN_ROUND_INTERVAL);
            self.state.sleep_timeout(RATE_LIMITED, time, || (), is_ready);
        } else {
            let time = Duration::from_nanos(LAZY_DELAY);
            self.state.sleep_timeout(LAZY_WAIT, time, try_heavy, is_ready);
        }
    }

    /// There are no callbacks: ends the worker, unless some are pushed at this moment.
    fn end(&self, domain: &impl RawDomain) -> GoIdle {
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
    fn wait_lazily(&self, time: Duration, found: &Found, domain: &impl RawDomain) -> GoIdle {
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

    /// What the worker does in a thread that must not sleep for readers, as other domains may have no other thread: a round.
    /// Then parks the domain, unless nothing is left.
    fn work_without_sleep(&self, domain: &impl RawDomain) {
        self.unpark(domain);
        loop {
            let found = self.assign_cookies(domain);
            if found.pending == Pending::None && !found.is_held {
                if self.end(domain) == GoIdle::Idle {
                    return self.backlog.end_gp_wait();
                }
                continue;
            }
            let lazy_time = self.lazy_time(&found, domain).map(|time| time.as_nanos() as u64);
            if lazy_time.is_none() {
                if self.run_slice(domain) || try_synchronize(domain) && self.run_slice(domain) {
                    self.backlog.end_gp_wait();
                } else if self.backlog.gp_wait().is_none() {
                    self.backlog.begin_gp_wait(now());
                }
                rounds::wake(self.advance_rounds(domain));
            }
            let [least, most] = POLL_INTERVAL;
            let retry = self.backlog.gp_wait().map_or(least, |waited| (waited / 4).clamp(least, most));
            if self.park_instead(lazy_time.unwrap_or(retry), domain) {
                return;
            }
        }
    }

    /// Lingers, or waits for the grace period. Parks the domain if this thread must not sleep.
    fn wait_for_grace_period(
        &self,
        cookie: Option<GpCookie>,
        lingers_since: &mut Option<u64>,
        domain: &impl RawDomain,
    ) -> GoIdle {
        let is_done = |cookie| domain.core().engine.is_done(cookie);
        let Some(cookie) = cookie.filter(|cookie| !is_done(*cookie)) else { return GoIdle::WorkFound };
        let in_progress = domain.core().engine.in_progress();
        let linger_end = *lingers_since.get_or_insert_with(now) + LINGER;
        let pause = || self.time_until(linger_end.max(self.last_round.load(Relaxed) + MIN_ROUND_INTERVAL));
        if let Some(time) = in_progress.is_none().then(pause).flatten() {
            // No fence: see invariant 3 of the worker's state.
            self.state.sleep_timeout(RATE_LIMITED, time, || (), || pause().is_none());
            return GoIdle::WorkFound;
        }
        *lingers_since = None;
        #[cfg(not(loom))]
        if !may_wait(domain) {
            self.work_without_sleep(domain);
            return GoIdle::Idle;
        }
        let begin = now();
        self.backlog.begin_gp_wait(begin);
        let result = domain.wait_for(in_progress.unwrap_or(cookie));
        self.backlog.end_gp_wait();
        self.last_round.store(if in_progress.is_some() { now() } else { begin }, Relaxed);
        if result.is_err() {
            step!("failed-round-without-notify", {
                self.failures.fetch_add(1, Relaxed);
                self.progress.notify_all();
            });
            step!("failed-round-without-dismissal", self.rounds.dismiss(&self.urgent));
            // The callbacks stay; an urgent caller tries again now.
            // (A domain that is closed has none, but is urgent.)
            let is_called = || self.urgent.load(Relaxed) > self.closed.load(Relaxed);
            self.state.sleep_timeout(RATE_LIMITED, ROUND_INTERVAL_ON_ERROR, || (), is_called);
        }
        GoIdle::WorkFound
    }

    /// Returns the time until `moment`, unless it has passed or the worker must hurry.
    fn time_until(&self, moment: u64) -> Option<Duration> {
        let left = moment.saturating_sub(now());
        (left != 0 && !self.must_hurry()).then(|| Duration::from_nanos(left))
    }

    /// Runs a callback whose grace period has ended, or keeps it, if a hazard pointer protects its value. `protected`: see
    /// [`Hazards::is_protected`](super::hazards::Hazards::is_protected).
    #[inline(always)]
    fn run_unless_protected(
        &self,
        callback: Callback,
        protected: &mut Option<Protected>,
        domain: &impl RawDomain,
    ) {
        if let Some(hazards) = domain.hazards() {
            if hazards.is_protected(&callback, protected, &domain.core().engine) {
                step!("protected-value-freed", {
                    let is_first = hazards.keep(callback);
                    // For when no other work comes. The worker looks at what is kept sooner than at what is lazy, so it must
                    // know of the first.
                    return step!("kept-without-notify", self.notify(!is_first, domain));
                });
            }
        }
        running::run(domain, callback);
    }

    /// Runs ready callbacks for [`BATCH_TIME_LIMIT`]. Returns `true` if there were some.
    fn run_slice(&self, domain: &impl RawDomain) -> bool {
        // It begins where the last one ended.
        let first = self.first.load(Relaxed) as usize;
        let begin = now();
        let _running = self.slice.begin(begin);
        let all = self.is_urgent() || self.backlog.above_limit();
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
                let run = |callback, protected: &mut Option<Protected>| {
                    self.run_unless_protected(callback, protected, domain);
                };
                if !queue.run_batch(&domain.core().engine, all, begin + BATCH_TIME_LIMIT, run, count) {
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

#[cfg(all(test, not(loom)))]
mod tests;
