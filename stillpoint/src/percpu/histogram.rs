//! Histograms: counts of values by size.

use core::fmt;

use super::cpu_counters::CpuCounters;

/// Significant bits of a value after the first: a bucket is at most 1/8 of its values wide.
const PRECISION: u32 = 3;
/// Values below this have a bucket each.
const EXACT: u64 = 1 << PRECISION;
const BUCKETS: usize = (64 - PRECISION as usize + 1) << PRECISION;

/// The word of the sum. It is the first, whose address takes no multiplication.
const SUM: usize = 0;
/// The word of the first bucket.
const FIRST: usize = SUM + 1;

/// Counts values by size: latencies, lengths, depths.
///
/// [`record`](Self::record) adds to two words of the current CPU, the bucket's count and the sum of all values, as two
/// calls of [`Counter::add`](super::Counter::add) do. So it loses nothing. Each value below 8 has its own bucket; other
/// buckets are no wider than an eighth of their values.
///
/// # Memory
///
/// 8 KiB for each CPU that this machine may ever have, allocated by the first value, and 4 KiB in the histogram itself.
///
/// ```
/// use stillpoint::percpu::Histogram;
///
/// static NANOSECONDS: Histogram = Histogram::new();
///
/// let begun = std::time::Instant::now();
/// NANOSECONDS.record(begun.elapsed().as_nanos() as u64);
/// # let before = NANOSECONDS.snapshot();
///
/// for value in 1..=1000 {
///     NANOSECONDS.record(value);
/// }
/// let seen = NANOSECONDS.snapshot();
/// # let seen = seen.since(&before);
/// assert_eq!((seen.count(), seen.sum()), (1000, 500_500));
/// let median = seen.quantile(0.5).expect("there are values");
/// assert!((500..=500 + 500 / 8).contains(&median));
/// ```
#[doc(alias("prometheus", "metric"))]
pub struct Histogram {
    words: CpuCounters<{ FIRST + BUCKETS }>,
}

impl Histogram {
    /// Creates an empty histogram. Does not allocate.
    pub const fn new() -> Self {
        Self { words: CpuCounters::new() }
    }

    /// Counts `value`. Never blocks.
    #[doc(alias = "observe")]
    #[inline]
    pub fn record(&self, value: u64) {
        // In this order: see `snapshot`.
        self.words.add(SUM, value);
        self.words.add(FIRST + bucket(value), 1);
    }

    /// Returns the counts and the sum of all values that were recorded before. They may include some that are being
    /// recorded. The sum includes each value that is counted.
    pub fn snapshot(&self) -> Snapshot {
        // In this order: a sum of counts acquires the adds to the sum that precede those to the counts.
        let counts = (0..BUCKETS).map(|bucket| self.words.sum(FIRST + bucket)).collect();
        Snapshot { counts, sum: self.words.sum(SUM) }
    }

    /// Allocates memory now, so that the first [`record`](Self::record) does not.
    pub fn prepare(&self) {
        self.words.prepare();
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Histogram").field(&self.snapshot()).finish()
    }
}

impl fmt::Display for Histogram {
    /// That of a [`Snapshot`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// The counts of a [`Histogram`] at one time, and the sum of the values.
///
/// `Display` gives a line with the count, the sum and some quantiles. With the feature `serde` it is serialized with
/// `count`, `sum` and `buckets`, a sequence of `lowest`, `highest` and `count`.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    counts: Box<[u64]>,
    sum: u64,
}

