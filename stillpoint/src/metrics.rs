//! The statistics of the library, for the recorders of the crate `metrics`. Only with the feature `metrics`.
//!
//! The library counts for itself, all the time, and calls no recorder. The program hands the counts over when it wants them
//! to be seen: with [`export`] and [`export_domain`], each few seconds, or before each scrape.
//!
//! ```
//! use stillpoint::Domain as _;
//! use stillpoint::{domain, metrics};
//!
//! domain! {
//!     struct Routes;
//! }
//!
//! metrics::describe(); // once, when a recorder has been installed
//! metrics::export();
//! metrics::export_domain("routes", &Routes.stats());
//! ```
//!
//! # What there is
//!
//! | metric | kind | labels | what it is |
//! |---|---|---|---|
//! | `stillpoint_grace_periods_total` | counter | `domain` | [`Stats::grace_periods`] |
//! | `stillpoint_grace_period_callers_total` | counter | `domain` | [`Stats::callers`] |
//! | `stillpoint_grace_period_fences_total` | counter | `domain` | [`Stats::heavy_fences`] |
//! | `stillpoint_grace_period_sleeps_total` | counter | `domain` | [`Stats::sleeps`] |
//! | `stillpoint_grace_period_wakeups_total` | counter | `domain` | [`Stats::wakeups`] |
//! | `stillpoint_grace_period_longest_seconds` | gauge | `domain` | [`Stats::longest_wait`] |
//! | `stillpoint_stalls_total` | counter | `domain` | [`Stats::stalls`] |
//! | `stillpoint_readers` | gauge | `domain` | [`Stats::readers`] |
//! | `stillpoint_deferred` | gauge | `domain` | [`Stats::queued`] |
//! | `stillpoint_deferred_bytes` | gauge | `domain` | [`Stats::queued_bytes`] |
//! | `stillpoint_deferred_oldest_seconds` | gauge | `domain` | [`Stats::oldest`] |
//! | `stillpoint_deferred_done_total` | counter | `domain` | [`Stats::done`] |
//! | `stillpoint_limit_waits_total` | counter | `domain` | [`Stats::limit_waits`] |
//! | `stillpoint_limit_overruns_total` | counter | `domain` | [`Stats::limit_overruns`] |
//! | `stillpoint_deferred_panics_total` | counter | | [`Stats::panics`] |
//! | `stillpoint_fence_calls_total` | counter | | [`fence::Stats::calls`] |
//! | `stillpoint_fences_total` | counter | | [`fence::Stats::issued`] |
//! | `stillpoint_lock_events_total` | counter | `event` | with the feature `lock-events`, the counts of `lock::Events` |

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::Domain as _;
use crate::rcu::Stats;
use crate::{fence, qsbr, rcu};

/// A number that [`Stats`] has for each domain.
struct Metric {
    name: &'static str,
    unit: Unit,
    help: &'static str,
    value: Value,
}

enum Value {
    Counter(fn(&Stats) -> u64),
    Gauge(fn(&Stats) -> f64),
}

const fn counted(name: &'static str, help: &'static str, value: fn(&Stats) -> u64) -> Metric {
    Metric { name, unit: Unit::Count, help, value: Value::Counter(value) }
}

const fn measured(name: &'static str, unit: Unit, help: &'static str, value: fn(&Stats) -> f64) -> Metric {
    Metric { name, unit, help, value: Value::Gauge(value) }
}

