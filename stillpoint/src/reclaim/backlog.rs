//! Back-pressure: how much waits in a domain, and when that is too much.
//!
//! Owners report what they have pushed, a block at a time. Threads that run callbacks report what they have run. What
//! they report are [amounts](super::amount).
//!
//! | above | |
//! |---|---|
//! | a quarter of a limit, or [`FLUSH_THRESHOLD`] callbacks | the worker does not pause between rounds ([`above_low_mark`](Backlog::above_low_mark)) |
//! | a limit | callers are throttled: they block until less waits ([`above_limit`](Backlog::above_limit)), unless [`Limits::blocks`] is `false`: then they go on and are counted |
//!
//! # Values of unknown size
//!
//! What a value owns on the heap is not always known. Such a value counts by itself only, unless a grace period has
//! taken longer than [`LONG_GP`]: then it counts as [`UNKNOWN_BYTES`] more. So the number of these values is bounded
//! behind a stalled reader, and a writer that is merely fast is not throttled.
//!
//! # How long callers are throttled
//!
//! A throttled caller returns after [`THROTTLE_TIMEOUT`], as the worker may be waiting for it. Until a callback has
//! run, the callers after it are *paced*: what the backlog has grown by since the last paced caller is paid for with
//! time, at [`PACE`]. Each caller waits until all payments are over, but no longer than [`THROTTLE_TIMEOUT`]; what it
//! leaves unpaid, the next ones pay. So the backlog grows slowly, however many callers there are, and two threads
//! that wait for each other both proceed.
//!
//! A callback counts until it has run. So a caller waits, no longer than that either, while the worker frees one
//! value that is larger than what the limit leaves.

// Not of `sync`: what these words decide, whether and how long a caller is throttled, does not exist in models.
use core::sync::atomic::{AtomicBool, AtomicU64 as Unmodelled};
use std::time::Duration;

use super::amount::Reported;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom, now};

/// Callbacks in the backlog above which the worker does not pause between rounds.
const FLUSH_THRESHOLD: u64 = 16_384;
/// How long a caller is throttled at most.
pub const THROTTLE_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };
/// How long a paced caller is throttled at least.
const MIN_PACED_WAIT: u64 = 1_000_000;
/// Nanoseconds for each byte by which the backlog grows when callers are paced: a mebibyte a second.
const PACE: u64 = 1_000_000_000 >> 20;
/// What a callback takes in its queue.
const CALLBACK_BYTES: u64 = 24;
/// Nanoseconds after which a grace period counts as long.
const LONG_GP: u64 = 100_000_000;
/// What callers are paced by for a value of unknown size: most are small.
const PACED_UNKNOWN_BYTES: u64 = 1 << 10;

/// High-water marks of what waits in a domain: callbacks and retired values.
///
/// Callers above them block, or go on ([`blocks`](Self::blocks)). The bound is not exact: each thread may add up to
/// 64 callbacks, or 64 KiB, or one value, before it notices; and what it adds inside a section, before it blocks on
/// leaving it. It is not enforced in callbacks. Entries that were removed from maps of `stillpoint-collections` count
/// when the thread retires a batch of them: it may have 16 KiB before.
///
/// # What a value counts for
///
/// | value | bytes |
/// |---|---|
/// | without a destructor (no drop glue) | its size |
/// | `String`, `Box<str>`; `Vec` and `Box<[_]>` of numbers (the [list](crate::rcu::known_heap_bytes)) | its size, and what it owns on the heap |
/// | retired with [`heap_bytes`](crate::rcu::DeferOptions::heap_bytes) | its size, and the heap bytes given |
/// | any other, and a callback that captures one | its size; *and 16 KiB more while a grace period has taken longer than 100 ms* |
///
/// The library cannot know what a value of the last kind owns. So behind a stalled reader it bounds their *number*: a
/// few thousand with the default limits. If they own more than 16 KiB, say how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Limits {
    /// Callbacks and retired values.
    pub count: u64,
    /// Bytes: of the values themselves, and of what they own.
    pub bytes: u64,
    /// Calls above a limit block, for ten seconds at most. If not, they never wait and are counted
    /// ([`Stats::limit_overruns`](crate::rcu::Stats::limit_overruns)): then the program decides what to do above a
    /// limit, by [`is_below_limit`](crate::Domain::is_below_limit) or [`below_limit`](crate::Domain::below_limit).
    pub blocks: bool,
}

impl Limits {
    const DEFAULT: Self = Self { count: 1 << 17, bytes: 64 << 20, blocks: true };
}

impl Default for Limits {
    /// 131,072 callbacks, 64 MiB; calls above them block.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whether, and for how long, a caller may be throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayWait {
    /// The caller is inside a section, or runs a callback.
    No,
    /// For the time of a paced caller: it may be inside a section of this domain, or is inside one of another domain,
    /// which the worker may be waiting for indirectly.
    Briefly,
    /// For [`THROTTLE_TIMEOUT`].
    Yes,
}

