//! What a thread does before it sleeps or gives up: it spins, then yields its CPU.

use core::marker::PhantomData;

use super::events::Event;
use super::mutex::waiter;
use super::policy::{Policy, SHORT_PAUSES, SPIN_NS};
use crate::sync::{can_yield, now, spin_iterations, spin_loop, step, yield_now};

/// The yields of a wait.
#[derive(Debug)]
pub struct Yields<P> {
    left: u32,
    /// The time at which the wait ends.
    until: Option<u64>,
    /// Whether the thread can yield its CPU for a short time, once it has asked.
    can_yield: Option<bool>,
    policy: PhantomData<P>,
}

impl<P: Policy> Yields<P> {
    /// `most` yields, before the clock shows `until`.
    pub fn new(most: u32, until: Option<u64>) -> Self {
        Self { left: most, until, can_yield: None, policy: PhantomData }
    }

    /// Yields the CPU to other threads, if that takes a short time. Returns `true` if so.
    pub fn yield_cpu(&mut self) -> bool {
        if self.left == 0 || self.until.is_some_and(|until| now() >= until) {
            return false;
        }
        let yields = *self.can_yield.get_or_insert_with(can_yield);
        if yields {
            P::count(Event::Yield);
            yield_now();
        }
        // Also if it cannot yield, so as not to find that out at each wait.
        waiter::with(|waiter| waiter.has_yielded(now()));
        yields
    }

    /// As [`yield_cpu`](Self::yield_cpu), for one of the yields that are left.
    pub fn next(&mut self) -> bool {
        let yields = self.yield_cpu();
        if yields {
            step!("yield-not-counted", self.left -= 1);
        }
        yields
    }
}

/// What is left of [`SPIN_NS`].
#[derive(Debug)]
pub struct Spin {
    /// Iterations of [`spin_loop`].
    left: u32,
    /// Pauses so far, and the iterations of the next one and of the longest.
    pauses: u32,
    next: u32,
    longest: u32,
}

impl Spin {
    /// Spins with pauses of one iteration.
    pub fn new() -> Self {
        Self { left: spin_iterations(SPIN_NS), pauses: 0, next: 1, longest: 1 }
    }

    /// Spins with pauses that double, after the first few, up to `longest_ns` nanoseconds.
    pub fn with_backoff(longest_ns: u32) -> Self {
        Self { longest: spin_iterations(longest_ns).max(1), ..Self::new() }
    }

    /// Pauses once. Returns `false`, without a pause, if the time is over.
    pub fn pause(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = self.left.saturating_sub(self.next);
        (0..self.next).for_each(|_| spin_loop());
        self.pauses += 1;
        if self.pauses >= SHORT_PAUSES {
            self.next = (self.next * 2).min(self.longest);
        }
        true
    }
}
