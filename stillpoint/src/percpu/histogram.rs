//! Histograms: counts of values by size.

use core::fmt;

use super::cpu_counters::CpuCounters;
use super::snapshot::{BUCKETS, Snapshot, bucket};

/// The word of the sum. It is the first, whose address takes no multiplication.
const SUM: usize = 0;
/// The word of the first bucket.
const FIRST: usize = SUM + 1;

/// Counts values by size: latencies, lengths, depths.
///
/// [`record`](Self::record) adds to two words of the current CPU, the bucket's count and the sum of all values, as
/// two calls of [`Counter::add`](super::Counter::add) do. So it loses nothing. Each value below 8 has its own bucket;
/// other buckets are no wider than an eighth of their values.
///
/// # Memory
///
/// 4 KiB for each CPU that the process runs on, if it has seen values of all sizes, taken by the first value, and 4
/// KiB in the histogram itself. Of a [`BucketHistogram`] there may be thousands.
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

    /// Counts `value`. Waits for no other thread, but for the first time, when it takes memory.
    #[doc(alias = "observe")]
    #[inline]
    pub fn record(&self, value: u64) {
        // In this order: see `snapshot`.
        self.words.add(SUM, value);
        self.words.add(FIRST + bucket(value), 1);
    }

    /// Returns the counts and the sum of all values that were recorded before. They may include some that are being
    /// recorded. The sum includes each value that is counted.
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        // In this order: a sum of counts acquires the adds to the sum that precede those to the counts.
        let counts = self.words.sums(FIRST, BUCKETS);
        Snapshot { bounds: None, counts, sum: self.words.sum(SUM) }
    }

    /// Allocates memory now, so that the first [`record`](Self::record) does not.
    #[inline]
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
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Histogram").field(&self.snapshot()).finish()
    }
}

impl fmt::Display for Histogram {
    /// That of a [`Snapshot`].
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// Counts values by bounds that the program gives: 144 bytes for each CPU that the process runs on, and 176 in the
/// histogram itself.
///
/// Otherwise it is as [`Histogram`]. A value is counted in the bucket of the lowest bound that it does not exceed, or
/// in the last one, which has no bound.
///
/// ```
/// use stillpoint::percpu::BucketHistogram;
///
/// const MICROSECONDS: [u64; 3] = [100, 1000, 10_000];
/// static LATENCY: BucketHistogram = BucketHistogram::new(&MICROSECONDS);
///
/// LATENCY.record(100);
/// LATENCY.record(2500);
/// LATENCY.record(77_000);
/// let seen = LATENCY.snapshot();
/// assert!(seen.cumulative(MICROSECONDS).eq([(100, 1), (1000, 1), (10_000, 2)]));
/// assert_eq!((seen.count(), seen.sum()), (3, 79_600));
/// ```
///
/// A family of them is
/// `stillpoint_collections::Family::new_with_constructor(|| BucketHistogram::new(&MICROSECONDS))`.
#[doc(alias("prometheus", "metric", "buckets"))]
pub struct BucketHistogram {
    bounds: &'static [u64],
    words: CpuCounters<{ FIRST + Self::MOST_BOUNDS + 1 }>,
}

impl BucketHistogram {
    /// The most bounds.
    pub const MOST_BOUNDS: usize = 16;

    /// Creates an empty histogram. Does not allocate.
    ///
    /// # Panics
    ///
    /// If the bounds do not ascend, or are more than [`MOST_BOUNDS`](Self::MOST_BOUNDS).
    #[track_caller]
    pub const fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.len() <= Self::MOST_BOUNDS, "a BucketHistogram has at most 16 bounds");
        let mut next = 1;
        while next < bounds.len() {
            assert!(bounds[next - 1] < bounds[next], "the bounds of a BucketHistogram ascend");
            next += 1;
        }
        Self { bounds, words: CpuCounters::new() }
    }

    /// Counts `value`, as [`Histogram::record`] does.
    #[doc(alias = "observe")]
    #[inline]
    pub fn record(&self, value: u64) {
        // In this order: as in `Histogram`.
        self.words.add(SUM, value);
        self.words.add(FIRST + self.bounds.partition_point(|bound| *bound < value), 1);
    }

    /// Returns the counts and the sum, as [`Histogram::snapshot`] does.
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        // In this order: as in `Histogram`.
        let counts = self.words.sums(FIRST, self.bounds.len() + 1);
        Snapshot { bounds: Some(self.bounds), counts, sum: self.words.sum(SUM) }
    }

    /// Allocates memory now, so that the first [`record`](Self::record) does not.
    #[inline]
    pub fn prepare(&self) {
        self.words.prepare();
    }
}

impl fmt::Debug for BucketHistogram {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BucketHistogram").field(&self.snapshot()).finish()
    }
}
