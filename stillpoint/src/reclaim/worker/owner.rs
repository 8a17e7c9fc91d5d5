//! What owners of queues do after they have pushed: they run callbacks, report to the backlog, lead grace periods of
//! their own, and are throttled.
//!
//! *Owners* run callbacks while they push others: callbacks that only free memory, and callbacks that do no harm,
//! as the program says. That keeps memory in the allocator's cache of the thread, and threads from waiting for one worker.
//! All other callbacks and destructors run in the worker only, as a caller may hold a lock that they take.
//!
//! # Throttling
//!
//! Above a limit of the backlog, a caller that is neither inside a section nor in a callback runs what it
//! may of its own queue, wakes the worker, and blocks. A caller inside a section does so when it leaves the outermost
//! one (`ReaderSet::defer_to_exit`), as most code that links nodes retires inside sections only.

use crate::grace_period::stall;
use crate::probes::probe;
use crate::reclaim::backlog::{Amount, MayWait, at_least_zero};
use crate::reclaim::blocks::BLOCK;
use crate::reclaim::domain::{CallbackWorker, RawDomain, is_alone, try_synchronize};
use crate::reclaim::hazards::Hazards;
#[cfg(not(loom))]
use crate::reclaim::queue::PushAction;
use crate::reclaim::queue::{Pending, Queue, STEP};
use crate::reclaim::running;
use crate::slots::protected::Protected;
use crate::sync::{Ordering::*, now, step};

impl CallbackWorker {
    /// After a push: does what the owner of the queue must do.
    #[cfg(not(loom))]
    #[cold]
    pub fn act(&self, action: PushAction, queue: &Queue, domain: &dyn RawDomain) {
        if action == PushAction::ReclaimSome {
            return self.reclaim_some(queue, domain);
        }
        self.flush(queue, domain);
        // A destructor that has just run may have begun a section, or ended one.
        if domain.in_read_section() {
            let readers = domain.core().engine.readers();
            readers.defer_to_exit(domain.current_reader(), self.must_throttle(queue));
        }
    }

    /// After a push to a queue that is not the calling thread's: counts what was pushed, and reduces the backlog if need
    /// be.
    #[cfg(not(loom))]
    #[cold]
    pub fn count_pushed(&self, reported: [Amount; 2], queue: &Queue, domain: &dyn RawDomain) {
        self.count(reported);
        self.reduce_backlog(queue, domain);
    }

    /// After a push: the owner runs some of its ready callbacks.
    #[cold]
    pub fn reclaim_some(&self, queue: &Queue, domain: &dyn RawDomain) {
        self.run_own(queue, domain, STEP);
        if queue.has_freed_much() {
            self.report(queue);
        }
    }

    /// After the push of a block: the owner runs ready callbacks, and reports to the backlog.
    #[cold]
    pub fn flush(&self, queue: &Queue, domain: &dyn RawDomain) {
        // More than it has pushed, so that the queue becomes shorter.
        self.run_own(queue, domain, if self.backlog.above_low_mark() { 2 * BLOCK } else { STEP + 1 });
        self.report(queue);
        // Only now: a destructor that has run may have begun a section, or ended one.
        self.reduce_backlog(queue, domain);
    }

    /// After [`count`](Self::count): leads a grace period, throttles the caller, or wakes the worker, if the backlog
    /// requires it.
    #[cold]
    pub fn reduce_backlog(&self, queue: &Queue, domain: &dyn RawDomain) {
        if !domain.in_read_section() {
            if is_alone(domain) {
                _ = try_synchronize(domain);
            } else if queue.own_gp_is_due() {
                let begin = now();
                _ = try_synchronize(domain);
                let slots = domain.hazards().map_or(0, Hazards::slots);
                queue.own_gp_took(now() - begin, slots);
            }
        }
        let own = domain.current_reader().map(|_| queue);
        let has_waited = self.throttle_above_limit(own, domain);
        if !has_waited && self.backlog.above_low_mark() && self.state.is_sleeping() {
            step!("flush-threshold-does-not-wake-worker", self.provide(false, domain));
        } else if !has_waited && self.backlog.above_unknown_mark() {
            // It may have found lazy callbacks only.
            self.notify(false, domain);
        }
    }

