//! What insertions cost while a table grows: all of them, and the longest.
//!
//! One thread inserts keys into an empty map, one by one. A map that moves all entries at once, or a part of them, when
//! it grows lets that insertion wait; one that moves a few in each does not.

use std::thread;
use std::time::{Duration, Instant};

use crate::peers::maps::{Key as _, Map};
use harness::{Config, Metric, crew, pin};

/// The mean of all insertions, and the longest.
pub(super) const MEAN: Metric = Metric::nanoseconds("growth_ns");
pub(super) const LONGEST: Metric = Metric::nanoseconds("growth_longest_ns");

/// Entries in the end.
const ENTRIES: usize = 1 << 22;

pub(super) fn config() -> Config {
    Config::new([("size", ENTRIES.into())])
}

/// Returns the nanoseconds of an insertion, and of the longest.
pub(super) fn run<M: Map>() -> anyhow::Result<[f64; 2]> {
    let cpu = pin::allowed()?[0];
    thread::scope(|scope| {
        crew::join(crew::spawn(scope, || {
            pin::to(cpu)?;
            let _thread = M::register();
            let map = M::default();
            let begin = Instant::now();
            let (mut before, mut longest) = (begin, Duration::ZERO);
            for number in 0..ENTRIES {
                map.insert(u64::with_number(number), 0);
                let now = Instant::now();
                longest = longest.max(now - before);
                before = now;
            }
            Ok([(before - begin).as_nanos() as f64 / ENTRIES as f64, longest.as_nanos() as f64])
        })?)?
    })
}
