//! How a domain gets a worker.
//!
//! A thread is started. If that fails, or if it may wait, the domain is parked, and a task of the
//! [`lazy_timer`](crate::reclaim::lazy_timer) resumes it. If both fail, a caller that waits for callbacks works itself.

use crate::grace_period::stall;
use crate::reclaim::domain::{CallbackWorker, RawDomain};
#[cfg(not(loom))]
use crate::reclaim::worker_pool;
use crate::reclaim::worker_state::{GoIdle, PARKED};
use crate::sync::{Ordering::*, now, step};

/// Nanoseconds after which a domain is resumed that was parked instead of starting a worker.
const FIRST_LOOK: u64 = 1_000_000;

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
pub(super) fn start_worker(domain: &impl RawDomain) -> bool {
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
    pub(super) fn provide(&self, lazy: bool, domain: &impl RawDomain) -> bool {
        if is_stranded() && self.state.is_idle() {
            return false;
        }
        let park = || self.park_instead(FIRST_LOOK, domain);
        let is_missing = if lazy { self.state.wake_if_idle() } else { self.state.wake() };
        // Twice: the task may be taken before the domain is parked.
        if !is_missing || lazy && park() || start_worker(domain) || park() || park() {
            return true;
        }
        // The callbacks stay; a later push tries again. A thread that has found a worker since, and waits, must look
        // again.
        self.state.give_up();
        step!("start-failure-without-notify", self.progress.notify_all());
        step!("start-failure-without-dismissal", self.rounds.dismiss(&self.urgent));
        false
    }

    /// Parks the domain for `delay` nanoseconds instead of starting a worker, or of one that sleeps: for a lazy callback,
    /// and if no thread can be started but there is one that resumes parked domains. Returns `false` if that is
    /// impossible.
    pub(super) fn park_instead(&self, delay: u64, domain: &impl RawDomain) -> bool {
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
    pub(super) fn park(&self, due: u64, domain: &impl RawDomain) -> Option<u64> {
        // Even: see `TimerKey`.
        let due = due & !1;
        self.unpark(domain);
        domain.park(due, |domain| domain.core().callbacks.resume(domain)).then(|| {
            self.parked_until.store(due, Relaxed);
            due
        })
    }

    pub(super) fn unpark(&self, domain: &impl RawDomain) {
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

    /// The caller must provide a worker: starts one, or works until `stop` returns `true` if none can be started.
    pub(super) fn provide_or_work(&self, domain: &impl RawDomain, stop: &dyn Fn() -> bool) {
        if start_worker(domain) {
            return;
        }
        if stall::is_reporting() {
            // A grace period waits for this thread: the last handle was dropped in a stall hook. The callbacks stay, or
            // a thread that waits for the domain to close is their worker.
            self.state.give_up();
            self.progress.notify_all();
            return self.rounds.dismiss(&self.urgent);
        }
        self.work(domain, stop);
    }
}
