//! A sample as JSON: see the [module](super), which describes the fields.

use core::time::Duration;
use std::process;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::page::LONGEST;
use super::sample::DomainSample;
use crate::domain::fork::used;
use crate::domain::stats::Stats;
use crate::fence;

/// The most domains that are listed.
const LISTED: usize = 64;

/// Returns what the library does now, as JSON of at most [`LONGEST`] bytes.
pub(super) fn json(interval: Duration, took: Duration) -> String {
    let mut domains: Vec<_> = used().map(DomainSample::of).collect();
    #[cfg(feature = "srcu")]
    domains.extend(crate::srcu::Domain::used().iter().map(|domain| DomainSample::of(domain)));
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
            "domains": domains.iter().map(|domain| &domain.json).collect::<Vec<_>>(),
        })
        .to_string();
        if json.len() <= LONGEST {
            return json;
        }
        let half = domains.len() / 2;
        keep(&mut domains, half);
    }
}

/// Keeps `number` domains: a third for the longest wait, a third for the most callbacks, a third for the most bytes.
/// What is first by one measure is kept, whatever others say.
fn keep(domains: &mut Vec<DomainSample>, number: usize) {
    let measures: [fn(&Stats) -> u64; 3] =
        [|stats| stats.waiting.as_nanos() as u64, |stats| stats.queued, |stats| stats.queued_bytes];
    if domains.len() > number {
        let mut kept = 0;
        for (measure, left) in measures.into_iter().zip([3, 2, 1]) {
            domains[kept..].sort_by_key(|domain| core::cmp::Reverse(measure(&domain.stats)));
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
