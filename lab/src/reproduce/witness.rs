//! Threads that show when they read, so that a waiter can check that it waited long enough.
//!
//! A witness increments its number at the beginning of each section and before its end, so the number is odd inside. A
//! number that is odd before a grace period must have changed after it: the section had begun, so the grace period
//! waited for its end, which comes after the second increment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::harness::controls::Controls;
use crate::peers::Reclaim;

/// Length of a section.
const SECTION: Duration = Duration::from_micros(5);
/// Pause after a section.
const PAUSE_US: std::ops::RangeInclusive<u64> = 0..=100;

/// Number of witnesses.
pub(super) const WITNESSES: usize = 2;

/// The numbers of the witnesses.
#[derive(Debug, Default)]
pub(super) struct Witnesses([CachePadded<AtomicU64>; WITNESSES]);

impl Witnesses {
    /// Runs witness `index` until it has to stop.
    pub(super) fn read<R: Reclaim>(&self, index: usize, library: &R, controls: &Controls) {
        let (number, thread) = (&self.0[index], library.thread());
        // Only this thread writes the number. Release: a thread that reads it knows that the section has begun, or
        // ended; pairs with the Acquire in `check`.
        let step = || number.store(number.load(Ordering::Relaxed) + 1, Ordering::Release);
        while !controls.background_must_stop() {
            let guard = R::enter(&thread);
            step();
            let start = Instant::now();
            while start.elapsed() < SECTION {}
            step();
            drop(guard);
            thread::sleep(Duration::from_micros(fastrand::u64(PAUSE_US)));
        }
    }

    /// Calls `wait`, which waits for a grace period. Returns whether a witness was inside a section before.
    ///
    /// # Panics
    ///
    /// If a witness is still inside the same section afterwards.
    pub(super) fn check(&self, wait: impl FnOnce()) -> bool {
        // Acquire: the grace period begins after this; pairs with the Release in `read`.
        let before: [u64; WITNESSES] = std::array::from_fn(|index| self.0[index].load(Ordering::Acquire));
        wait();
        let inside = |number: u64| number % 2 == 1;
        for (index, &number) in before.iter().enumerate() {
            // Relaxed: the grace period orders the end of the section before this.
            let is_still_inside = inside(number) && self.0[index].load(Ordering::Relaxed) == number;
            assert!(
                !is_still_inside,
                "a grace period ended inside section {number} of witness {index}, which began before it"
            );
        }
        before.into_iter().any(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a grace period ended inside section 1 of witness 1")]
    fn short_grace_period_is_noticed() {
        let witnesses = Witnesses::default();
        witnesses.0[0].store(1, Ordering::Relaxed);
        assert!(witnesses.check(|| witnesses.0[0].store(2, Ordering::Relaxed)));
        witnesses.0[1].store(1, Ordering::Relaxed);
        witnesses.check(|| {});
    }
}
