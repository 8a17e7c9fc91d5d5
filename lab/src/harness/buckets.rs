//! Histograms of latencies; in power-of-two buckets, too: what a percentile cannot show is whether there is one mode or two.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::Series;
use super::stats::Config;

/// Buckets of a histogram: bucket n counts latencies below 2^n ns, and not below half of that.
pub(crate) const BUCKETS: usize = 40;

/// Longest latency that a histogram tells apart from longer ones, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// An empty histogram with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid")
}

/// Number of latencies in each bucket.
pub(crate) type Counts = [u64; BUCKETS];

/// The bucket of a latency.
pub(crate) fn bucket(latency: Duration) -> usize {
    let ns = latency.as_nanos() as u64;
    ((u64::BITS - ns.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// Adds up `more` latencies, in nanoseconds.
pub(crate) fn add(counts: &mut Counts, more: &Histogram<u64>) {
    for value in more.iter_recorded() {
        counts[bucket(Duration::from_nanos(value.value_iterated_to()))] += value.count_at_value();
    }
}

/// The histogram of `metric` for the JSON.
pub(crate) fn series(system: &'static str, metric: &'static str, config: Config, counts: Counts) -> Series {
    let point = |(bucket, count): (usize, u64)| ((1_u64 << bucket) as f64, count as f64);
    let points = counts.into_iter().enumerate().map(point).collect();
    let (unit, over) = ("count".into(), "latency_below_ns".into());
    Series { system: system.into(), metric: metric.into(), unit, over, config, points }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_holds_latencies_below_its_power_of_two() {
        for (ns, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11)] {
            assert_eq!(bucket(Duration::from_nanos(ns)), expected, "{ns} ns");
        }
        assert_eq!(bucket(Duration::from_secs(3600)), BUCKETS - 1);
    }

    #[test]
    fn added_histograms_are_summed_by_bucket() {
        let mut more = histogram();
        for ns in [5, 6, 7, 9, 1500] {
            more.record(ns).expect("within the bounds");
        }
        let mut counts = [0; BUCKETS];
        add(&mut counts, &more);
        add(&mut counts, &more);
        assert_eq!((counts[3], counts[4], counts[11], counts.iter().sum::<u64>()), (6, 2, 2, 10));
    }
}
