//! Readers, of each flavour: what they do, where they are registered, and how a grace period waits for them.
//!
//! [`threads`] has the readers that belong to threads: those of [`crate::rcu`], and, by the protocol in [`qsbr`], those of
//! [`crate::qsbr`]. [`srcu`] counts the readers of [`crate::srcu`].

pub mod qsbr;
pub mod reader;
pub mod registration;
pub mod registry;
pub mod srcu;
#[cfg(not(loom))]
pub mod stalled;
pub mod threads;

/// In a model no time passes: nothing stalls.
#[cfg(loom)]
pub mod stalled {
    use std::time::Duration;

    use super::reader::Reader;
    use crate::grace_period::stall::StalledReaders;

    pub fn awaited(
        _readers: impl Iterator<Item = &'static Reader>,
        _waited: Duration,
        _owes: [&'static str; 2],
    ) -> Option<StalledReaders> {
        None
    }
}