    /// The owner runs what it may, and hands over the rest, without blocking. Returns `true` if callbacks are left.
    pub fn hand_over(&self, queue: &Queue, domain: &dyn RawDomain) -> bool {
        self.run_own(queue, domain, u64::MAX);
        // Only now: as in `flush`.
        if !domain.in_read_section() && queue.pending() != Pending::None {
            _ = try_synchronize(domain);
            self.run_own(queue, domain, u64::MAX);
        }
        step!("flush-without-expedite", queue.expedite());
        self.report(queue);
        self.notify_if_pending(queue, domain)
    }

    /// Wakes the worker if the queue has callbacks. Returns `true` if it has.
    pub fn notify_if_pending(&self, queue: &Queue, domain: &dyn RawDomain) -> bool {
        let is_pending = queue.pending() != Pending::None;
        if is_pending {
            self.notify(false, domain);
        }
        is_pending
    }

    pub(super) fn run_own(&self, queue: &Queue, domain: &dyn RawDomain, limit: u64) {
        let runner = self.runner(domain);
        let run = |callback, protected: &mut Option<Protected>| runner.run(callback, protected);
        let is_wanted = queue.run_local(limit, runner.engine, run);
        if is_wanted {
            step!("claim-released-without-notify", self.provide(false, domain));
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

    /// Returns `true` if the owner of the queue, which could not be throttled until now, must flush.
    #[cfg(not(loom))]
    pub fn must_throttle(&self, queue: &Queue) -> bool {
        self.backlog.above_limit() && queue.pending() != Pending::None
    }

    /// Throttles the caller if too much waits, and if it may wait. `own` is the calling thread's queue. Returns `true`
    /// if it has waited.
    pub fn throttle_above_limit(&self, own: Option<&Queue>, domain: &dyn RawDomain) -> bool {
        if !self.backlog.above_limit() {
            return false;
        }
        let wait = self.may_wait(domain);
        let must_wait = wait != MayWait::No;
        if must_wait {
            self.throttle(own, wait, domain);
        }
        must_wait
    }

    /// The owner of the queue exits: reports what it has pushed, and is throttled if too much waits. The worker runs the
    /// rest.
    #[cfg(not(loom))]
    pub fn end_of_owner(&self, queue: &Queue, domain: &dyn RawDomain) {
        self.report(queue);
        self.throttle_above_limit(None, domain);
    }

    /// Returns whether the calling thread may be throttled.
    fn may_wait(&self, domain: &dyn RawDomain) -> MayWait {
        // Not in callbacks of other domains either: two workers would wait for each other's backlog to shrink until they
        // time out, although the program does not make them wait.
        if domain.in_read_section() || running::is_any() || stall::is_reporting() {
            MayWait::No
        } else if domain.may_be_inside() || in_other_section() {
            // Two threads, each inside a section of the domain that throttles the other, would wait for each other.
            MayWait::Briefly
        } else {
            MayWait::Yes
        }
    }

    /// Blocks until less waits, but no longer than the backlog allows.
    #[cold]
    fn throttle(&self, own: Option<&Queue>, wait: MayWait, domain: &dyn RawDomain) {
        let failures = self.failures.load(Relaxed);
        let timeout = self.backlog.begin_wait(wait);
        let id = domain.core().engine.id();
        probe!(throttle_start, id.address(), at_least_zero(self.backlog.bytes()), timeout.as_nanos() as u64);
        let _expedite = self.expedite();
        self.provide(false, domain);
        let mut is_below = false;
        let in_time = self.progress.wait_until(Some(timeout), || {
            if let Some(queue) = own {
                self.run_own(queue, domain, u64::MAX);
                self.report(queue);
            }
            is_below = !self.backlog.above_limit();
            let has_failed = self.failures.load(Relaxed) != failures;
            // This thread must not become the worker if none can be started: it may hold a lock that a callback takes.
            let is_empty = || self.pending(domain) == Pending::None;
            is_below || has_failed || self.state.is_idle() && (is_empty() || !self.provide(false, domain))
        });
        // The last callback may have run since that was looked at.
        is_below = is_below || !self.backlog.above_limit();
        let outcome = || match (is_below, in_time) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        probe!(throttle_end, id.address(), outcome());
        self.backlog.end_wait(wait, in_time, is_below);
    }
}

/// Returns `true` if the calling thread is inside a section of any domain that is a type.
fn in_other_section() -> bool {
    #[cfg(not(loom))]
    return crate::reclaim::fork::in_read_section();
    #[cfg(loom)]
    false
}
