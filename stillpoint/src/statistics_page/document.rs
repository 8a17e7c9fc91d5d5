//! A sample as JSON: see the [module](super), which describes the fields.

use core::time::Duration;
use std::process;
use std::time::SystemTime;

use serde::Serialize;

use super::page::LONGEST;
use crate::fence;
use crate::reclaim::fork::samples;
use crate::reclaim::sample::DomainSample;
use crate::reclaim::stats::Stats;
use crate::reclaim::worker_pool;
use crate::sys::shared_page::pid_namespace;

/// The most domains that are listed.
const LISTED: usize = 64;

#[derive(Serialize)]
struct Document<'a> {
    library: &'static str,
    pid: u32,
    pid_namespace: Option<u64>,
    unix_ms: u64,
    interval: Duration,
    took: Duration,
    fence: Fence,
    workers_idle: bool,
    domains_in_use: usize,
    domains: &'a [DomainSample],
}

#[derive(Serialize)]
struct Fence {
    backend: Option<String>,
    why: Option<String>,
    #[serde(flatten)]
    stats: fence::Stats,
}

/// Returns what the library does now, as JSON of at most [`LONGEST`] bytes.
pub(super) fn json(interval: Duration, took: Duration) -> String {
    let mut domains: Vec<_> = samples().collect();
    #[cfg(feature = "srcu")]
    domains.extend(crate::srcu::Domain::samples());
    let domains_in_use = domains.len();
    keep(&mut domains, LISTED);
    loop {
        let document = Document {
            library: env!("CARGO_PKG_VERSION"),
            pid: process::id(),
            pid_namespace: pid_namespace(),
            unix_ms: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64),
            interval,
            took,
            fence: Fence::now(),
            workers_idle: worker_pool::has_idle(),
            domains_in_use,
            domains: &domains,
        };
        // Nothing in it that JSON has not.
        let json = serde_json::to_string(&document).unwrap_or_default();
        if json.len() <= LONGEST {
            return json;
        }
        let half = domains.len() / 2;
        keep(&mut domains, half);
    }
}

/// Keeps `number` domains: a third for the longest wait, a third for the most callbacks, a third for the most bytes. What
/// is first by one measure is kept, whatever others say.
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

impl Fence {
    fn now() -> Self {
        // Does not make the choice, which is the program's.
        let Some(report) = fence::backend::chosen() else {
            return Self { backend: None, why: None, stats: fence::Stats::default() };
        };
        Self {
            backend: Some(report.backend().to_string()),
            why: Some(report.why().to_string()),
            stats: fence::stats(),
        }
    }
}