impl Snapshot {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the values, wrapping around.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Iterates over the buckets with values, in ascending order. Yields the lowest and the highest value of a bucket,
    /// and its count. Later snapshots may have more of them: where the set must stay the same, use
    /// [`cumulative`](Self::cumulative).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, &count)| (lowest(bucket), highest(bucket), count))
    }

    /// Returns for each bound how many values are at most that: the buckets of Prometheus, of which the set is the same
    /// at each scrape. A bound inside a bucket leaves out the values of that bucket, which are at most an eighth apart.
    ///
    /// ```
    /// let latency = stillpoint::percpu::Histogram::new();
    /// latency.record(1500);
    /// let counts: Vec<_> = latency.snapshot().cumulative([1000, 10_000]).collect();
    /// assert_eq!(counts, [(1000, 0), (10_000, 1)]);
    /// ```
    #[doc(alias("prometheus", "le"))]
    pub fn cumulative<I: IntoIterator<Item = u64>>(&self, bounds: I) -> impl Iterator<Item = (u64, u64)> {
        bounds.into_iter().map(|bound| {
            let last = bucket(bound);
            let whole = last + usize::from(highest(last) == bound);
            (bound, self.counts[..whole].iter().sum())
        })
    }

    /// Returns the highest value of the bucket in which the given part of all values ends: 0.5 for the median, 1 for
    /// the maximum. Returns `None` if there are no values.
    ///
    /// # Panics
    ///
    /// If `part` is not between 0 and 1.
    #[track_caller]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&part), "a part of all values is between 0 and 1, not {part}");
        let count = self.count();
        // A large count is rounded; clamped, as it may be rounded up.
        let rank = ((part * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.buckets().find_map(|(_, highest, count)| {
            seen += count;
            (seen >= rank).then_some(highest)
        })
    }

    /// Returns the counts and the sum since `earlier`, a snapshot of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts);
        Self {
            counts: counts.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum: self.sum.wrapping_sub(earlier.sum),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets().map(|(low, high, count)| (low..=high, count))).finish()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values, sum {}", self.count(), self.sum)?;
        for (separator, part, name) in
            [(": ", 0.5, "50 %"), (", ", 0.9, "90 %"), (", ", 0.99, "99 %"), (", ", 1.0, "all")]
        {
            if let Some(highest) = self.quantile(part) {
                write!(f, "{separator}{name} up to {highest}")?;
            }
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Snapshot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Bucket {
            lowest: u64,
            highest: u64,
            count: u64,
        }
        #[derive(serde::Serialize)]
        struct Snapshot {
            count: u64,
            sum: u64,
            buckets: Vec<Bucket>,
        }
        let buckets =
            self.buckets().map(|(lowest, highest, count)| Bucket { lowest, highest, count }).collect();
        Snapshot { count: self.count(), sum: self.sum, buckets }.serialize(serializer)
    }
}

/// Returns the bucket of a value, made of its significant bits and the number of bits below them.
#[inline(always)]
fn bucket(value: u64) -> usize {
    let shift = (63 - (value | EXACT).leading_zeros()) - PRECISION;
    ((u64::from(shift) << PRECISION) + (value >> shift)) as usize
}

fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> PRECISION).saturating_sub(1);
    (bucket - (shift << PRECISION)) << shift
}

fn highest(bucket: usize) -> u64 {
    if bucket + 1 < BUCKETS { lowest(bucket + 1) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_partition_values_within_an_eighth() {
        let mut next = 0u64;
        for index in 0..BUCKETS {
            let (low, high) = (lowest(index), highest(index));
            assert_eq!(low, next, "bucket {index} begins where the last ended");
            assert_eq!((bucket(low), bucket(high)), (index, index));
            assert!(high - low <= low / EXACT, "{low}..={high}");
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the last number");
    }

    #[test]
    fn cumulative_count_has_the_buckets_up_to_the_bound() {
        let counts = (0..BUCKETS).map(|bucket| bucket as u64 + 1).collect();
        let snapshot = Snapshot { counts, sum: 0 };
        // In any order: each bound is counted by itself.
        let bounds = [u64::MAX, 0, 7, 16, 17, 1000, u64::MAX - 1];
        for (bound, count) in snapshot.cumulative(bounds) {
            let below = snapshot.buckets().take_while(|&(_, highest, _)| highest <= bound);
            assert_eq!(count, below.map(|(.., count)| count).sum::<u64>(), "{bound}");
        }
        assert!(snapshot.cumulative(bounds).map(|(bound, _)| bound).eq(bounds));
    }

    #[test]
    fn quantile_of_one_is_the_last_bucket() {
        for count in [1, 1000, (1 << 54) + 3, u64::MAX] {
            let mut counts = vec![0; BUCKETS];
            counts[7] = count;
            let snapshot = Snapshot { counts: counts.into(), sum: 0 };
            assert_eq!((snapshot.quantile(0.0), snapshot.quantile(1.0)), (Some(7), Some(7)), "{count}");
        }
    }
}
