//! Slots of readers and updaters, and the modes in which updaters wait.

/// Slots of readers, and of updaters.
pub(super) const READERS: usize = 8;
pub(super) const UPDATERS: usize = 16;

/// Returns the name of a slot: readers have the first ones.
pub(super) fn slot_name(slot: usize) -> String {
    if slot < READERS { format!("reader {slot}") } else { format!("updater {}", slot - READERS) }
}

/// A way to wait for a grace period, or to defer something to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitMode {
    Synchronize,
    Now,
    Start,
    Timeout,
    Await,
    AwaitSeveral,
    Cookies,
    Call,
    Barrier,
    Retire,
    RetireMany,
    Burst,
}

/// The modes with their names, and how often each is chosen.
pub(super) const WAIT_MODES: [(&str, WaitMode, usize); 12] = [
    ("synchronize()", WaitMode::Synchronize, 16),
    ("now(), wait()", WaitMode::Now, 8),
    ("start(), is_elapsed()", WaitMode::Start, 8),
    ("wait_timeout()", WaitMode::Timeout, 8),
    (".await", WaitMode::Await, 8),
    ("several .await", WaitMode::AwaitSeveral, 8),
    ("cookies compared", WaitMode::Cookies, 8),
    ("call()", WaitMode::Call, 8),
    ("call(), barrier()", WaitMode::Barrier, 4),
    ("retire()", WaitMode::Retire, 8),
    ("many retire()", WaitMode::RetireMany, 4),
    ("burst of call()", WaitMode::Burst, 1),
];

/// Modes in which the updater itself waits: the first ones.
pub(super) const BLOCKING_MODES: usize = 7;
