//! Events in locks: probes and counters.
//!
//! Counting is part of a lock's [policy](super::policy): a policy that does not count has no code for it. There are
//! several sets of counters, chosen by CPU, so that counting does not slow down the locks.

#[cfg(any(feature = "lock-events", feature = "lab"))]
pub use counters::{Events, add, read};

use crate::probes::probe;

/// What a thread waits for, in probes.
#[derive(Debug, Clone, Copy)]
pub enum Wait {
    /// For a mutex; or for a reader-writer lock, to write or for an upgradable read, behind others that do.
    Exclusive = 0,
    /// For a writer, to read.
    Writer = 1,
    /// For readers, to write.
    Readers = 2,
}

/// A thread begins to wait for the lock at this address.
#[inline(always)]
pub fn contended(lock: usize, wait: Wait) {
    probe!(lock_contended, lock, wait as u32);
}

/// The wait ends: the thread holds the lock, for which others `queue` or not, or its time is over.
#[inline(always)]
pub fn wait_ends(lock: usize, wait: Wait, acquired: bool, queue: impl FnOnce() -> bool) {
    if acquired {
        probe!(lock_acquired, lock, wait as u32, u32::from(queue()));
    } else {
        probe!(lock_timeout, lock, wait as u32);
    }
}

/// The thread releases the lock, and others queue for it.
#[inline(always)]
pub fn handover(lock: usize) {
    probe!(lock_handover, lock);
}

/// A counted event in a lock. The fields of `Events` say what each means.
#[allow(missing_docs, reason = "said there")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    Steal,
    LockSlowpath,
    Yield,
    WaitNode,
    WaitHead,
    KickUnlock,
    SpuriousWakeup,
    Reserve,
    Bypass,
    NoNode,
    WriterFence,
    WriterWakeup,
    LatencyKickNs,
    LatencyWakeNs,
}

#[cfg(feature = "lab")]
pub use counters::reset;

#[cfg(any(feature = "lock-events", feature = "lab"))]
mod counters {
    use core::fmt;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use crossbeam_utils::CachePadded;

    use super::Event;
    use crate::percpu::cpu;

    const EVENTS: usize = Event::LatencyWakeNs as usize + 1;
    const SETS: usize = 32;

    static COUNTERS: [CachePadded<[AtomicU64; EVENTS]>; SETS] =
        [const { CachePadded::new([const { AtomicU64::new(0) }; EVENTS]) }; SETS];

    /// Adds `by` to the count of `event`.
    #[inline]
    pub fn add(event: Event, by: u64) {
        // Relaxed, here and below: statistics only.
        COUNTERS[cpu() % SETS][event as usize].fetch_add(by, Relaxed);
    }

    fn sum(event: Event) -> u64 {
        COUNTERS.iter().map(|set| set[event as usize].load(Relaxed)).sum()
    }

    /// Sets all counts to 0.
    #[cfg(feature = "lab")]
    pub fn reset() {
        COUNTERS.iter().flat_map(|set| set.iter()).for_each(|counter| counter.store(0, Relaxed));
    }

    /// Returns the counts so far.
    pub fn read() -> Events {
        let kicks = sum(Event::KickUnlock).max(1);
        Events {
            steal: sum(Event::Steal),
            lock_slowpath: sum(Event::LockSlowpath),
            yields: sum(Event::Yield),
            wait_node: sum(Event::WaitNode),
            wait_head: sum(Event::WaitHead),
            kick_unlock: sum(Event::KickUnlock),
            spurious_wakeup: sum(Event::SpuriousWakeup),
            reserve: sum(Event::Reserve),
            bypass: sum(Event::Bypass),
            no_node: sum(Event::NoNode),
            writer_fence: sum(Event::WriterFence),
            writer_wakeup: sum(Event::WriterWakeup),
            latency_kick_ns: sum(Event::LatencyKickNs) / kicks,
            latency_wake_ns: sum(Event::LatencyWakeNs) / kicks,
        }
    }

    /// Counts of events in all locks of the process since it started. The names are those of the Linux kernel's
    /// `lock_events` where they mean the same.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize))]
    #[non_exhaustive]
    pub struct Events {
        /// Acquisitions past a queue.
        pub steal: u64,
        /// Acquisitions that did not succeed at once.
        pub lock_slowpath: u64,
        /// Yields of the CPU by threads that contended.
        pub yields: u64,
        /// Waiters that parked behind the head of a queue.
        pub wait_node: u64,
        /// Heads that parked.
        pub wait_head: u64,
        /// Parked heads that a release woke.
        pub kick_unlock: u64,
        /// Heads that were woken and found the lock taken.
        pub spurious_wakeup: u64,
        /// Reservations of a lock for its head.
        pub reserve: u64,
        /// Acquisitions of a lock that was reserved for a stalled head.
        pub bypass: u64,
        /// Waits without a place in the queue.
        pub no_node: u64,
        /// Heavy fences of writers that found the gate of a reader-writer lock open, or slept for its readers.
        pub writer_fence: u64,
        /// Writers that a reader woke.
        pub writer_wakeup: u64,
        /// Mean nanoseconds of the system calls that woke heads.
        pub latency_kick_ns: u64,
        /// Mean nanoseconds from the call until the head ran.
        pub latency_wake_ns: u64,
    }

    impl fmt::Display for Events {
        /// One line.
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(
                f,
                "{} slow paths, {} yields, {} steals, {} reservations, {} bypasses; {} waiters and {} heads parked, \
                 {} without a node; {} kicks ({} ns), {} spurious wake-ups",
                self.lock_slowpath,
                self.yields,
                self.steal,
                self.reserve,
                self.bypass,
                self.wait_node,
                self.wait_head,
                self.no_node,
                self.kick_unlock,
                self.latency_kick_ns,
                self.spurious_wakeup,
            )
        }
    }
}
