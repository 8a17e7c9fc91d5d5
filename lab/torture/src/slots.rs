//! Slots of readers and updaters, and the modes in which updaters wait.

/// Slots of readers, and of updaters.
pub(super) const READERS: usize = 8;
pub(super) const UPDATERS: usize = 16;

/// A way to wait for a grace period, or to defer something to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitMode {
    Synchronize,
    /// `GracePeriod::now()`, then `wait()`.
    Now,
    /// `GracePeriod::start()`, then `is_elapsed()`.
    Start,
    WaitTimeout,
    Await,
    AwaitSeveral,
    CompareCookies,
    Call,
    /// A callback, then `barrier()`.
    Barrier,
    Retire,
    RetireMany,
    /// Many callbacks at once.
    Burst,
}

use WaitMode::*;

/// All modes, and how often each is chosen.
#[rustfmt::skip]
pub(super) const WAIT_MODES: [(WaitMode, usize); 12] = [
    (Synchronize, 16), (Now, 8), (Start, 8), (WaitTimeout, 8), (Await, 8), (AwaitSeveral, 8), (CompareCookies, 8),
    (Call, 8), (Barrier, 4), (Retire, 8), (RetireMany, 4), (Burst, 1),
];

/// Modes in which the updater itself waits: the first ones.
pub(super) const BLOCKING_MODES: usize = 7;
