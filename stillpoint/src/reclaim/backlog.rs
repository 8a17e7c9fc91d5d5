//! Back-pressure: how much waits in a domain, and when that is too much.
//!
//! Owners report what they have pushed, a block at a time. Threads that run callbacks report what they have run. There
//! are two watermarks below the [`Limits`]:
//!
//! | watermark | at | above it |
//! |---|---|---|
//! | [low](Backlog::above_low_mark) | a quarter of a limit, or [`FLUSH_THRESHOLD`] callbacks | the worker does not pause between rounds, and runs lazy callbacks |
//! | [high](Backlog::above_high_mark) | seven eighths of a limit | callers are throttled: they block until less waits |
//!
//! A throttled caller does not block for ever, as the worker may be waiting for it. It goes on after
//! [`THROTTLE_TIMEOUT`], or [`SHORT_THROTTLE_TIMEOUT`] in some domains. The callers after it go on after [`THROTTLE_RETRY`], until a callback has run.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// Callbacks in the backlog above which the worker does not pause between rounds, and runs lazy ones.
const FLUSH_THRESHOLD: u64 = 16_384;
/// How long a caller is throttled at most.
pub const THROTTLE_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };
/// The same, in a domain whose users do not expect to be throttled.
const SHORT_THROTTLE_TIMEOUT: Duration = Duration::from_secs(1);
/// The same, after a caller has timed out.
const THROTTLE_RETRY: Duration = Duration::from_millis(1);

/// High-water marks of what waits in a domain: callbacks and retired values.
///
/// Callers are throttled somewhat below. The bound is not exact: each thread may add up to 64 callbacks, or 64 KiB, or
/// one value, before it notices; and what it adds inside a section, before it blocks on leaving it. It is not enforced
/// in callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Callbacks and retired values.
    pub count: u64,
    /// Bytes: of the values themselves, and what callers say that these own
    /// ([`DeferOptions::heap_bytes`](crate::rcu::DeferOptions::heap_bytes)).
    pub bytes: u64,
}

impl Limits {
    const DEFAULT: Self = Self { count: 1 << 17, bytes: 64 << 20 };
}

impl Default for Limits {
    /// 131,072 callbacks, 64 MiB.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A number of callbacks, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

/// An [`Amount`] in atomics. Relaxed, as everything here: bounds and statistics need no order.
#[derive(Debug)]
struct SharedAmount {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl SharedAmount {
    const_unless_loom! {
        fn new(count: u64, bytes: u64) -> Self {
            Self { count: AtomicU64::new(count), bytes: AtomicU64::new(bytes) }
        }
    }

    fn store(&self, amount: Amount) {
        self.count.store(amount.count, Relaxed);
        self.bytes.store(amount.bytes, Relaxed);
    }

    fn map(&self, f: impl Fn(u64) -> u64) -> Amount {
        Amount { count: f(self.count.load(Relaxed)), bytes: f(self.bytes.load(Relaxed)) }
    }
}

/// An amount that one thread changes. Other threads read it for statistics only.
#[derive(Debug)]
pub struct LocalCount(SharedAmount);

impl LocalCount {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(SharedAmount::new(0, 0))
        }
    }

    /// Returns the bytes.
    #[inline(always)]
    pub fn add(&self, count: u64, bytes: u64) -> u64 {
        self.0.count.store(self.0.count.load(Relaxed) + count, Relaxed);
        let bytes = self.0.bytes.load(Relaxed) + bytes;
        self.0.bytes.store(bytes, Relaxed);
        bytes
    }

    pub fn amount(&self) -> Amount {
        self.0.map(|word| word)
    }

    pub fn take(&self) -> Amount {
        let amount = self.amount();
        self.0.store(Amount::default());
        amount
    }
}

