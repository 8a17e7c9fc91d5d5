//! Exports the library's statistics to recorders of [metrics](https://docs.rs/metrics). With the feature `metrics`.
//!
//! The library counts all the time and calls no recorder. The program exports the counts when it needs them, by
//! [`export`] and [`export_domain`]: every few seconds, or before each scrape.
//!
//! ```
//! use stillpoint::Domain as _;
//! use stillpoint::{domain, metrics};
//!
//! domain! {
//!     struct Routes;
//! }
//!
//! metrics::describe(); // once, after a recorder has been installed
//! metrics::export();
//! metrics::export_domain("routes", &Routes.stats());
//! ```
//!
//! # Metrics
//!
//! | metric | kind | labels | value |
//! |---|---|---|---|
//! | `stillpoint_grace_periods_total` | counter | `domain` | [`Stats::grace_periods`] |
//! | `stillpoint_grace_period_callers_total` | counter | `domain` | [`Stats::callers`] |
//! | `stillpoint_grace_period_fences_total` | counter | `domain` | [`Stats::heavy_fences`] |
//! | `stillpoint_grace_period_scanned_total` | counter | `domain` | [`Stats::scanned`] |
//! | `stillpoint_grace_period_sleeps_total` | counter | `domain` | [`Stats::sleeps`] |
//! | `stillpoint_grace_period_wakeups_total` | counter | `domain` | [`Stats::wakeups`] |
//! | `stillpoint_grace_period_longest_seconds` | gauge | `domain` | [`Stats::longest_wait`] |
//! | `stillpoint_grace_period_waiting_seconds` | gauge | `domain` | [`Stats::waiting`] |
//! | `stillpoint_grace_period_wait_seconds_bucket` | counter | `domain`, `le` | [`Stats::waits`], summed up: a histogram of Prometheus |
//! | `stillpoint_stalls_total` | counter | `domain` | [`Stats::stalls`] |
//! | `stillpoint_readers` | gauge | `domain` | [`Stats::readers`] |
//! | `stillpoint_deferred` | gauge | `domain` | [`Stats::queued`] |
//! | `stillpoint_deferred_protected` | gauge | `domain` | [`Stats::protected`] |
//! | `stillpoint_deferred_bytes` | gauge | `domain` | [`Stats::queued_bytes`] |
//! | `stillpoint_deferred_oldest_seconds` | gauge | `domain` | [`Stats::oldest`] |
//! | `stillpoint_deferred_done_total` | counter | `domain` | [`Stats::done`] |
//! | `stillpoint_limit_waits_total` | counter | `domain` | [`Stats::limit_waits`] |
//! | `stillpoint_limit_overruns_total` | counter | `domain` | [`Stats::limit_overruns`] |
//! | `stillpoint_deferred_panics_total` | counter | | [`Stats::panics`] |
//! | `stillpoint_fences_total` | counter | | [`fence::Stats::calls`] |

use std::time::Duration;

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::Domain as _;
use crate::rcu::Stats;
use crate::{fence, hazard, qsbr, rcu};

const WAIT_BUCKET: &str = "stillpoint_grace_period_wait_seconds_bucket";

enum Value {
    Counter(u64),
    Gauge(u64),
    Bytes(u64),
    Seconds(Duration),
}

