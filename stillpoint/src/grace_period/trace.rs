//! Events of grace periods for subscribers of `tracing`. Without the feature `tracing` all of it is empty.
//!
//! A subscriber is code of the program: it may take locks, defer, or panic. So a leader emits the event when the grace
//! period has ended and no thread waits for the leader any more. Grace periods that the subscriber itself leads make no
//! events.

use std::time::{Duration, Instant};

/// A grace period in progress: when it began, if a subscriber is interested.
#[derive(Debug)]
pub struct GpSpan(Option<Instant>);

/// A grace period that has ended, for an event.
#[derive(Debug)]
pub struct EndedSpan {
    number: u64,
    was_held_up: bool,
    took: Duration,
}

impl GpSpan {
    #[inline]
    pub fn start() -> Self {
        Self(subscriber::is_interested().then(Instant::now))
    }

    /// Ends the grace period `number`, which readers held up or did not.
    #[inline]
    pub fn end(self, number: impl FnOnce() -> u64, was_held_up: bool) -> Option<EndedSpan> {
        self.0.map(|start| EndedSpan { number: number(), was_held_up, took: start.elapsed() })
    }
}

/// Emits the event of a grace period, if there is one.
#[inline]
pub fn emit(ended: Option<EndedSpan>, domain: fn() -> &'static str) {
    if let Some(EndedSpan { number, was_held_up, took }) = ended {
        subscriber::emit(domain(), number, was_held_up, took);
    }
}

#[cfg(feature = "tracing")]
mod subscriber {
    use core::cell::Cell;
    use std::time::Duration;

    use tracing::level_filters::LevelFilter;
    use tracing::{Level, debug, trace};

    use crate::grace_period::stall::run_user_code;

    thread_local! {
        /// This thread is in a subscriber, called by [`emit`].
        static EMITTING: Cell<bool> = const { Cell::new(false) };
    }

    pub fn is_interested() -> bool {
        Level::DEBUG <= LevelFilter::current() && !EMITTING.get()
    }

    pub fn emit(domain: &'static str, number: u64, was_held_up: bool, took: Duration) {
        run_user_code(&EMITTING, || {
            if was_held_up {
                debug!(target: "stillpoint", domain, number, ?took, "grace period, held up by readers");
            } else {
                trace!(target: "stillpoint", domain, number, ?took, "grace period");
            }
        });
    }
}

#[cfg(not(feature = "tracing"))]
mod subscriber {
    use std::time::Duration;

    #[inline(always)]
    pub fn is_interested() -> bool {
        false
    }

    pub fn emit(_domain: &'static str, _number: u64, _was_held_up: bool, _took: Duration) {}
}