/// Whether, and for how long, a caller may be throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayWait {
    /// The caller is inside a section, or runs a callback.
    No,
    /// For [`THROTTLE_RETRY`]: the caller may be inside a section of this domain, or is inside one of another domain,
    /// which the worker may be waiting for indirectly.
    Briefly,
    /// For a second.
    Shortly,
    /// For [`THROTTLE_TIMEOUT`].
    Yes,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Backlog {
    /// What has been reported and waits. In two's complement: what has run may be reported before what was pushed.
    waiting: CachePadded<SharedAmount>,
    pub counters: CachePadded<Counters>,
    limits: SharedAmount,
    /// `Counters::run` when a throttled caller last timed out.
    progress_at_timeout: AtomicU64,
}

/// Statistics, part of [`Stats`](crate::rcu::Stats), which explains them.
#[derive(Debug)]
pub struct Counters {
    pub run: AtomicU64,
    pub waits: AtomicU64,
    pub overruns: AtomicU64,
}

/// Returns the value of a word in two's complement, or 0 if it is negative.
pub fn at_least_zero(word: u64) -> u64 {
    u64::try_from(word.cast_signed()).unwrap_or(0)
}

impl Backlog {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                waiting: CachePadded::new(SharedAmount::new(0, 0)),
                counters: CachePadded::new(Counters {
                    run: AtomicU64::new(0),
                    waits: AtomicU64::new(0),
                    overruns: AtomicU64::new(0),
                }),
                limits: SharedAmount::new(Limits::DEFAULT.count, Limits::DEFAULT.bytes),
                progress_at_timeout: AtomicU64::new(u64::MAX),
            }
        }
    }

    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Amount { count: limits.count, bytes: limits.bytes });
    }

    /// Counts callbacks that were pushed.
    pub fn add(&self, amount: Amount) {
        self.waiting.count.fetch_add(amount.count, Relaxed);
        self.waiting.bytes.fetch_add(amount.bytes, Relaxed);
    }

    /// Counts callbacks that have run.
    pub fn remove(&self, amount: Amount) {
        self.waiting.count.fetch_sub(amount.count, Relaxed);
        self.waiting.bytes.fetch_sub(amount.bytes, Relaxed);
        self.counters.run.fetch_add(amount.count, Relaxed);
    }

    /// Returns `true` if so much waits that callers must be throttled.
    pub fn above_high_mark(&self) -> bool {
        // Somewhat below the limits, as threads notice late.
        let (waiting, mark) = (self.waiting.map(at_least_zero), self.limits.map(|limit| limit - limit / 8));
        waiting.count > mark.count || waiting.bytes > mark.bytes
    }

    /// Returns `true` if enough waits for another round at once.
    pub fn above_low_mark(&self) -> bool {
        let (waiting, mark) = (self.waiting.map(at_least_zero), self.limits.map(|limit| limit / 4));
        waiting.count >= mark.count.min(FLUSH_THRESHOLD) || waiting.bytes >= mark.bytes
    }

    /// Counts a caller that is throttled, and returns for how long that may last.
    pub fn begin_wait(&self, wait: MayWait) -> Duration {
        self.counters.waits.fetch_add(1, Relaxed);
        let no_progress = self.progress_at_timeout.load(Relaxed) == self.counters.run.load(Relaxed);
        match wait {
            _ if no_progress => THROTTLE_RETRY,
            MayWait::No | MayWait::Briefly => THROTTLE_RETRY,
            MayWait::Shortly => SHORT_THROTTLE_TIMEOUT,
            MayWait::Yes => THROTTLE_TIMEOUT,
        }
    }

    /// A throttled caller goes on, `in_time` or because its time is up. `is_below`: less than the high mark waits.
    pub fn end_wait(&self, wait: MayWait, in_time: bool, is_below: bool) {
        if !in_time && matches!(wait, MayWait::Shortly | MayWait::Yes) {
            self.progress_at_timeout.store(self.counters.run.load(Relaxed), Relaxed);
        }
        if !is_below {
            self.counters.overruns.fetch_add(1, Relaxed);
        }
    }

    /// Returns the bytes that have been reported and wait, in two's complement.
    #[cfg(not(loom))]
    pub fn bytes(&self) -> u64 {
        self.waiting.bytes.load(Relaxed)
    }

    /// Forgets what waits, which the parent runs.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.waiting.store(Amount::default());
    }
}
