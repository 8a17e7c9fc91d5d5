//! What a round of the worker finds in the queues, and for how long that may wait.

use core::ptr;
use core::task::Waker;
use std::time::Duration;

use super::state::CallbackWorker;
use crate::grace_period::engine::GpCookie;
use crate::reclaim::domain::RawDomain;
use crate::reclaim::hazards::Hazards;
use crate::reclaim::limited::BATCH;
use crate::reclaim::queue::{Pending, Queue};
use crate::sync::{Ordering::*, now};

/// Nanoseconds after which the worker looks whether what is kept is still protected.
const KEPT_DELAY: u64 = 1_000_000_000;

/// What the worker finds in the queues.
pub(super) struct Found {
    /// The most urgent kind of callback.
    pub(super) pending: Pending,
    /// The first cookie that callbacks wait for.
    pub(super) cookie: Option<GpCookie>,
    /// The owners of all queues reclaim without the worker.
    pub(super) owners_suffice: bool,
}

/// Returns `true` if the queue is that of callbacks that hazard pointers keep from running.
pub(super) fn is_kept(queue: &Queue, domain: &dyn RawDomain) -> bool {
    domain.hazards().map(Hazards::kept).is_some_and(|kept| ptr::eq(kept, queue))
}

impl CallbackWorker {
    /// Assigns cookies to the callbacks that have none.
    pub(super) fn assign_cookies(&self, domain: &dyn RawDomain) -> Found {
        let mut found = Found { pending: Pending::None, cookie: None, owners_suffice: true };
        let mut only_kept = true;
        domain.forget_queues();
        for (_, queue) in domain.pending_queues() {
            let assigned = queue.assign_cookies(domain.engine());
            let (cookie, owner_suffices) = assigned.unwrap_or((None, false));
            // What is kept is served by the grace periods of others, if there are any.
            if is_kept(queue, domain) {
                found.pending = domain.hazards().map_or(found.pending, Hazards::pending);
            } else {
                found.owners_suffice &= owner_suffices;
                found.pending = Pending::Urgent;
                only_kept = false;
            }
            found.cookie = cookie.into_iter().chain(found.cookie).min();
        }
        found.owners_suffice &= !only_kept;
        found
    }

    /// Returns the wakers of futures that go on, if there is room below the limit. The caller has notified `progress`
    /// after its last change.
    pub(in crate::reclaim) fn take_limited(&self) -> Vec<Waker> {
        if self.limited.is_empty() || self.backlog.above_limit() {
            return Vec::new();
        }
        self.limited.take(if self.backlog.above_low_mark() { BATCH } else { usize::MAX })
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// Returns `true` if the worker must not pause between rounds.
    pub(super) fn must_hurry(&self) -> bool {
        self.is_urgent() || self.backlog.above_low_mark()
    }
}

impl Found {
    /// Returns for how long what was found may wait, if hazard pointers keep all of it: to look again would not help.
    pub(super) fn kept_time(&self, domain: &dyn RawDomain) -> Option<Duration> {
        let kept = domain.hazards().filter(|_| self.pending == Pending::Kept)?.kept();
        let left = (kept.oldest()? + KEPT_DELAY).saturating_sub(now());
        (left != 0).then(|| Duration::from_nanos(left))
    }
}
