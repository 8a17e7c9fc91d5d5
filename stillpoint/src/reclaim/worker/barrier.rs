//! How callers wait until the worker has run all callbacks. A caller for which no worker can be started works itself.

use core::task::Waker;

use crate::grace_period::engine::Denied;
use crate::reclaim::domain::{CallbackWorker, RawDomain};
use crate::reclaim::poller::WaiterId;
use crate::reclaim::queue::Pending;
use crate::reclaim::rounds::{self, BarrierPoll};
use crate::reclaim::worker::start_worker;
use crate::sync::{AtomicU64, Ordering::*, step};

/// Makes the worker hurry until it is dropped.
pub(super) struct ExpediteGuard<'a>(&'a AtomicU64);

impl Drop for ExpediteGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl CallbackWorker {
    /// Makes the worker hurry. A [`wake`](crate::reclaim::worker_state::WorkerState::wake) after this makes it notice.
    pub(super) fn expedite(&self) -> ExpediteGuard<'_> {
        self.urgent.fetch_add(1, Relaxed);
        ExpediteGuard(&self.urgent)
    }

    /// Blocks until all callbacks have run that were pushed before.
    pub fn barrier(&self, domain: &dyn RawDomain) -> Result<(), Denied> {
        let marks: Vec<_> = domain.queues().map(|queue| (queue, queue.tail())).collect();
        let failures = self.failures.load(Relaxed);
        let _expedite = self.expedite();
        if let Some(hazards) = domain.hazards() {
            step!("kept-not-expedited", hazards.expedite());
        }
        for (queue, mark) in marks {
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
                    if !reached() && self.state.has_no_worker() {
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

    /// Has callbacks run that no worker could be started for, by a worker if one can be started now, or by this thread.
    /// They stay if the heavy fence is denied. The caller has the only handle, and there are no readers.
    pub fn run_left(&self, domain: &dyn RawDomain) {
        let failures = self.failures.load(Relaxed);
        let _expedite = self.expedite();
        if self.state.wake() {
            self.provide_or_work(domain, &|| self.failures.load(Relaxed) != failures);
        }
    }

    /// The caller must provide a worker: starts one, or works until `stop` returns `true` if none can be started.
    fn provide_or_work(&self, domain: &dyn RawDomain, stop: &dyn Fn() -> bool) {
        if !start_worker(domain) {
            self.work(domain, stop);
        }
    }

    /// Polls a barrier that is a future, whose number is 0 before its first poll and after its last one.
    pub fn poll_barrier(&self, id: &mut WaiterId, waker: &Waker, domain: &dyn RawDomain) -> BarrierPoll {
        if *id == 0 {
            // Where there are hazard pointers, a callback may move to another queue while this looks.
            if domain.hazards().is_none() && self.pending(domain) == Pending::None {
                return BarrierPoll::Ended;
            }
            *id = self.rounds.add(waker.clone());
            rounds::wake(self.advance_rounds(domain));
        }
        self.rounds.poll(id, waker)
    }
}