/// The name, description and value of each metric with the label `domain`.
fn domain_metrics(s: &Stats) -> [(&'static str, &'static str, Value); 17] {
    use Value::*;
    [
        ("stillpoint_grace_periods_total", "Grace periods completed", Counter(s.grace_periods)),
        ("stillpoint_grace_period_callers_total", "Calls that waited for one", Counter(s.callers)),
        ("stillpoint_grace_period_fences_total", "Heavy fences of grace periods", Counter(s.heavy_fences)),
        (
            "stillpoint_grace_period_scanned_total",
            "Readers that grace periods have visited",
            Counter(s.scanned),
        ),
        ("stillpoint_grace_period_sleeps_total", "Grace periods that slept for readers", Counter(s.sleeps)),
        ("stillpoint_grace_period_wakeups_total", "Wake-ups by readers", Counter(s.wakeups)),
        ("stillpoint_grace_period_longest_seconds", "Longest wait for readers", Seconds(s.longest_wait)),
        (
            "stillpoint_grace_period_waiting_seconds",
            "How long the grace period in progress has waited for readers",
            Seconds(s.waiting),
        ),
        ("stillpoint_stalls_total", "Reports of stalled grace periods", Counter(s.stalls)),
        ("stillpoint_readers", "Readers in the registry", Gauge(s.readers)),
        ("stillpoint_deferred", "Callbacks and values that wait", Gauge(s.queued)),
        ("stillpoint_deferred_protected", "Those that hazard pointers protect", Gauge(s.protected)),
        ("stillpoint_deferred_bytes", "Bytes that wait to be freed", Bytes(s.queued_bytes)),
        ("stillpoint_deferred_oldest_seconds", "How long the oldest has waited", Seconds(s.oldest)),
        ("stillpoint_deferred_done_total", "Callbacks run and values dropped", Counter(s.done)),
        ("stillpoint_limit_waits_total", "Waits of callers above the limits", Counter(s.limit_waits)),
        ("stillpoint_limit_overruns_total", "Such waits that timed out", Counter(s.limit_overruns)),
    ]
}

/// Describes the metrics that [`export`] sets, and their units, to the recorder.
pub fn describe() {
    for (name, help, value) in domain_metrics(&Stats::default()) {
        match value {
            Value::Counter(_) => describe_counter!(name, Unit::Count, help),
            Value::Gauge(_) => describe_gauge!(name, Unit::Count, help),
            Value::Bytes(_) => describe_gauge!(name, Unit::Bytes, help),
            Value::Seconds(_) => describe_gauge!(name, Unit::Seconds, help),
        }
    }
    describe_counter!(
        WAIT_BUCKET,
        Unit::Count,
        "Grace periods that waited for readers for at most `le` seconds"
    );
    let panics = "Callbacks and destructors that panicked";
    describe_counter!("stillpoint_deferred_panics_total", Unit::Count, panics);
    describe_counter!("stillpoint_fences_total", Unit::Count, "Heavy fences executed");
}

/// Sets the metrics of the process.
///
/// That is, of the domains `rcu`, `qsbr` and `hazard`, and of the fence. Chooses the
/// backend of the fence if none has been chosen.
pub fn export() {
    let stats = rcu::stats();
    export_domain("rcu", &stats);
    export_domain("qsbr", &qsbr::Global.stats());
    export_domain("hazard", &hazard::stats());
    counter!("stillpoint_deferred_panics_total").absolute(stats.panics);
    counter!("stillpoint_fences_total").absolute(fence::stats().calls);
}

/// Sets the metrics of one domain, with the label `domain`. See the [module](self) for an example.
pub fn export_domain(domain: impl Into<SharedString>, stats: &Stats) {
    let domain = domain.into();
    let set = |name, value| gauge!(name, "domain" => domain.clone()).set(value);
    for (name, _, value) in domain_metrics(stats) {
        match value {
            Value::Counter(count) => counter!(name, "domain" => domain.clone()).absolute(count),
            Value::Gauge(number) | Value::Bytes(number) => set(name, number as f64),
            Value::Seconds(time) => set(name, time.as_secs_f64()),
        }
    }
    let bounds = Stats::WAIT_BOUNDS.map(|bound| bound.as_secs_f64().to_string());
    let mut sum = 0;
    for (count, bound) in stats.waits.iter().zip(bounds.into_iter().chain(["+Inf".to_owned()])) {
        sum += count;
        counter!(WAIT_BUCKET, "domain" => domain.clone(), "le" => bound).absolute(sum);
    }
}
