//! The modules of [`crate::rcu`] that the model checker sees.

pub mod alarm;
pub mod block_on;
pub mod callbacks;
pub mod check;
pub mod engine;
pub mod entry;
pub mod events;
pub mod poller;
pub mod published;
pub mod queue;
pub mod reader;
pub mod registration;
pub mod registry;
pub mod reports;
pub mod threads;

/// In the model no time passes: nothing stalls.
pub mod stall {
    use std::panic::Location;
    use std::time::Duration;

    use super::reader::Reader;

    /// There is none.
    #[derive(Debug)]
    pub enum Stall {}

    impl Stall {
        pub fn report(&self) {
            match *self {}
        }
    }

    #[derive(Debug)]
    pub struct Watch;

    impl Watch {
        pub fn begin() -> Self {
            Self
        }

        pub fn waited(&self) -> Duration {
            Duration::ZERO
        }

        pub fn patience(&self) -> Duration {
            Duration::MAX
        }

        pub fn stall(
            &mut self,
            _waited: Duration,
            _domain: fn() -> &'static str,
            _grace_period: u64,
            _blockers: impl FnOnce(Duration) -> Option<Blockers>,
        ) -> Option<Stall> {
            None
        }
    }

    /// Nobody asks.
    #[derive(Debug)]
    pub enum Blockers {}

    pub fn open(_: u64, _: &'static Location<'static>, _: bool) -> Option<Blockers> {
        None
    }

    pub fn awaited(
        _readers: impl Iterator<Item = &'static Reader>,
        _waited: Duration,
        _owes: &'static str,
    ) -> Option<Blockers> {
        None
    }
}
