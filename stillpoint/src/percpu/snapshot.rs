//! What histograms have counted.

use core::fmt;

/// Significant bits of a value after the first: a bucket is at most 1/8 of its values wide.
const PRECISION: u32 = 3;
/// Values below this have a bucket each.
const EXACT: u64 = 1 << PRECISION;
pub const BUCKETS: usize = (64 - PRECISION as usize + 1) << PRECISION;

/// The counts of a [`Histogram`](super::Histogram) or [`BucketHistogram`](super::BucketHistogram) at one time, and
/// the sum of the values.
///
/// That of no values is its `Default`. `Display` gives a line with the count, the sum and some quantiles. With the
/// feature `serde` it is serialized with `count`, `sum` and `buckets`, a sequence of `lowest`, `highest` and `count`.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The highest values of the buckets but the last one, if the program gave them.
    pub(super) bounds: Option<&'static [u64]>,
    pub(super) counts: Box<[u64]>,
    pub(super) sum: u64,
}

impl Snapshot {
    /// Returns the number of values, `u64::MAX` if there are more.
    #[inline]
    pub fn count(&self) -> u64 {
        saturating_sum(&self.counts)
    }

    /// Returns the sum of the values, wrapping around.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the average of the values, if there are any. It is wrong if their sum wraps around.
    #[inline]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// Returns the highest value of the last bucket that has values.
    #[inline]
    pub fn max(&self) -> Option<u64> {
        self.quantile(1.0)
    }

    /// Adds the counts and the sum of `other`: of a histogram of another thread, process or time. A count stays at
    /// `u64::MAX`; the sum wraps around.
    ///
    /// ```
    /// use stillpoint::percpu::{Histogram, Snapshot};
    ///
    /// let servers = [Histogram::new(), Histogram::new()];
    /// servers[0].record(2);
    /// servers[1].record(4);
    /// let mut all = Snapshot::default();
    /// servers.iter().for_each(|server| all.merge(&server.snapshot()));
    /// assert_eq!((all.count(), all.mean(), all.max()), (2, Some(3.0), Some(4)));
    /// ```
    ///
    /// # Panics
    ///
    /// If both have values, and not the same bounds.
    #[track_caller]
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        if !self.has_bounds_of(other) {
            if self.count() == 0 {
                self.clone_from(other);
            }
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Iterates over the buckets with values, in ascending order. Yields the lowest and the highest value of a
    /// bucket, and its count. Later snapshots may have more of them: where the set must stay the same, use
    /// [`cumulative`](Self::cumulative).
    #[inline]
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, &count)| (self.lowest(bucket), self.highest(bucket), count))
    }

    /// Returns for each bound how many values are at most that: the buckets of Prometheus, of which the set is the
    /// same at each scrape. A bound inside a bucket leaves out the values of that bucket, which are at most an eighth
    /// apart, or as far as the bounds of the histogram.
    ///
    /// ```
    /// let latency = stillpoint::percpu::Histogram::new();
    /// latency.record(1500);
    /// let counts: Vec<_> = latency.snapshot().cumulative([1000, 10_000]).collect();
    /// assert_eq!(counts, [(1000, 0), (10_000, 1)]);
    /// ```
    #[doc(alias("prometheus", "le"))]
    #[inline]
    pub fn cumulative<I: IntoIterator<Item = u64>>(&self, bounds: I) -> impl Iterator<Item = (u64, u64)> {
        bounds.into_iter().map(|bound| {
            let last =
                self.bounds.map_or_else(|| bucket(bound), |bounds| bounds.partition_point(|it| *it < bound));
            let whole = last + usize::from(self.highest(last) == bound);
            (bound, saturating_sum(&self.counts[..whole]))
        })
    }

    /// Returns the highest value of the bucket in which the given part of all values ends: 0.5 for the median, 1 for
    /// the maximum. Returns `None` if there are no values.
    ///
    /// # Panics
    ///
    /// If `part` is not between 0 and 1.
    #[track_caller]
    #[inline]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&part), "a part of all values is between 0 and 1, not {part}");
        // In 128 bits the counts of all buckets have a sum.
        let count: u128 = self.counts.iter().copied().map(u128::from).sum();
        // A large count is rounded; clamped, as it may be rounded up.
        let rank = ((part * count as f64).ceil() as u128).clamp(1, count.max(1));
        let mut seen = 0;
        self.buckets().find_map(|(_, highest, count)| {
            seen += u128::from(count);
            (seen >= rank).then_some(highest)
        })
    }

    /// Returns the counts and the sum since `earlier`, a snapshot of the same histogram, or the `Default`.
    ///
    /// ```
    /// use stillpoint::percpu::{BucketHistogram, Snapshot};
    ///
    /// let sizes = BucketHistogram::new(&[10, 100]);
    /// let mut last = Snapshot::default();
    /// for _ in 0..2 {
    ///     sizes.record(7);
    ///     let now = sizes.snapshot();
    ///     assert_eq!(now.since(&last).count(), 1);
    ///     last = now;
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// If both have values, and not the same bounds.
    #[must_use]
    #[track_caller]
    #[inline]
    pub fn since(&self, earlier: &Self) -> Self {
        if !self.has_bounds_of(earlier) {
            return self.clone();
        }
        let counts = self.counts.iter().zip(&earlier.counts);
        Self {
            bounds: self.bounds,
            counts: counts.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum: self.sum.wrapping_sub(earlier.sum),
        }
    }

    /// Returns whether both have the same bounds. Panics if they do not, and both have values.
    #[track_caller]
    #[inline]
    fn has_bounds_of(&self, other: &Self) -> bool {
        let same = self.bounds == other.bounds;
        assert!(
            same || self.count() == 0 || other.count() == 0,
            "the histograms do not have the same bounds"
        );
        same
    }

    #[inline]
    fn lowest(&self, bucket: usize) -> u64 {
        match self.bounds {
            Some(bounds) => bucket.checked_sub(1).map_or(0, |below| bounds[below].saturating_add(1)),
            None => lowest(bucket),
        }
    }

    #[inline]
    fn highest(&self, bucket: usize) -> u64 {
        match self.bounds {
            Some(bounds) => bounds.get(bucket).copied().unwrap_or(u64::MAX),
            None => highest(bucket),
        }
    }
}

