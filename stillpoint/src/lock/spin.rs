//! The spinning of a thread before it sleeps or gives up.

use super::policy::{SHORT_PAUSES, SPIN_NS};
use crate::sync::{spin_iterations, spin_loop};

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
