//! Events of grace periods: probes, and events for subscribers of `tracing`. Without the features `usdt` and `tracing` all
//! of it is empty.
//!
//! A subscriber is code of the program: it may take locks, defer, or panic. So a leader emits the event when the grace
//! period has ended and no thread waits for the leader any more. Grace periods that the subscriber itself leads make no
//! events.

use std::time::{Duration, Instant};

use crate::probes::DomainId;

/// A grace period in progress.
#[derive(Debug)]
pub struct GpSpan {
    /// When it began, if a subscriber is interested.
    start: Option<Instant>,
    probes: probes::Span,
}

/// A grace period that has ended, for an event.
#[derive(Debug)]
pub struct EndedSpan {
    number: u64,
    was_held_up: bool,
    took: Duration,
}

impl GpSpan {
    /// Begins a grace period of the `domain` with this `name`.
    #[inline]
    pub fn start(domain: DomainId, name: fn() -> &'static str, number: impl Fn() -> u64) -> Self {
        let probes = probes::Span::start(domain, name, number);
        Self { start: subscriber::is_interested().then(Instant::now), probes }
    }

    /// Ends the grace period `number`, which readers held up or did not.
    #[inline]
    pub fn end(mut self, number: impl FnOnce() -> u64, was_held_up: bool) -> Option<EndedSpan> {
        self.probes.completed(was_held_up);
        self.start.map(|start| EndedSpan { number: number(), was_held_up, took: start.elapsed() })
    }

    /// Ends the attempt, as a reader blocks the grace period.
    #[inline]
    pub fn give_up(mut self) {
        self.probes.given_up();
    }
}

/// Emits the event of a grace period, if there is one.
#[inline]
pub fn emit(ended: Option<EndedSpan>, domain: fn() -> &'static str) {
    if let Some(EndedSpan { number, was_held_up, took }) = ended {
        subscriber::emit(domain(), number, was_held_up, took);
    }
}

#[cfg(feature = "usdt")]
mod probes {
    use crate::probes::{DomainId, probe};

    /// Fires a probe at the beginning, and one at the end, also if the leader panics.
    #[derive(Debug)]
    pub struct Span {
        domain: DomainId,
        number: u64,
        outcome: Outcome,
    }

    /// The last argument of `grace_period_end`.
    #[derive(Debug, Clone, Copy)]
    enum Outcome {
        NotHeldUp = 0,
        HeldUp = 1,
        GivenUp = 2,
        Denied = 3,
    }

    impl Span {
        pub fn start(domain: DomainId, name: fn() -> &'static str, number: impl Fn() -> u64) -> Self {
            let (number, name) = (number(), name());
            probe!(grace_period_start, domain.address(), number, name.as_ptr(), name.len());
            Self { domain, number, outcome: Outcome::Denied }
        }

        pub fn completed(&mut self, was_held_up: bool) {
            self.outcome = if was_held_up { Outcome::HeldUp } else { Outcome::NotHeldUp };
        }

        pub fn given_up(&mut self) {
            self.outcome = Outcome::GivenUp;
        }
    }

    impl Drop for Span {
        fn drop(&mut self) {
            probe!(grace_period_end, self.domain.address(), self.number, self.outcome as u32);
        }
    }
}

#[cfg(not(feature = "usdt"))]
mod probes {
    use crate::probes::DomainId;

    #[derive(Debug)]
    pub struct Span;

    impl Span {
        #[inline(always)]
        pub fn start(_domain: DomainId, _name: fn() -> &'static str, _number: impl Fn() -> u64) -> Self {
            Self
        }

        #[inline(always)]
        pub fn completed(&mut self, _was_held_up: bool) {}

        #[inline(always)]
        pub fn given_up(&mut self) {}
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