/// See the [module](self). Its atomics are Relaxed: bounds need no order, and statistics have fences.
#[derive(Debug)]
pub struct Backlog {
    pub reported: Reported,
    /// Statistics, part of [`Stats`](crate::rcu::Stats), which explains them.
    pub waits: AtomicU64,
    pub overruns: AtomicU64,
    limit_count: AtomicU64,
    limit_bytes: AtomicU64,
    blocks: AtomicBool,
    /// How many callbacks had run when a throttled caller last timed out.
    progress_at_timeout: AtomicU64,
    /// When the worker began to wait for the grace period that it waits for: nanoseconds of [`now`], or 0.
    waits_since: Unmodelled,
    /// The backlog that callers have paid for, or 0 if none was paced, and until when they pay.
    paid: Unmodelled,
    paid_until: Unmodelled,
}

impl Backlog {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                reported: Reported::new(),
                waits: AtomicU64::new(0),
                overruns: AtomicU64::new(0),
                limit_count: AtomicU64::new(Limits::DEFAULT.count),
                limit_bytes: AtomicU64::new(Limits::DEFAULT.bytes),
                blocks: AtomicBool::new(Limits::DEFAULT.blocks),
                progress_at_timeout: AtomicU64::new(u64::MAX),
                waits_since: Unmodelled::new(0),
                paid: Unmodelled::new(0),
                paid_until: Unmodelled::new(0),
            }
        }
    }

    pub fn set_limits(&self, limits: Limits) {
        self.limit_count.store(limits.count, Relaxed);
        self.limit_bytes.store(limits.bytes, Relaxed);
        self.blocks.store(limits.blocks, Relaxed);
    }

    pub fn limits(&self) -> Limits {
        Limits {
            count: self.limit_count.load(Relaxed),
            bytes: self.limit_bytes.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
        }
    }

    /// The worker begins to wait for a grace period.
    pub fn begin_gp_wait(&self, now: u64) {
        self.waits_since.store(now.max(1), Relaxed);
    }

    pub fn end_gp_wait(&self) {
        self.waits_since.store(0, Relaxed);
    }

    /// Returns how long the worker has waited for its grace period, in nanoseconds, if it waits for one.
    pub fn gp_wait(&self) -> Option<u64> {
        let since = self.waits_since.load(Relaxed);
        (since != 0).then(|| now().saturating_sub(since))
    }

    /// Returns `true` if the worker has waited for its grace period for long.
    fn waits_for_long(&self) -> bool {
        self.gp_wait().is_some_and(|waited| waited > LONG_GP)
    }

    /// Returns how many bytes too much wait; 0 if callers need not be throttled.
    fn excess(&self) -> u64 {
        let (waiting, limits) = (self.reported.waiting(), self.limits());
        let count = waiting.count.saturating_sub(limits.count);
        let mut bytes = waiting.bytes;
        let with_unknown = waiting.bytes_with_unknown();
        if with_unknown > limits.bytes && waiting.unknown != 0 && self.waits_for_long() {
            bytes = with_unknown;
        }
        bytes.saturating_sub(limits.bytes).saturating_add(count.saturating_mul(CALLBACK_BYTES))
    }

    /// Returns `true` if so much waits that callers must be throttled.
    pub fn above_limit(&self) -> bool {
        self.excess() != 0
    }

    /// Returns `true` if callers above a limit block.
    pub fn blocks(&self) -> bool {
        self.blocks.load(Relaxed)
    }

    /// Counts a caller that goes on above a limit.
    pub fn overrun(&self) {
        self.overruns.fetch_add(1, Relaxed);
    }

    /// Returns `true` if enough waits for another round at once.
    pub fn above_low_mark(&self) -> bool {
        let (waiting, limits) = (self.reported.waiting(), self.limits());
        // At least 1: an empty backlog is below the mark of any limit. (In models much always waits.)
        let least = u64::from(cfg!(not(loom)));
        let marks = [(limits.count / 4).min(FLUSH_THRESHOLD), limits.bytes / 4].map(|mark| mark.max(least));
        waiting.count >= marks[0] || waiting.bytes >= marks[1]
    }

    /// Counts a caller that is throttled, and returns for how long that may last.
    pub fn begin_wait(&self, wait: MayWait) -> Duration {
        self.waits.fetch_add(1, Relaxed);
        let no_progress = self.progress_at_timeout.load(Relaxed) == self.reported.has_run();
        match wait {
            MayWait::Yes if !no_progress => THROTTLE_TIMEOUT,
            _ => self.pace(),
        }
    }

    /// Returns the bytes that callers are paced by.
    fn paced(&self) -> u64 {
        let waiting = self.reported.waiting();
        let unknown = waiting.unknown.saturating_mul(PACED_UNKNOWN_BYTES);
        waiting.bytes.saturating_add(unknown).saturating_add(waiting.count.saturating_mul(CALLBACK_BYTES))
    }

    /// Pays for what the backlog has grown by since the last call, and returns the time until all payments are over.
    fn pace(&self) -> Duration {
        let (paced, now) = (self.paced(), now());
        // Of callers at the same time, one pays for each byte. The first one pays for none: the limit allows them.
        let paid = self.paid.fetch_max(paced, Relaxed);
        let growth = if paid == 0 { 0 } else { paced.saturating_sub(paid) };
        let pay = |until: u64| until.max(now).saturating_add(growth.saturating_mul(PACE));
        let before = self.paid_until.fetch_update(Relaxed, Relaxed, |until| Some(pay(until)));
        let left = pay(before.unwrap_or_else(|until| until)) - now;
        Duration::from_nanos(left.max(MIN_PACED_WAIT)).min(THROTTLE_TIMEOUT)
    }

    /// A throttled caller returns, `in_time` or because its time is up. `is_below`: less than the limit waits.
    pub fn end_wait(&self, wait: MayWait, in_time: bool, is_below: bool) {
        if !in_time && wait == MayWait::Yes {
            self.progress_at_timeout.store(self.reported.has_run(), Relaxed);
            self.paid.fetch_max(self.paced(), Relaxed);
        }
        if is_below {
            self.forget_debt();
        } else {
            self.overrun();
        }
    }

    /// Forgets what waits, which the parent runs, and what callers have paid for it.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.reported.forget_waiting();
        self.end_gp_wait();
        self.progress_at_timeout.store(u64::MAX, Relaxed);
        self.forget_debt();
    }

    fn forget_debt(&self) {
        self.paid.store(0, Relaxed);
        self.paid_until.store(0, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::reclaim::amount::Amount;

    #[test]
    fn paced_callers_keep_the_debt_of_those_that_were_let_go() {
        const SIZE: u64 = 4 << 20;
        let backlog = Backlog::new();
        let push = || backlog.reported.push(Amount { count: 1, unknown: 0, bytes: SIZE });
        backlog.set_limits(Limits { bytes: SIZE, ..Limits::default() });
        (0..3).for_each(|_| push());
        // The first one pays for nothing.
        assert_eq!(backlog.pace(), Duration::from_nanos(MIN_PACED_WAIT));
        let begin = now();
        for _ in 0..8 {
            push();
            assert_eq!(backlog.pace(), THROTTLE_TIMEOUT);
        }
        let debt = backlog.paid_until.load(Relaxed) - begin;
        assert!(debt >= 8 * SIZE * PACE, "32 mebibytes take {debt} ns");
        // Below the limit nothing is owed.
        backlog.end_wait(MayWait::Briefly, true, true);
        assert_eq!(backlog.pace(), Duration::from_nanos(MIN_PACED_WAIT));
    }

    #[test]
    fn child_of_a_fork_owes_nothing() {
        const SIZE: u64 = 4 << 20;
        let backlog = Backlog::new();
        backlog.set_limits(Limits { bytes: SIZE, ..Limits::default() });
        for _ in 0..8 {
            backlog.reported.push(Amount { count: 1, unknown: 0, bytes: SIZE });
            _ = backlog.pace();
        }
        backlog.end_wait(MayWait::Yes, false, false);
        backlog.reset_in_child();
        backlog.reported.push(Amount { count: 1, unknown: 0, bytes: 2 * SIZE });
        assert_eq!(backlog.begin_wait(MayWait::Yes), THROTTLE_TIMEOUT, "callbacks may run yet");
        assert_eq!(backlog.pace(), Duration::from_nanos(MIN_PACED_WAIT));
    }

    #[test]
    fn empty_backlog_is_below_the_low_mark_of_any_limit() {
        for limit in 0..8 {
            let backlog = Backlog::new();
            backlog.set_limits(Limits { count: limit, bytes: limit, blocks: true });
            assert!(!backlog.above_low_mark(), "{limit}");
        }
    }

    #[test]
    fn low_mark_is_a_quarter_of_either_limit() {
        for part in [Amount { count: 25, unknown: 0, bytes: 0 }, Amount { count: 0, unknown: 0, bytes: 25 }] {
            let backlog = Backlog::new();
            backlog.set_limits(Limits { count: 101, bytes: 103, ..Limits::default() });
            backlog.reported.push(part);
            assert!(backlog.above_low_mark(), "{part:?}");
            backlog.reported.run(part);
            assert!(!backlog.above_low_mark(), "{part:?}");
        }
    }
}
