//! How threads of the library wait for grace periods: they sleep only if another thread is there for the other domains (see
//! [`super::worker_pool`]).

use super::domain::{Core, RawDomain, try_synchronize, wait_in_worker};
use super::{running, worker_pool};
use crate::sync::now;

/// Nanoseconds between two attempts of a poller that must not sleep.
const POLL_INTERVAL: u64 = 4_000_000;

/// Has a thread of the library run the domain's poller. Returns `false` if there is no thread.
pub(crate) fn submit_poller(domain: &impl RawDomain) -> bool {
    domain.submit(poll) || park_poller(domain)
}

fn park_poller(domain: &impl RawDomain) -> bool {
    // Odd: see `TimerKey`.
    domain.park((now() + POLL_INTERVAL) | 1, poll)
}

/// The poller's task.
fn poll(domain: &impl RawDomain) {
    let Core { engine, poller, .. } = domain.core();
    let wait_for_next = || {
        let next = engine.next();
        let may_wait = may_wait(domain);
        if may_wait {
            wait_in_worker(domain, |own| engine.wait_for(own, next))?;
        } else {
            try_synchronize(domain);
        }
        Ok(may_wait)
    };
    if poller.run(engine, || submit_poller(domain), wait_for_next) && !park_poller(domain) {
        poller.dismiss(false);
    }
}

/// Returns `true` if this thread of the library may go on and wait for the next grace period: it may sleep, or that has just
/// ended. A thread that runs a callback may, as the program blocks it.
pub(super) fn may_wait(domain: &impl RawDomain) -> bool {
    running::is_any()
        || worker_pool::has_spare()
        || !worker_pool::is_wanted()
            && (domain.core().engine.in_progress().is_none() && try_synchronize(domain)
                || worker_pool::start_spare())
}
