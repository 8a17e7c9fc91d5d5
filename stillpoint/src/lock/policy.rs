//! The mechanisms and constants of the lock, as a type: the lock that ships pays for no switch.

use super::events::Event;

/// What a lock does, and for how long. The defaults are the lock that ships; others are for measuring.
pub trait Policy: Send + Sync + 'static {
    /// Who comes may take a free lock past the queue.
    const STEAL: bool = true;
    /// Who releases when the head has waited for a quantum queues at its next contention.
    const LEAD: bool = true;
    /// The lock is kept for a head that has waited for long.
    const RESERVE: bool = true;
    /// A sleeping waiter that becomes the head sleeps on until the lock is released.
    const DEFER: bool = true;
    /// A lock that is kept for a head which does not come is taken by somebody else.
    const BYPASS: bool = true;
    /// Threads go by the processor on which the head went to wait.
    const HINT: bool = true;
    /// Nanoseconds that a thread spins before it queues.
    const SPIN_NS: u32 = 6_000;
    /// Nanoseconds that the head spins before it sleeps.
    const HEAD_NS: u32 = 6_000;
    /// Nanoseconds between two looks at the lock of a thread that takes its time.
    const GAP_NS: u32 = 4_000;
    /// Threads that lose races take their time.
    const GAP: bool = true;
    /// A lock that rests most of the time is not kept for the head so soon.
    const DEMAND: bool = true;
    /// Nanoseconds that a thread spins for a lock that is kept for a head on another processor.
    const KEPT_NS: u32 = 12_000;
    /// Nanoseconds of waiting, as the head, after which somebody on its processor, or who has stayed for long, queues.
    const QUANTUM_NS: u64 = 150_000;
    /// Nanoseconds since its own wait in the queue after which a thread ends quanta of heads on other processors, too.
    const STAY_NS: u64 = 1_500_000;
    /// Nanoseconds of waiting, as the head, after which the lock is kept for it.
    const RESERVE_NS: u64 = 200_000;
    /// The same for a lock that rests most of the time.
    const RESERVE_IDLE_NS: u64 = 1_000_000;
    /// Contended releases of a thread between two looks at the clock.
    const LOOK_EVERY: u32 = 16;
    /// Nanoseconds that a lock is kept for a head that does not come.
    const BYPASS_NS: u64 = 50_000_000;

    /// Events are [counted](Self::count): what takes time only for that is done.
    const COUNTS: bool = false;

    /// Something has happened, `by` times.
    #[inline(always)]
    fn add(_event: Event, _by: u64) {}

    /// Something has happened.
    #[inline(always)]
    fn count(event: Event) {
        Self::add(event, 1);
    }
}

/// The lock that ships.
#[derive(Debug)]
pub struct Shipped;

impl Policy for Shipped {
    #[cfg(feature = "lock-events")]
    const COUNTS: bool = true;

    #[cfg(feature = "lock-events")]
    #[inline]
    fn add(event: Event, by: u64) {
        super::events::add(event, by);
    }
}
