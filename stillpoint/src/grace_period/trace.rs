//! The probes at the beginning and the end of a grace period. Without the feature `usdt` this is nothing.

use crate::probes::{DomainId, probe};

/// A grace period in progress. The probe of its end fires when this is dropped, also if the leader panics.
#[derive(Debug)]
pub struct GpSpan {
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

impl GpSpan {
    /// Begins the grace period `number` of the `domain` with this `name`.
    #[inline(always)]
    pub fn start(domain: DomainId, name: fn() -> &'static str, number: u64) -> Self {
        probe!(grace_period_start, domain.address(), number, name().as_ptr(), name().len());
        Self { domain, number, outcome: Outcome::Denied }
    }

    /// Ends the grace period, which readers held up or did not.
    #[inline(always)]
    pub fn end(mut self, was_held_up: bool) {
        self.outcome = if was_held_up { Outcome::HeldUp } else { Outcome::NotHeldUp };
    }

    /// Ends the attempt, as a reader blocks the grace period.
    #[inline(always)]
    pub fn give_up(mut self) {
        self.outcome = Outcome::GivenUp;
    }
}

impl Drop for GpSpan {
    #[inline(always)]
    fn drop(&mut self) {
        probe!(grace_period_end, self.domain.address(), self.number, self.outcome as u32);
    }
}
