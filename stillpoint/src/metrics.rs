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
//! metrics::export();
//! metrics::export_domain("routes", &Routes.stats());
//! ```
//!
//! # Metrics
//!
//! Each field of [`Stats`] is a metric with the label `domain`:
//!
//! | field | kind | metric |
//! |---|---|---|
//! | a count since the start, such as [`grace_periods`](Stats::grace_periods) | counter | `stillpoint_grace_periods_total` |
//! | a number of now, such as [`queued_bytes`](Stats::queued_bytes) | gauge | `stillpoint_queued_bytes` |
//! | a time, such as [`waiting`](Stats::waiting) | gauge | `stillpoint_waiting_seconds` |
//! | [`waits`](Stats::waits), summed up | counter, label `le` | `stillpoint_wait_seconds_bucket`: a histogram of Prometheus |
//!
//! [`panics`](Stats::panics) and [`fence::calls`], of all domains, are the counters `stillpoint_panics_total` and
//! `stillpoint_fences_total`, without a label.

use std::time::Duration;

use ::metrics::{SharedString, counter, gauge};

use crate::Domain as _;
use crate::rcu::Stats;
use crate::{arc, fence, hazard, qsbr, rcu};

/// Sets the metrics of the process.
///
/// That is, of the domains `rcu`, `qsbr`, `hazard` and `arc` (of [`ArcCell`](crate::arc::ArcCell)s), and of the
/// fence. Chooses the backend of the fence if none has been chosen.
#[doc(alias = "prometheus")]
pub fn export() {
    let stats = rcu::stats();
    export_domain("rcu", &stats);
    export_domain("qsbr", &qsbr::Global.stats());
    export_domain("hazard", &hazard::Global.stats());
    export_domain("arc", &arc::domain().stats());
    counter!("stillpoint_panics_total").absolute(stats.panics);
    counter!("stillpoint_fences_total").absolute(fence::calls());
}

/// Sets the metrics of one domain, with the label `domain`. See the [module](self) for an example.
#[doc(alias = "prometheus")]
pub fn export_domain(domain: impl Into<SharedString>, stats: &Stats) {
    let domain = domain.into();
    macro_rules! set {
        ($kind:ident, $end:literal: $($field:ident),*; $set:expr) => {
            $($set($kind!(concat!("stillpoint_", stringify!($field), $end), "domain" => domain.clone()), stats.$field);)*
        };
    }
    set!(counter, "_total": grace_periods, callers, heavy_fences, scanned, sleeps, wakeups, stalls, done, limit_waits,
        limit_overruns; |counter: ::metrics::Counter, count| counter.absolute(count));
    set!(gauge, "": readers, queued, protected, queued_bytes; |gauge: ::metrics::Gauge, number| gauge.set(number as f64));
    set!(gauge, "_seconds": longest_wait, waiting, oldest; |gauge: ::metrics::Gauge, time: Duration| {
        gauge.set(time.as_secs_f64());
    });
    let bounds = Stats::WAIT_BOUNDS.map(|bound| bound.as_secs_f64().to_string());
    let mut sum = 0;
    for (count, bound) in stats.waits.iter().zip(bounds.into_iter().chain(["+Inf".to_owned()])) {
        sum += count;
        counter!("stillpoint_wait_seconds_bucket", "domain" => domain.clone(), "le" => bound).absolute(sum);
    }
}
