//! What owners of queues do after they have pushed: they run callbacks, report to the backlog, lead grace periods of
//! their own, and are throttled.
//!
//! *Owners* run callbacks while they push others: callbacks that only free memory, and callbacks that do no harm, as
//! the program says. That keeps memory in the allocator's cache of the thread, and threads from waiting for one
//! worker. All other callbacks and destructors run in the worker only, as a caller may hold a lock that they take.
//!
//! # Throttling
//!
//! Above a limit of the backlog, a caller that is neither inside a section nor in a callback runs what it
//! may of its own queue, wakes the worker, and blocks. A caller inside a section does so when it leaves the outermost
//! one (`ReaderSet::defer_to_exit`), as most code that links nodes retires inside sections only.

use core::cell::Cell;
use core::mem;
use core::task::Waker;

use crate::fence::try_heavy;
use crate::grace_period::engine::Denied;
use crate::grace_period::stall;
use crate::probes::probe;
use crate::reclaim::backlog::MayWait;
use crate::reclaim::callback::is_any_running;
#[cfg(not(loom))]
use crate::reclaim::domain::try_until;
use crate::reclaim::domain::{RawDomain, is_alone, try_synchronize};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::poller::{self, PollResult, WaiterId};
use crate::reclaim::pool;
use crate::reclaim::pool::state::Submitted;
#[cfg(not(loom))]
use crate::reclaim::queue::PushAction;
use crate::reclaim::queue::front::BLOCK;
use crate::reclaim::queue::{Pending, Queue, STEP};
use crate::reclaim::worker::start_worker;
use crate::reclaim::worker::state::CallbackWorker;
use crate::slots::protected::Protected;
use crate::sync::{AtomicU64, Ordering::*, now, step};

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
            let readers = domain.engine().readers();
            readers.defer_to_exit(domain.current_reader(), self.must_throttle(queue));
        }
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
        queue.flushes();
        // Only now: a destructor that has run may have begun a section, or ended one.
        self.reduce_backlog(queue, domain);
    }

    /// After a report: leads a grace period, throttles the caller, or wakes the worker, if the backlog
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
            self.provide(domain);
        }
    }

    /// The owner runs what it may, and hands over the rest, without blocking. Returns `true` if callbacks are left.
    pub fn hand_over(&self, queue: &Queue, domain: &dyn RawDomain) -> bool {
        self.run_own(queue, domain, u64::MAX);
        // Only now: as in `flush`.
        if !domain.in_read_section() && queue.has_pending() {
            _ = try_synchronize(domain);
            self.run_own(queue, domain, u64::MAX);
        }
        self.report(queue);
        self.notify_if_pending(queue, domain)
    }

    /// Wakes the worker if the queue has callbacks. Returns `true` if it has.
    pub fn notify_if_pending(&self, queue: &Queue, domain: &dyn RawDomain) -> bool {
        let is_pending = queue.has_pending();
        if is_pending {
            self.notify(domain);
        }
        is_pending
    }

    pub(super) fn run_own(&self, queue: &Queue, domain: &dyn RawDomain, limit: u64) {
        let runner = self.runner(domain);
        let run = |callback, protected: &mut Option<Protected>| runner.run(callback, protected);
        if queue.run_local(limit, runner.engine, run) {
            // The worker may sleep for readers that wait for the barrier.
            step!("reclaimed-without-notify", self.progress.notify_all());
            step!("reclaimed-without-wake", poller::wake(self.advance_rounds(domain)));
        }
    }

    /// Reports to the backlog what the owner of the queue has pushed and run. Also when the thread exits, so that
    /// what it has run does not count for ever.
    pub fn report(&self, queue: &Queue) {
        if queue.report(&self.backlog.reported) {
            // A throttled caller, or a future, may wait for just these.
            step!("freed-without-notify", self.progress.notify_all());
            step!("freed-without-wake", poller::wake(self.take_limited()));
        }
    }

    /// Returns `true` if the owner of the queue, which could not be throttled until now, must flush.
    #[cfg(not(loom))]
    pub fn must_throttle(&self, queue: &Queue) -> bool {
        self.backlog.above_limit() && queue.has_pending()
    }

    /// Throttles the caller if too much waits, and if it may wait. `own` is the calling thread's queue. Returns
    /// `true` if it has waited.
    pub fn throttle_above_limit(&self, own: Option<&Queue>, domain: &dyn RawDomain) -> bool {
        if !self.backlog.above_limit() {
            return false;
        }
        if !self.backlog.blocks() {
            self.backlog.overrun();
            return false;
        }
        let wait = self.may_wait(domain);
        let must_wait = wait != MayWait::No;
        if must_wait {
            self.throttle(own, wait, domain);
        }
        must_wait
    }

    /// The owner of the queue exits: reports what it has pushed, and is throttled if too much waits. The worker runs
    /// the rest.
    #[cfg(not(loom))]
    pub fn end_of_owner(&self, queue: &Queue, domain: &dyn RawDomain) {
        self.report(queue);
        self.throttle_above_limit(None, domain);
    }

    /// Returns whether the calling thread may be throttled.
    fn may_wait(&self, domain: &dyn RawDomain) -> MayWait {
        // Not in callbacks of other domains either: two workers would wait for each other's backlog to shrink until
        // they time out, although the program does not make them wait.
        if domain.in_read_section() || is_any_running() || stall::is_reporting() {
            MayWait::No
        } else if domain.may_be_inside() {
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
        let id = domain.engine().id();
        probe!(
            throttle_start,
            id.address(),
            self.backlog.reported.waiting().bytes,
            timeout.as_nanos() as u64
        );
        let _expedite = self.expedite();
        #[cfg_attr(loom, expect(unused_variables))]
        let is_provided = self.provide(domain);
        #[cfg(not(loom))]
        if !is_provided && pool::starts_none() {
            // This thread waits for a grace period, and runs what owners may, below.
            let until = now().saturating_add(timeout.as_nanos() as u64);
            try_until(domain, domain.engine().snapshot(), Some(until));
        }
        let mut is_below = false;
        let in_time = self.progress.wait_until(Some(timeout), || {
            if let Some(queue) = own {
                self.run_own(queue, domain, u64::MAX);
                self.report(queue);
            }
            is_below = !self.backlog.above_limit();
            let has_failed = self.failures.load(Relaxed) != failures;
            // This thread must not become the worker if none can be started: it may hold a lock that a callback
            // takes.
            let is_empty = || self.pending(domain) == Pending::None;
            let may_go_on = is_below || has_failed || !self.backlog.blocks();
            may_go_on || self.state.is_idle() && (is_empty() || !self.provide(domain))
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

    /// Makes the worker hurry. A [`wake`](crate::reclaim::worker::state::WorkerState::wake) after this makes it
    /// notice.
    pub(super) fn expedite(&self) -> ExpediteGuard<'_> {
        self.urgent.fetch_add(1, Relaxed);
        ExpediteGuard(&self.urgent)
    }

    /// Blocks until all callbacks have run that were pushed before.
    pub fn barrier(&self, domain: &dyn RawDomain) -> Result<(), Denied> {
        let is_awaited = Cell::new(false);
        let mark = |queue| (queue, Queue::await_tail(queue, || is_awaited.set(true)));
        let fence_if_awaited = || {
            if is_awaited.take() {
                // Pairs with the light fence in `Queue::run_local`.
                step!("awaited-without-fence", try_heavy());
            }
        };
        let (mut marks, mut has_memory) = (Vec::new(), true);
        for queue in domain.queues() {
            has_memory = marks.try_reserve(1).is_ok();
            if !has_memory {
                break;
            }
            marks.push(mark(queue));
        }
        // Without memory, the mark of a queue is what it has when the queues before have reached theirs.
        let marked = marks.len();
        let unmarked = (!has_memory).then(|| domain.queues().skip(marked).map(mark)).into_iter().flatten();
        let failures = self.failures.load(Relaxed);
        let _expedite = self.expedite();
        if let Some(hazards) = domain.hazards() {
            step!("kept-not-expedited", hazards.expedite());
        }
        for (queue, mark) in marks.into_iter().chain(unmarked) {
            fence_if_awaited();
            if queue.completed() >= mark {
                continue;
            }
            let reached = || queue.completed() >= mark || self.failures.load(Relaxed) != failures;
            step!(
                "barrier-does-not-wake-worker",
                if self.state.wake() {
                    self.provide_or_work(domain, &reached);
                }
            );
            step!("barrier-does-not-wait", {
                self.progress.wait_until(None, || {
                    if !reached() && self.state.has_no_worker(is_any_running()) {
                        step!(
                            "no-caller-continues",
                            if self.state.wake() {
                                self.provide_or_work(domain, &reached);
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

    /// Has callbacks run that no worker could be started for, by a worker if one can be started now, or by this
    /// thread. They stay if the heavy fence is denied. The caller has the only handle, and there are no readers.
    pub fn run_left(&self, domain: &dyn RawDomain) {
        let failures = self.failures.load(Relaxed);
        let _expedite = self.expedite();
        if self.state.wake() {
            self.provide_or_work(domain, &|| self.failures.load(Relaxed) != failures);
        }
    }

    /// The caller must provide a worker: starts one, or has the domain resumed, or works until `stop` returns `true`
    /// if no thread can be started, or in a callback of another domain if it would have to wait its turn: by then, all
    /// threads may wait for that callback.
    fn provide_or_work(&self, domain: &dyn RawDomain, stop: &dyn Fn() -> bool) {
        let is_provided = match start_worker(domain) {
            Submitted::Started => true,
            Submitted::Full if is_any_running() => false,
            Submitted::Full => self.park_instead(pool::first_look(), domain),
            Submitted::Failed => false,
        };
        if !is_provided {
            self.work(domain, stop);
        }
    }

    /// Returns `true` if what waits is below the limit, or nothing waits: owners may not have reported the last bytes
    /// that they have run.
    pub fn is_below_limit(&self, domain: &dyn RawDomain) -> bool {
        !self.backlog.above_limit() || self.state.is_idle() && self.pending(domain) == Pending::None
    }

    /// Polls a future that is ready below the limit ([`super::limited`]). Returns `true` if it is. `failures` are the
    /// worker's when the future first had to wait.
    pub fn poll_limited(
        &self,
        id: &mut WaiterId,
        failures: &mut Option<u64>,
        waker: &Waker,
        domain: &dyn RawDomain,
    ) -> bool {
        let is_below = || self.is_below_limit(domain);
        if is_below() {
            self.leave_limited(id);
            return true;
        }
        let is_new = self.limited.add(id, waker.clone());
        step!("limited-not-announced", _ = self.progress.prepare_wait());
        let failed = self.failures.load(Relaxed);
        let has_failed = failed != *failures.get_or_insert(failed);
        if is_below() {
            self.leave_limited(id);
        } else if has_failed || is_new && !self.provide(domain) {
            self.backlog.overrun();
            self.leave_limited(id);
        }
        *id == 0
    }

    /// A future goes on, or is dropped: others go on too if there is room, for it may have been woken in their place.
    pub fn leave_limited(&self, id: &mut WaiterId) {
        if *id != 0 {
            self.limited.remove(mem::take(id));
            step!("limited-alone", poller::wake(self.take_limited()));
        }
    }

    /// Polls a barrier that is a future, whose number is 0 before its first poll and after its last one.
    pub fn poll_barrier(&self, id: &mut WaiterId, waker: &Waker, domain: &dyn RawDomain) -> PollResult {
        if *id == 0 {
            // Where there are hazard pointers, a callback may move to another queue while this looks.
            if domain.hazards().is_none() && self.pending(domain) == Pending::None {
                return PollResult::Ended;
            }
            *id = self.rounds.add(waker.clone());
            poller::wake(self.advance_rounds(domain));
        }
        self.rounds.poll(id, waker)
    }
}

/// Makes the worker hurry until it is dropped.
pub(super) struct ExpediteGuard<'a>(&'a AtomicU64);

impl Drop for ExpediteGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
