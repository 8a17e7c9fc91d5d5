//! A domain's counters, for people.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::domain::deferred;
use crate::domain::raw::RawDomain;
use crate::grace_period::engine::ReaderSet as _;

/// Counters of a domain since the start of the process, and what waits in it now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Grace periods completed.
    pub grace_periods: u64,
    /// Calls that waited for one: more than grace periods, when callers shared them.
    pub callers: u64,
    /// Heavy fences issued by grace periods.
    pub heavy_fences: u64,
    /// Grace periods that had to sleep until readers left.
    pub sleeps: u64,
    /// Wake-up system calls made by readers for the thread that leads a grace period: at most one for each that slept.
    /// The wake-ups with which that thread tells the others who share the grace period are not counted.
    pub wakeups: u64,
    /// The longest that a grace period has waited for readers so far: one that has ended, or one that stalls, as of its
    /// last report. Grace periods that did not sleep, and so waited for microseconds, are not measured.
    pub longest_wait: Duration,
    /// Reports of grace periods that had waited for too long: see [`set_stall_hook`](crate::rcu::set_stall_hook).
    pub stalls: u64,
    /// Readers in the registry, in use or free: the peak number of threads that read or deferred.
    pub readers: u64,
    /// Callbacks and retired values that wait now.
    pub queued: u64,
    /// Their bytes: see [`Limits::bytes`](crate::rcu::Limits::bytes).
    pub queued_bytes: u64,
    /// How long the oldest of them has waited since it was given a grace period to wait for.
    pub oldest: Duration,
    /// Callbacks run and values dropped.
    pub done: u64,
    /// How often a caller above the [`Limits`](crate::rcu::Limits) had to wait.
    pub limit_waits: u64,
    /// How often it waited in vain and went on.
    pub limit_overruns: u64,
    /// Callbacks and destructors that panicked, in all domains.
    pub panics: u64,
}

impl Stats {
    pub(crate) fn of(domain: &impl RawDomain) -> Self {
        let core = domain.core();
        // First, so that no grace period is counted whose caller is not.
        let grace_periods = core.engine.completed();
        let counters = core.engine.readers().counters();
        let callbacks = core.callbacks.tally(domain);
        Self {
            grace_periods,
            callers: counters.callers.load(Relaxed),
            heavy_fences: counters.heavy_fences.load(Relaxed),
            sleeps: counters.sleeps.load(Relaxed),
            wakeups: counters.wakeups.load(Relaxed),
            longest_wait: Duration::from_nanos(counters.longest_wait.load(Relaxed)),
            stalls: counters.stalls.load(Relaxed),
            readers: core.engine.readers().count(),
            queued: callbacks.queued,
            queued_bytes: callbacks.bytes,
            oldest: callbacks.oldest,
            done: callbacks.run,
            limit_waits: callbacks.waits,
            limit_overruns: callbacks.overruns,
            panics: deferred::panics(),
        }
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
