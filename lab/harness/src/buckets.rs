//! Histograms of latencies, and their power-of-two buckets: a percentile cannot show whether there are two modes.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::{Grid, Series};
use super::stats::Config;
use super::units::duration;

/// Buckets of a histogram: bucket n counts latencies below 2^n ns, and not below half of that.
pub const BUCKETS: usize = 40;

/// Longest latency that a histogram tells apart from longer ones, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// Returns an empty histogram with three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid")
}

/// Returns the bucket of a latency.
pub fn bucket(latency: Duration) -> usize {
    let ns = latency.as_nanos() as u64;
    ((u64::BITS - ns.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// Returns the number of latencies in each bucket, in the form of the JSON: the bucket's bound, and the number.
pub fn counts(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    let mut counts: Vec<_> = (0..BUCKETS).map(|bucket| ((1_u64 << bucket) as f64, 0.0)).collect();
    // Each step ends below a power of two.
    for (count, step) in counts.iter_mut().zip(latencies.iter_log(1, 2.0)) {
        count.1 = step.count_since_last_iteration() as f64;
    }
    counts
}

/// The buckets of all systems in all configurations, added up over the rounds.
#[derive(Debug, Default)]
pub struct Collected(Vec<Series>);

impl Collected {
    /// Adds the latencies of one measurement.
    pub fn add(
        &mut self,
        system: &'static str,
        metric: &'static str,
        config: &Config,
        counts: &[(f64, f64)],
    ) {
        let is_it = |series: &&mut Series| series.system == system && series.config == *config;
        let Some(series) = self.0.iter_mut().find(is_it) else {
            let (unit, over) = ("count".into(), "latency_below_ns".into());
            let (system, metric, points) = (system.into(), metric.into(), counts.to_vec());
            return self.0.push(Series { system, metric, unit, over, config: config.clone(), points });
        };
        series.points.iter_mut().zip(counts).for_each(|(sum, count)| sum.1 += count.1);
    }

    /// Returns a table for each configuration, with a column for each system.
    pub fn grids(&self) -> Vec<Grid> {
        let mut configs: Vec<&Config> = Vec::new();
        for series in &self.0 {
            if !configs.contains(&&series.config) {
                configs.push(&series.config);
            }
        }
        let grid = |config: &&Config| {
            let all: Vec<&Series> = self.0.iter().filter(|series| series.config == **config).collect();
            let row = |bucket: usize| {
                let counts: Vec<f64> = all.iter().map(|series| series.points[bucket].1).collect();
                let bound = duration((1_u64 << bucket) as f64);
                let cells = [bound].into_iter().chain(counts.iter().map(f64::to_string)).collect();
                counts.iter().any(|&count| count > 0.0).then_some(cells)
            };
            let head: Vec<&str> =
                ["below"].into_iter().chain(all.iter().map(|series| &*series.system)).collect();
            let rows = (0..BUCKETS).filter_map(row).collect();
            Grid::new(&format!("Number of latencies, {config}"), &head, rows)
        };
        configs.iter().map(grid).collect()
    }

    /// Returns the series for the JSON.
    pub fn into_series(self) -> Vec<Series> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_holds_latencies_below_its_power_of_two() {
        let mut latencies = histogram();
        for (ns, expected) in [(1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (5_000_000, 23)] {
            assert_eq!(bucket(Duration::from_nanos(ns)), expected, "{ns} ns");
            latencies.reset();
            latencies.record(ns).expect("within the bounds");
            let counts = counts(&latencies);
            assert_eq!(counts.iter().position(|&(_, count)| count == 1.0), Some(expected), "{ns} ns");
        }
        assert_eq!(bucket(Duration::from_secs(3600)), BUCKETS - 1);
    }

    #[test]
    fn collected_buckets_are_sums_by_system_and_config() {
        let config = Config::new([("threads", 1.into())]);
        let mut latencies = histogram();
        for ns in [5, 6, 7, 9, 1500] {
            latencies.record(ns).expect("within the bounds");
        }
        let mut collected = Collected::default();
        for system in ["ours", "theirs", "ours"] {
            collected.add(system, "waits", &config, &counts(&latencies));
        }
        assert_eq!(
            collected.grids()[0].rows,
            [["8.00 ns", "6", "3"], ["16.0 ns", "2", "1"], ["2.05 us", "2", "1"]]
        );
        assert_eq!(collected.into_series().len(), 2);
    }
}
