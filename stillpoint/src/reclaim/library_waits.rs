//! How threads of the library wait for grace periods: they sleep only if another thread is there for the other domains (see
//! [`super::worker_pool`]).

use super::domain::{Core, RawDomain, try_lead};
use super::{running, worker_pool};
use crate::grace_period::engine::{Denied, GpCookie};
use crate::sync::now;

/// Nanoseconds between two attempts of a poller that must not sleep.
const POLL_INTERVAL: u64 = 4_000_000;

/// Has a thread of the library run the domain's poller. Returns `false` if there is no thread.
pub(crate) fn submit_poller(domain: &dyn RawDomain) -> bool {
    domain.submit(poll) || park_poller(domain)
}

fn park_poller(domain: &dyn RawDomain) -> bool {
    // Odd: see `TimerKey`.
    domain.park((now() + POLL_INTERVAL) | 1, poll)
}

/// Tries to start a thread for what is parked, if none could be started for it. Returns `true` if there is still none, and
/// the calling thread cannot be it: it must do itself what it waits for. Takes one load if none has failed to start.
pub(crate) fn must_do_without() -> bool {
    worker_pool::retry() && (!worker_pool::is_worker() || running::is_any())
}

/// Returns `true` if a thread that waits must look after the library's threads now and then.
pub(crate) fn must_retry() -> bool {
    worker_pool::may_want_timer()
}

/// The poller's task.
fn poll(domain: &dyn RawDomain) {
    let Core { engine, poller, .. } = domain.core();
    let wait_for_next = || wait_or_try(domain, engine.next());
    if poller.run(engine, || submit_poller(domain), wait_for_next) && !park_poller(domain) {
        poller.dismiss(false);
    }
}

/// Returns `true` if this thread of the library must park what it works for, as others have no thread. A thread that
/// runs code of the program cannot.
pub(super) fn is_wanted() -> bool {
    worker_pool::is_wanted() && !running::is_any()
}

/// Waits for the grace period if this thread of the library may sleep, or else tries one. Returns `false` if the
/// caller must park what it works for.
pub(super) fn wait_or_try(domain: &dyn RawDomain, cookie: GpCookie) -> Result<bool, Denied> {
    // Code of the program that this thread runs blocks it in any case.
    if !running::is_any() && !worker_pool::may_sleep() {
        let has_ended = try_lead(domain)? == Some(true);
        if is_wanted() {
            return Ok(false);
        }
        if has_ended || !worker_pool::start_spare() {
            return Ok(has_ended);
        }
    }
    domain.wait_for(cookie)?;
    Ok(true)
}
