//! What a round of the worker finds in the queues, and how long that may wait.

use core::ptr;
use std::time::Duration;

use crate::grace_period::engine::GpCookie;
use crate::reclaim::domain::{CallbackWorker, RawDomain};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::queue::{ClaimedByOwner, Pending, Queue};
use crate::sync::{Ordering::*, now};

/// Nanoseconds for which lazy callbacks may wait.
pub(super) const LAZY_DELAY: u64 = 10_000_000_000;
/// Nanoseconds after which the worker looks whether what is kept is still protected.
const KEPT_DELAY: u64 = 1_000_000_000;
/// What the worker finds in the queues.
pub(super) struct Found {
    /// The most urgent kind of callback in queues that are not held.
    pub(super) pending: Pending,
    /// The first cookie that callbacks wait for.
    pub(super) cookie: Option<GpCookie>,
    /// The owner of a queue is running callbacks.
    pub(super) is_held: bool,
    /// The owners of the other queues reclaim without the worker.
    pub(super) owners_suffice: bool,
    /// All of it is kept by hazard pointers.
    pub(super) only_kept: bool,
    /// Some of it is.
    pub(super) has_kept: bool,
}

/// Returns `true` if the worker must run callbacks, `lazy` ones if they are to run too.
pub(super) fn is_ready(lazy: bool, domain: &dyn RawDomain) -> bool {
    domain.queues().any(|queue| queue.is_ready(lazy))
}

/// Returns `true` if the queue is that of callbacks that hazard pointers keep from running.
pub(super) fn is_kept(queue: &Queue, domain: &dyn RawDomain) -> bool {
    domain.hazards().map(Hazards::kept).is_some_and(|kept| ptr::eq(kept, queue))
}

/// Returns `true` if hazard pointers keep callbacks from running.
pub(super) fn has_kept(domain: &dyn RawDomain) -> bool {
    domain.hazards().map(Hazards::kept).is_some_and(|kept| kept.pending() != Pending::None)
}

impl CallbackWorker {
    /// Assigns cookies to the callbacks that have none.
    pub(super) fn assign_cookies(&self, domain: &dyn RawDomain) -> Found {
        let mut found = Found {
            pending: Pending::None,
            cookie: None,
            is_held: false,
            owners_suffice: true,
            only_kept: true,
            has_kept: false,
        };
        for queue in domain.queues() {
            let pending = queue.pending();
            if pending == Pending::None {
                continue;
            }
            match queue.assign_cookies(&domain.core().engine) {
                Ok((cookie, owner_suffices)) => {
                    // What is kept is served by the grace periods of others, if there are any.
                    if is_kept(queue, domain) {
                        found.has_kept = true;
                    } else {
                        found.owners_suffice &= owner_suffices;
                        found.only_kept = false;
                    }
                    found.pending = found.pending.max(pending);
                    found.cookie = cookie.into_iter().chain(found.cookie).min();
                }
                Err(ClaimedByOwner) => found.is_held = true,
            }
        }
        found.owners_suffice &= !found.only_kept;
        found
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// Returns `true` if the worker must not pause between rounds, and must run lazy callbacks too.
    pub(super) fn must_hurry(&self) -> bool {
        self.is_urgent() || self.backlog.above_low_mark()
    }

    /// Returns `true` if the worker must run lazy callbacks.
    pub(super) fn must_run_lazy(&self) -> bool {
        self.must_hurry() || self.backlog.above_unknown_mark()
    }

    /// Returns for how long the callbacks may wait, if all are lazy. A worker that must hurry does not wait, unless they are
    /// kept: to look again would not help.
    pub(super) fn lazy_time(&self, found: &Found, domain: &dyn RawDomain) -> Option<Duration> {
        if found.pending != Pending::Lazy || !found.only_kept && self.must_run_lazy() {
            return None;
        }
        let due = domain.queues().filter_map(|queue| {
            let delay = if is_kept(queue, domain) { KEPT_DELAY } else { LAZY_DELAY };
            queue.oldest().map(|oldest| oldest + delay)
        });
        let left = due.min().unwrap_or(0).saturating_sub(now());
        (left != 0).then(|| Duration::from_nanos(left))
    }
}
