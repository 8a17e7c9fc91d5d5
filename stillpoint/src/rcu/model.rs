//! The modules of [`crate::rcu`] that the model checker sees.

pub mod alarm;
pub mod backlog;
pub mod block_on;
pub mod callbacks;
pub mod check;
pub mod driver;
pub mod engine;
pub mod entry;
pub mod events;
pub mod progress;
pub mod published;
pub mod queue;
pub mod reader;
pub mod registration;
pub mod registry;
pub mod reports;
pub mod stall;
pub mod threads;

/// In the model no time passes: nothing stalls.
pub mod stalled {
    use std::time::Duration;

    use super::reader::Reader;
    use super::stall::StalledReaders;

    pub fn awaited(
        _readers: impl Iterator<Item = &'static Reader>,
        _waited: Duration,
        _owes: [&'static str; 2],
    ) -> Option<StalledReaders> {
        None
    }
}
