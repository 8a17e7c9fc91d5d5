//! The mechanisms and constants of the lock, as a type: the lock that ships pays for no switch.

use super::events::Event;

/// Nanoseconds that a thread spins before it queues, and the head before it sleeps.
pub const SPIN_NS: u32 = 6_000;
/// Locks that a thread takes past queues between two looks at the clock.
pub const LOOK_EVERY: u32 = if cfg!(loom) { 1 } else { 16 };

/// What a lock does, and for how long. The defaults are the lock that ships; others are for measuring, and for models.
pub trait Policy: Send + Sync + 'static {
    /// Who comes may take a free lock past the queue.
    const STEAL: bool = true;
    /// The lock is kept for a head that has waited for long.
    const RESERVE: bool = true;
    /// A sleeping waiter that becomes the head sleeps on until the lock is released.
    const DEFER: bool = true;
    /// A lock that is kept for a head which does not come is taken by somebody else.
    const BYPASS: bool = true;
    /// Nanoseconds between two looks at the lock of a thread that spins, at most.
    const BACKOFF_NS: u32 = 4_000;
    /// Nanoseconds of waiting, as the head, after which the head has the lock kept for it, if it is awake.
    const QUANTUM_NS: u64 = 150_000;
    /// Nanoseconds of waiting, as the head, after which a thread that takes the lock past it does so.
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
