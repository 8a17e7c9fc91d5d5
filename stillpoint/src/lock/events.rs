//! What happens in locks, counted.

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
    /// Somebody was told to queue, as the head had waited for a quantum.
    Lead,
    /// A lock that was kept for a head was taken all the same.
    Bypass,
    /// A thread waited without a place in the queue.
    Outside,
}
