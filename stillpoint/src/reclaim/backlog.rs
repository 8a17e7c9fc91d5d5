//! How much waits in a domain, and when that is too much.
//!
//! Owners report what they have appended, a block at a time; those that run entries report what they have run. There
//! are two marks, both below the [`Limits`]:
//!
//! | mark | at | above it |
//! |---|---|---|
//! | [crowded](Backlog::above_low_mark) | a quarter of a limit, or [`FLUSH_THRESHOLD`] entries | the worker does not pause between rounds, and runs lazy entries |
//! | [above](Backlog::above_high_mark) | seven eighths of a limit | callers wait |
//!
//! A caller does not wait for ever, as what the worker waits for may be waiting for the caller. When [`THROTTLE_TIMEOUT`] is
//! over, it goes on. So do the callers after it, each when [`THROTTLE_RETRY`] is over, until an entry has run.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// Entries in the backlog that end the pause between rounds, and let lazy entries run.
const FLUSH_THRESHOLD: u64 = 16_384;
/// How long a caller above the limits waits.
pub const THROTTLE_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };
/// The same, when that was in vain once.
const THROTTLE_RETRY: Duration = Duration::from_millis(1);

/// High-water marks of the entries that wait in a domain, callbacks and retired values.
///
/// Callers begin to wait somewhat below. The bound is not exact: each thread may add up to 64 entries, or 64 KiB, or
/// one value, before it notices; and what it adds inside a section, before it waits on leaving it. It is not enforced
/// in callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries.
    pub count: u64,
    /// Bytes: of the values themselves, and what callers say that these own ([`DeferOptions::heap_bytes`](crate::rcu::DeferOptions::heap_bytes)).
    pub bytes: u64,
}

impl Limits {
    const DEFAULT: Self = Self { count: 1 << 17, bytes: 64 << 20 };
}

impl Default for Limits {
    /// 131,072 entries, 64 MiB.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How many entries, and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

/// An amount that one thread changes. Others read it for statistics only.
#[derive(Debug)]
pub struct LocalCount(SharedAmount);

impl LocalCount {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(SharedAmount::new(0, 0))
        }
    }

    /// The bytes.
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

/// Whether a caller may be made to wait until less is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayWait {
    /// It is inside a section, or runs a callback.
    No,
    /// For [`THROTTLE_RETRY`]: it is inside a section of another domain, which the worker may be waiting for in the end; or
    /// it may be inside one of this domain.
    Briefly,
    /// For [`THROTTLE_TIMEOUT`].
    Yes,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Backlog {
    /// What waits, as far as it has been reported. Two's complement: what has run may be reported first.
    waiting: CachePadded<SharedAmount>,
    tallies: CachePadded<Tallies>,
    limits: SharedAmount,
    /// What had run when a caller above the limits last waited in vain.
    progress_at_timeout: AtomicU64,
}

/// An [`Amount`] that threads share. Relaxed, as everything here: bounds and statistics need no order.
#[derive(Debug)]
struct SharedAmount {
    count: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Tallies {
    /// By the worker, and by owners.
    run: AtomicU64,
    freed: AtomicU64,
    waits: AtomicU64,
    overruns: AtomicU64,
}

/// Counters of callbacks and retired values, part of [`Stats`](crate::rcu::Stats).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallbackStats {
    pub queued: u64,
    pub bytes: u64,
    pub oldest: Duration,
    pub run: u64,
    pub waits: u64,
    pub overruns: u64,
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

    fn add(&self, amount: Amount) {
        self.count.fetch_add(amount.count, Relaxed);
        self.bytes.fetch_add(amount.bytes, Relaxed);
    }

    fn sub(&self, amount: Amount) {
        self.count.fetch_sub(amount.count, Relaxed);
        self.bytes.fetch_sub(amount.bytes, Relaxed);
    }

    fn map(&self, f: impl Fn(u64) -> u64) -> Amount {
        Amount { count: f(self.count.load(Relaxed)), bytes: f(self.bytes.load(Relaxed)) }
    }
}

/// What a word in two's complement says, or 0 if that is negative.
pub fn at_least_zero(word: u64) -> u64 {
    u64::try_from(word.cast_signed()).unwrap_or(0)
}

impl Backlog {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                waiting: CachePadded::new(SharedAmount::new(0, 0)),
                tallies: CachePadded::new(Tallies {
                    run: AtomicU64::new(0),
                    freed: AtomicU64::new(0),
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

    /// An owner has appended as much.
    pub fn added(&self, amount: Amount) {
        self.waiting.add(amount);
    }

    /// An owner has run as much.
    pub fn freed(&self, amount: Amount) {
        self.waiting.sub(amount);
        self.tallies.freed.fetch_add(amount.count, Relaxed);
    }

    /// The worker has run as much.
    pub fn run(&self, amount: Amount) {
        self.tallies.run.fetch_add(amount.count, Relaxed);
        self.waiting.sub(amount);
    }

    /// Entries that have run.
    fn done(&self) -> u64 {
        self.tallies.run.load(Relaxed) + self.tallies.freed.load(Relaxed)
    }

    /// Whether so much waits that callers are to wait. Somewhat below the limits, as threads notice late.
    pub fn above_high_mark(&self) -> bool {
        let (waiting, mark) = (self.waiting.map(at_least_zero), self.limits.map(|limit| limit - limit / 8));
        waiting.count > mark.count || waiting.bytes > mark.bytes
    }

    /// Whether enough waits for another round.
    pub fn above_low_mark(&self) -> bool {
        let (waiting, mark) = (self.waiting.map(at_least_zero), self.limits.map(|limit| limit / 4));
        waiting.count >= mark.count.min(FLUSH_THRESHOLD) || waiting.bytes >= mark.bytes
    }

    /// A caller above the limits begins to wait: for how long at most.
    pub fn begin_wait(&self, wait: MayWait) -> Duration {
        self.tallies.waits.fetch_add(1, Relaxed);
        let is_brief = wait == MayWait::Briefly || self.progress_at_timeout.load(Relaxed) == self.done();
        if is_brief { THROTTLE_RETRY } else { THROTTLE_TIMEOUT }
    }

    /// It goes on: before its time was over or not, and below the limits or not.
    pub fn end_wait(&self, wait: MayWait, in_time: bool, is_below: bool) {
        if !in_time && wait == MayWait::Yes {
            self.progress_at_timeout.store(self.done(), Relaxed);
        }
        if !is_below {
            self.tallies.overruns.fetch_add(1, Relaxed);
        }
    }

    /// Counters of now, without what queues have not reported; the bytes in two's complement.
    pub fn tally(&self) -> CallbackStats {
        CallbackStats {
            bytes: self.waiting.bytes.load(Relaxed),
            run: self.done(),
            waits: self.tallies.waits.load(Relaxed),
            overruns: self.tallies.overruns.load(Relaxed),
            ..CallbackStats::default()
        }
    }

    /// Nothing waits: all that did is the parent's.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.waiting.store(Amount::default());
    }
}
