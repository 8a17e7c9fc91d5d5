//! A sample as JSON: see the [module](super), which describes the fields.

use core::time::Duration;
use std::process;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::page::LONGEST;
use super::sample::domain;
use crate::domain::fork::used;
use crate::domain::stats::Stats;
use crate::fence;
use crate::reclaim::domain::RawDomain;

/// The most domains that are listed.
const LISTED: usize = 64;

/// Returns what the library does now, as JSON of at most [`LONGEST`] bytes.
pub(super) fn json(interval: Duration, took: Duration) -> String {
    #[cfg(feature = "srcu")]
    let sleepable = crate::srcu::Domain::used();
    let mut domains: Vec<_> = used().map(Found::of).collect();
    #[cfg(feature = "srcu")]
    domains.extend(sleepable.iter().map(|domain| Found::of(domain)));
    let domains_in_use = domains.len();
    keep(&mut domains, LISTED);
    loop {
        let json = json!({
            "library": env!("CARGO_PKG_VERSION"),
            "pid": process::id(),
            "unix_ms": SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64),
            "interval": interval,
            "took": took,
            "fence": fence(),
            "domains_in_use": domains_in_use,
            "domains": domains.iter().map(|found| domain(found.domain)).collect::<Vec<_>>(),
        })
        .to_string();
        if json.len() <= LONGEST {
            return json;
        }
        let half = domains.len() / 2;
        keep(&mut domains, half);
    }
}

/// A domain, of which there may be any number: JSON is made of those that are listed only.
struct Found<'a> {
    domain: &'a dyn RawDomain,
    /// The nanoseconds that its grace period has waited, the callbacks that wait, and their bytes.
    measures: [u64; 3],
}

impl<'a> Found<'a> {
    fn of(domain: &'a dyn RawDomain) -> Self {
        let stats = Stats::of(domain);
        Self { domain, measures: [stats.waiting.as_nanos() as u64, stats.queued, stats.queued_bytes] }
    }
}

/// Keeps `number` domains: a third for the longest wait, a third for the most callbacks, a third for the most bytes.
/// What is first by one measure is kept, whatever others say.
fn keep(domains: &mut Vec<Found<'_>>, number: usize) {
    if domains.len() > number {
        let mut kept = 0;
        for (measure, left) in [3, 2, 1].into_iter().enumerate() {
            domains[kept..].sort_by_key(|found| core::cmp::Reverse(found.measures[measure]));
            kept += (number - kept).div_ceil(left);
        }
        domains.truncate(number);
    }
}

/// Does not choose the backend: that is up to the program.
fn fence() -> Option<Value> {
    let report = fence::backend::chosen()?;
    Some(json!({
        "backend": report.backend().to_string(), "why": report.why().to_string(), "calls": fence::calls()
    }))
}