const OF_A_DOMAIN: [Metric; 14] = [
    counted("stillpoint_grace_periods_total", "Grace periods completed", |stats| stats.grace_periods),
    counted("stillpoint_grace_period_callers_total", "Calls that waited for a grace period", |stats| {
        stats.callers
    }),
    counted("stillpoint_grace_period_fences_total", "Heavy fences of grace periods", |stats| {
        stats.heavy_fences
    }),
    counted("stillpoint_grace_period_sleeps_total", "Grace periods that slept for readers", |stats| {
        stats.sleeps
    }),
    counted("stillpoint_grace_period_wakeups_total", "Wake-ups by readers", |stats| stats.wakeups),
    measured("stillpoint_grace_period_longest_seconds", Unit::Seconds, "Longest wait for readers", |stats| {
        stats.longest_wait.as_secs_f64()
    }),
    counted("stillpoint_stalls_total", "Reports of stalled grace periods", |stats| stats.stalls),
    measured("stillpoint_readers", Unit::Count, "Readers in the registry", |stats| stats.readers as f64),
    measured("stillpoint_deferred", Unit::Count, "Callbacks and values that wait", |stats| {
        stats.queued as f64
    }),
    measured("stillpoint_deferred_bytes", Unit::Bytes, "Bytes that wait to be freed", |stats| {
        stats.queued_bytes as f64
    }),
    measured(
        "stillpoint_deferred_oldest_seconds",
        Unit::Seconds,
        "How long the oldest has waited",
        |stats| stats.oldest.as_secs_f64(),
    ),
    counted("stillpoint_deferred_done_total", "Callbacks run and values dropped", |stats| stats.done),
    counted("stillpoint_limit_waits_total", "Waits of callers above the limits", |stats| stats.limit_waits),
    counted("stillpoint_limit_overruns_total", "Such waits that were in vain", |stats| stats.limit_overruns),
];

/// Tells the recorder the units of what [`export`] exports, and what it is.
pub fn describe() {
    for Metric { name, unit, help, value } in OF_A_DOMAIN {
        match value {
            Value::Counter(_) => describe_counter!(name, unit, help),
            Value::Gauge(_) => describe_gauge!(name, unit, help),
        }
    }
    describe_counter!(
        "stillpoint_deferred_panics_total",
        Unit::Count,
        "Callbacks and destructors that panicked"
    );
    describe_counter!("stillpoint_fence_calls_total", Unit::Count, "Heavy fences asked for");
    describe_counter!("stillpoint_fences_total", Unit::Count, "Heavy fences executed");
    #[cfg(feature = "lock-events")]
    describe_counter!("stillpoint_lock_events_total", Unit::Count, "What happened in locks");
}

/// Sets the metrics of the process: of the domains that all programs have (`domain` is `rcu` and `qsbr`), of the fence, and of
/// locks, if they count.
///
/// Chooses the backend of the fence, if that has not been done.
pub fn export() {
    let stats = rcu::stats();
    export_domain("rcu", &stats);
    export_domain("qsbr", &qsbr::Global.stats());
    counter!("stillpoint_deferred_panics_total").absolute(stats.panics);
    let fences = fence::stats();
    counter!("stillpoint_fence_calls_total").absolute(fences.calls);
    counter!("stillpoint_fences_total").absolute(fences.issued);
    #[cfg(feature = "lock-events")]
    export_lock(&crate::lock::events());
}

/// Sets the metrics of a domain, under the name that is given to it here.
///
/// ```
/// use stillpoint::Domain as _;
/// use stillpoint::{metrics, srcu::Domain};
///
/// static SESSIONS: Domain = Domain::new();
///
/// metrics::export_domain("sessions", &SESSIONS.stats());
/// ```
pub fn export_domain(domain: impl Into<SharedString>, stats: &Stats) {
    let domain = domain.into();
    for Metric { name, value, .. } in OF_A_DOMAIN {
        match value {
            Value::Counter(of) => counter!(name, "domain" => domain.clone()).absolute(of(stats)),
            Value::Gauge(of) => gauge!(name, "domain" => domain.clone()).set(of(stats)),
        }
    }
}

#[cfg(feature = "lock-events")]
fn export_lock(events: &crate::lock::Events) {
    for (event, count) in [
        ("steal", events.steal),
        ("lock_slowpath", events.lock_slowpath),
        ("wait_node", events.wait_node),
        ("wait_head", events.wait_head),
        ("kick_unlock", events.kick_unlock),
        ("spurious_wakeup", events.spurious_wakeup),
        ("reserve", events.reserve),
        ("bypass", events.bypass),
        ("no_node", events.no_node),
    ] {
        counter!("stillpoint_lock_events_total", "event" => event).absolute(count);
    }
}
