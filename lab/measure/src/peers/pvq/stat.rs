//! Statistics, under the names of the posts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use harness::{Better, Metric};

/// What is counted.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Stat {
    /// Acquisitions by the pending bit.
    PendingLock,
    /// Waits with the pending bit that took too long.
    PendingFail,
    /// Halts of nodes behind the head.
    WaitNode,
    /// Halts of heads.
    WaitHead,
    /// Nodes that stopped spinning because the previous one had halted.
    WaitEarly,
    /// Kicks by a thread that took the lock.
    LockKick,
    /// Kicks of the head by a release.
    UnlockKick,
    /// Kicks of nodes behind the head by a release.
    KickAhead,
    /// Halts that ended too early.
    Spurious,
    /// Entries of the hash table that insertions found in use.
    HashHops,
    /// Nanoseconds of kicks.
    KickLatency,
    /// Nanoseconds from kicks until the kicked thread ran.
    WakeLatency,
    /// Halts that ended by a kick.
    Woken,
}

const STATS: usize = Stat::Woken as usize + 1;

/// Counts per second, and mean latencies, in the order of [`Stat`].
pub const METRICS: [Metric; STATS - 1] = [
    Metric::count("pending_lock_per_s", Better::Higher),
    Metric::count("pending_fail_per_s", Better::Lower),
    Metric::count("wait_node_per_s", Better::Lower),
    Metric::count("wait_head_per_s", Better::Lower),
    Metric::count("wait_early_per_s", Better::Lower),
    Metric::count("lock_kick_per_s", Better::Lower),
    Metric::count("unlock_kick_per_s", Better::Lower),
    Metric::count("kick_ahead_per_s", Better::Lower),
    Metric::count("spurious_per_s", Better::Lower),
    Metric::count("hash_hops_per_s", Better::Lower),
    Metric::nanoseconds("latency_kick_ns"),
    Metric::nanoseconds("latency_wake_ns"),
];

static COUNTS: [AtomicU64; STATS] = [const { AtomicU64::new(0) }; STATS];

/// Adds `by` to a count.
pub(super) fn add(stat: Stat, by: u64) {
    // Relaxed, here and below: statistics only.
    COUNTS[stat as usize].fetch_add(by, Relaxed);
}

/// Returns the time in nanoseconds, more than 0.
pub(super) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// Sets all counts to 0.
pub fn reset() {
    COUNTS.iter().for_each(|count| count.store(0, Relaxed));
}

/// Returns the values of [`METRICS`], after `seconds` since the [`reset`].
pub fn read(seconds: f64) -> [f64; STATS - 1] {
    let get = |stat: Stat| COUNTS[stat as usize].load(Relaxed) as f64;
    let kicks = get(Stat::LockKick) + get(Stat::UnlockKick) + get(Stat::KickAhead);
    std::array::from_fn(|index| {
        let count = COUNTS[index].load(Relaxed) as f64;
        match index {
            _ if index == Stat::KickLatency as usize => count / kicks,
            _ if index == Stat::WakeLatency as usize => count / get(Stat::Woken),
            _ => count / seconds,
        }
    })
}
