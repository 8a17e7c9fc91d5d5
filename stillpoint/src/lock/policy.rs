//! The mechanisms and constants of the lock, as a type: the lock that ships pays for no switch.

use super::events::Event;

/// Nanoseconds that a thread spins before it queues, and the head before it sleeps.
pub const SPIN_NS: u32 = 6_000;
/// Nanoseconds that a thread spins for a lock that is kept for a head on another processor.
pub const KEPT_NS: u32 = 12_000;
/// Nanoseconds since its own wait in the queue after which a thread ends quanta of heads on other processors, too.
pub const STAY_NS: u64 = 1_500_000;
/// Locks that a thread takes past queues between two looks at the clock.
pub const LOOK_EVERY: u32 = if cfg!(loom) { 1 } else { 16 };

/// What a lock does, and for how long. The defaults are the lock that ships; others are for measuring, and for models.
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
    /// Nanoseconds between two looks at the lock of a thread that spins, at most.
    const BACKOFF_NS: u32 = 4_000;
    /// Nanoseconds of waiting, as the head, after which somebody on its processor, or who has stayed for long, queues.
    const QUANTUM_NS: u64 = 150_000;
    /// Nanoseconds of waiting, as the head, after which the lock is kept for it.
    const RESERVE_NS: u64 = 200_000;
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