impl Default for Snapshot {
    #[inline]
    fn default() -> Self {
        Self { bounds: None, counts: vec![0; BUCKETS].into(), sum: 0 }
    }
}

impl fmt::Debug for Snapshot {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets().map(|(low, high, count)| (low..=high, count))).finish()
    }
}

impl fmt::Display for Snapshot {
    #[inline]
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

fn saturating_sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
}

/// Returns the bucket of a value, made of its significant bits and the number of bits below them.
#[inline(always)]
pub fn bucket(value: u64) -> usize {
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
        let snapshot = Snapshot { bounds: None, counts, sum: 0 };
        // In any order: each bound is counted by itself.
        let bounds = [u64::MAX, 0, 7, 16, 17, 1000, u64::MAX - 1];
        for (bound, count) in snapshot.cumulative(bounds) {
            let below = snapshot.buckets().take_while(|&(_, highest, _)| highest <= bound);
            assert_eq!(count, below.map(|(.., count)| count).sum::<u64>(), "{bound}");
        }
        assert!(snapshot.cumulative(bounds).map(|(bound, _)| bound).eq(bounds));
    }

    #[test]
    fn counts_by_given_bounds_are_of_the_buckets_that_the_bounds_end() {
        let of = |bounds, counts: &[u64]| Snapshot { bounds: Some(bounds), counts: counts.into(), sum: 0 };
        let mut all = Snapshot::default();
        all.merge(&of(&[10, 20], &[1, 2, 4]));
        all.merge(&of(&[10, 20], &[1, 0, 0]));
        all.merge(&Snapshot::default());
        assert!(all.buckets().eq([(0, 10, 2), (11, 20, 2), (21, u64::MAX, 4)]));
        let counts = all.cumulative([9, 10, 15, 20, 21, u64::MAX]).map(|(_, count)| count);
        assert!(counts.eq([0, 2, 2, 4, 4, 8]));
        assert_eq!((all.quantile(0.25), all.quantile(0.5), all.max()), (Some(10), Some(20), Some(u64::MAX)));
        let none = of(&[], &[3]);
        assert!(none.buckets().eq([(0, u64::MAX, 3)]));
    }

    #[test]
    fn counts_that_exceed_their_type_saturate() {
        let mut all =
            Snapshot { bounds: Some(&[10, 20]), counts: [1 << 63, 1 << 62, 1 << 63].into(), sum: 0 };
        assert_eq!(all.count(), u64::MAX);
        assert!(all.cumulative([10, 20, u64::MAX]).map(|(_, count)| count).eq([1 << 63, 3 << 62, u64::MAX]));
        assert_eq!((all.quantile(0.4), all.quantile(0.5), all.max()), (Some(10), Some(20), Some(u64::MAX)));
        all.merge(&all.clone());
        assert!(all.buckets().map(|(.., count)| count).eq([u64::MAX, 1 << 63, u64::MAX]));
    }

    #[test]
    fn difference_to_no_values_has_all_of_them() {
        let seen = Snapshot { bounds: Some(&[10]), counts: [1, 2].into(), sum: 40 };
        assert_eq!(seen.since(&Snapshot::default()), seen);
        let none = Snapshot::default().since(&seen);
        assert!(none.cumulative([1000]).eq([(1000, 0)]));
        assert_eq!((none.count(), none.sum()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "the same bounds")]
    fn difference_to_values_with_other_bounds_is_refused() {
        let of = |bounds| Snapshot { bounds: Some(bounds), counts: [1, 2].into(), sum: 40 };
        let _ = of(&[10]).since(&of(&[20]));
    }

    #[test]
    fn quantile_of_one_is_the_last_bucket() {
        for count in [1, 1000, (1 << 54) + 3, u64::MAX] {
            let mut counts = vec![0; BUCKETS];
            counts[7] = count;
            let snapshot = Snapshot { bounds: None, counts: counts.into(), sum: 0 };
            assert_eq!((snapshot.quantile(0.0), snapshot.quantile(1.0)), (Some(7), Some(7)), "{count}");
        }
    }
}
