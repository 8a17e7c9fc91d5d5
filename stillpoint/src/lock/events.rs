//! What happens in locks, counted.
//!
//! Counting is part of a lock's [policy](super::policy): one that does not count has no code for it. There is a set of counters
//! for each of some processors, so that counting does not make locks slower than they are.

#[cfg(any(feature = "lock-events", feature = "lab"))]
pub use counters::{Events, add, read};

/// Something that happens in a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// The lock was taken past a queue.
    Steal,
    /// A thread did not get the lock at once.
    SlowPath,
    /// A waiter that was not the first went to sleep.
    WaitNode,
    /// The head went to sleep.
    WaitHead,
    /// A sleeping head was woken.
    Kick,
    /// The head was woken and had to wait on.
    Spurious,
    /// The lock was kept for the head.
    Pend,
    /// A lock that was kept for a head was taken all the same.
    Bypass,
    /// A thread waited without a place in the queue.
    Outside,
    /// Nanoseconds that the system calls took by which heads were woken.
    KickNs,
    /// Nanoseconds from there until they ran.
    WakeNs,
}

#[cfg(feature = "lab")]
pub use counters::reset;

#[cfg(any(feature = "lock-events", feature = "lab"))]
mod counters {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use crossbeam_utils::CachePadded;

    use super::Event;
    use crate::percpu::cpu;

    const EVENTS: usize = Event::WakeNs as usize + 1;
    const SETS: usize = 32;

    static COUNTERS: [CachePadded<[AtomicU64; EVENTS]>; SETS] =
        [const { CachePadded::new([const { AtomicU64::new(0) }; EVENTS]) }; SETS];

    /// Counts `event`, as often as `by` says.
    #[inline]
    pub fn add(event: Event, by: u64) {
        // Relaxed, as everywhere here: the counts order nothing.
        COUNTERS[cpu() % SETS][event as usize].fetch_add(by, Relaxed);
    }

    fn sum(event: Event) -> u64 {
        COUNTERS.iter().map(|set| set[event as usize].load(Relaxed)).sum()
    }

    /// Counts from 0 again.
    #[cfg(feature = "lab")]
    pub fn reset() {
        COUNTERS.iter().flat_map(|set| set.iter()).for_each(|counter| counter.store(0, Relaxed));
    }

    /// What has happened so far.
    pub fn read() -> Events {
        let kicks = sum(Event::Kick).max(1);
        Events {
            steal: sum(Event::Steal),
            slowpath: sum(Event::SlowPath),
            wait_node: sum(Event::WaitNode),
            wait_head: sum(Event::WaitHead),
            kick: sum(Event::Kick),
            spurious: sum(Event::Spurious),
            pend: sum(Event::Pend),
            bypass: sum(Event::Bypass),
            outside: sum(Event::Outside),
            latency_kick_ns: sum(Event::KickNs) / kicks,
            latency_wake_ns: sum(Event::WakeNs) / kicks,
        }
    }

    /// What has happened in all locks of the process since it started. The names are those of the Linux kernel's `lock_events`
    /// where they mean the same.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Events {
        /// The lock was taken past a queue.
        pub steal: u64,
        /// A thread did not get the lock at once.
        pub slowpath: u64,
        /// A waiter that was not the first went to sleep.
        pub wait_node: u64,
        /// The first in a queue went to sleep.
        pub wait_head: u64,
        /// The first in a queue was woken.
        pub kick: u64,
        /// It was woken and had to wait on.
        pub spurious: u64,
        /// The lock was kept for the first in the queue.
        pub pend: u64,
        /// A lock that was kept for the first in the queue, which did not come, was taken all the same.
        pub bypass: u64,
        /// A thread waited without a place in the queue.
        pub outside: u64,
        /// Mean nanoseconds that waking took.
        pub latency_kick_ns: u64,
        /// Mean nanoseconds from waking until the thread ran.
        pub latency_wake_ns: u64,
    }
}
