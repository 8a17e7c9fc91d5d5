//! The mechanisms and constants of the lock, as a type: disabled mechanisms have no code.

/// Nanoseconds that a thread spins before it queues, and the head before it parks.
pub const SPIN_NS: u32 = 6_000;
/// Pauses of a thread that spins, before they double.
pub const SHORT_PAUSES: u32 = 3;
/// How often a thread that waits for a reader-writer lock's gate, or its readers, yields its CPU before it sleeps.
pub const GATE_YIELDS: u32 = if cfg!(loom) { 0 } else { 8 };
/// Nanoseconds after a wait for a condition variable in which a thread does not yield its CPU because it contends.
pub const SLEEPER_NS: u64 = 1_000_000;
/// A head that was bypassed gets no reservation for that many times `BYPASS_NS`.
pub const BYPASS_APART: u64 = 16;
/// Steals of a thread per check of the clock.
pub const CLOCK_CHECK_EVERY: u32 = if cfg!(loom) { 1 } else { 16 };

/// The mechanisms and constants of a lock. The defaults are those of [`DefaultPolicy`]; measurements and models
/// change some.
pub trait Policy: Send + Sync + 'static {
    /// Threads may take a free lock past the queue.
    const STEALING: bool = true;
    /// The lock is reserved for a head that has waited for a quantum.
    const RESERVATION: bool = true;
    /// Threads may take a lock that is reserved for a stalled head.
    const BYPASS: bool = true;
    /// Most nanoseconds between two loads of the word by a thread that spins.
    const BACKOFF_NS: u32 = 1_000;
    /// How often a thread that found the lock reserved, or has spun without success, yields its CPU before it queues.
    const YIELDS: u32 = if cfg!(loom) { 1 } else { 8 };
    /// Nanoseconds for which a thread contends for the same lock before it yields its CPU.
    const YIELD_AFTER_NS: u64 = 50_000;
    /// Nanoseconds for which the head waits before it reserves the lock itself.
    const QUANTUM_NS: u64 = 200_000;
    /// Nanoseconds for which the head waits before a stealing thread reserves the lock for it.
    const RESERVE_NS: u64 = 250_000;
    /// Nanoseconds for which a lock stays reserved for a head before the head counts as stalled.
    const BYPASS_NS: u64 = 50_000_000;

    /// Reads of a reader-writer lock in word mode, after a writer, until readers count themselves on their CPUs.
    const WORD_READS: u32 = 1024;
    /// Of the writers that could make a reader-writer lock return to word mode, one in so many does, at random. 0:
    /// none.
    const RETURNS: u32 = 32;
    /// One in so many reads of a reader-writer lock by the slow path is a sample, at random. 0: none is.
    const SAMPLE: u32 = 16;
    /// Reads, after a writer, until the fast path is open again. `None`: about as many as cost as much as a heavy
    /// fence, which is measured.
    const OPEN_AFTER: Option<u32> = None;

    /// Tells a model that the head parks.
    #[inline(always)]
    fn head_parks() {}
}

/// The policy of [`RawMutex`](super::RawMutex).
#[derive(Debug)]
pub struct DefaultPolicy;

impl Policy for DefaultPolicy {}
