//! The counters of a domain.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::grace_period::counters::WAIT_BOUNDS;
use crate::reclaim::domain::{RawDomain, panics};
use crate::reclaim::queue::Queue;
use crate::sync::now;

/// Counters of a domain since the start of the process, and what waits in it now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Grace periods completed.
    pub grace_periods: u64,
    /// Calls that waited for a grace period: more than grace periods, if callers shared them.
    pub callers: u64,
    /// Heavy fences issued by grace periods.
    pub heavy_fences: u64,
    /// Readers that grace periods have found registered and not [idle](crate::rcu::hint_idle). 0 in a domain of
    /// [`crate::srcu`].
    pub scanned: u64,
    /// Grace periods that had to sleep until readers left.
    pub sleeps: u64,
    /// System calls with which readers woke the leader of a grace period: at most one for each that slept. Those with
    /// which the leader wakes the other callers are not counted.
    pub wakeups: u64,
    /// The longest that a grace period has waited for readers: one that has ended, or one in progress, as of its
    /// last check. Grace periods that did not sleep, and so waited for microseconds, are not measured.
    pub longest_wait: Duration,
    /// How long the grace period in progress has waited for readers until now; zero if none does.
    pub waiting: Duration,
    /// The number of grace periods by how long they waited for readers: at most as long as the bound in
    /// [`WAIT_BOUNDS`](Self::WAIT_BOUNDS), and longer than the one before; the last have waited for longer than all
    /// bounds. Those that did not sleep are in the first class.
    pub waits: [u64; 7],
    /// Reports of stalled grace periods: see [`set_stall_hook`](crate::rcu::set_stall_hook).
    pub stalls: u64,
    /// Readers in the registry, in use or free: the peak number of threads that read or deferred.
    pub readers: u64,
    /// Callbacks and retired values that wait now. Those that run meanwhile may be counted; none is missed that waits.
    pub queued: u64,
    /// Those of them that [hazard pointers](crate::hazard) protected when their grace periods had ended. They do not
    /// count towards the limits.
    pub protected: u64,
    /// Their bytes, without those that are protected: see [`Limits::bytes`](crate::rcu::Limits::bytes).
    pub queued_bytes: u64,
    /// How long the oldest of them has waited since it was assigned a grace period.
    pub oldest: Duration,
    /// Callbacks run and values dropped.
    pub done: u64,
    /// How often a caller above the [`Limits`](crate::rcu::Limits) had to wait.
    pub limit_waits: u64,
    /// How often such a wait timed out, or a caller above the limits went on at once, as
    /// [`blocks`](crate::rcu::Limits::blocks) is `false`.
    pub limit_overruns: u64,
    /// Callbacks and destructors that panicked, in all domains.
    pub panics: u64,
}

impl Stats {
    /// The bounds of [`waits`](Self::waits): 100 µs, 1 ms, 10 ms, 100 ms, 1 s and 10 s.
    pub const WAIT_BOUNDS: [Duration; 6] = {
        let mut bounds = [Duration::ZERO; WAIT_BOUNDS.len()];
        let mut class = 0;
        while class < bounds.len() {
            bounds[class] = Duration::from_nanos(WAIT_BOUNDS[class]);
            class += 1;
        }
        bounds
    };

    pub(crate) fn of(domain: &dyn RawDomain) -> Self {
        let engine = domain.engine();
        // First, so that no grace period is counted whose caller is not.
        let grace_periods = engine.completed();
        let (counters, callbacks) = (engine.readers().counters(), &domain.seen_work().callbacks);
        let backlog = &callbacks.backlog;
        // In this order, so that no callback is missed that waits: it is kept before it is counted as run.
        let run = backlog.reported.all_run(domain.queues().map(Queue::unreported));
        let protected = domain.hazards().map_or(0, |hazards| hazards.kept_count());
        let waiting = backlog.reported.all_pushed(domain.queues().map(Queue::unreported)).without(run);
        // Without a thread of the domain that sleeps for readers.
        let tried = backlog.gp_wait().map_or(0, |_| callbacks.tried.age(grace_periods + 1));
        let mut stats = Self {
            grace_periods,
            callers: counters.callers.load(Relaxed),
            heavy_fences: counters.heavy_fences.load(Relaxed),
            scanned: counters.scanned.load(Relaxed),
            sleeps: counters.sleeps.load(Relaxed),
            wakeups: counters.wakeups.load(Relaxed),
            longest_wait: Duration::from_nanos(counters.longest_wait.load(Relaxed)),
            waiting: counters.waiting().max(Duration::from_nanos(tried)),
            waits: counters.waits(grace_periods),
            stalls: counters.stalls.load(Relaxed),
            readers: engine.readers().count(),
            queued: waiting.count + protected,
            protected,
            queued_bytes: waiting.bytes,
            oldest: Duration::ZERO,
            done: run.count,
            limit_waits: backlog.waits.load(Relaxed),
            limit_overruns: backlog.overruns.load(Relaxed),
            panics: panics(),
        };
        let now = now();
        for queue in domain.queues() {
            let age = queue.oldest().map_or(0, |since| now.saturating_sub(since));
            stats.oldest = stats.oldest.max(Duration::from_nanos(age));
        }
        stats
    }
}

impl fmt::Display for Stats {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} grace periods for {} callers, {} heavy fences, {} sleeps, {} wake-ups; {} queued ({} bytes, oldest {:?}), \
             {} done, {} panics",
            self.grace_periods,
            self.callers,
            self.heavy_fences,
            self.sleeps,
            self.wakeups,
            self.queued,
            self.queued_bytes,
            self.oldest,
            self.done,
            self.panics,
        )
    }
}
