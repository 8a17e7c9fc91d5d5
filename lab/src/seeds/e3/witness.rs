//! Threads that show when they read, so that who waited can check that it waited long enough.
//!
//! A witness counts in each section, once at its beginning and once before its end: its number is odd inside. Whoever sees
//! an odd number before a grace period must not see it after: the section had begun, so the grace period waited for its
//! end, which comes after the second step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::track::Waiter;

/// How long a section lasts, and how long the pause after it at most.
const SECTION: Duration = Duration::from_micros(5);
const PAUSE_US: std::ops::RangeInclusive<u64> = 0..=100;

/// Number of witnesses.
pub(super) const WITNESSES: usize = 2;

/// The numbers that the witnesses show.
#[derive(Debug, Default)]
pub(super) struct Witnesses([CachePadded<AtomicU64>; WITNESSES]);

impl Witnesses {
    /// The life of witness `index`, until `stop`.
    pub(super) fn read(&self, index: usize, waiter: &dyn Waiter, stop: &AtomicBool) {
        let shown = &self.0[index];
        while !stop.load(Ordering::Relaxed) {
            waiter.section(&mut || {
                // Only this thread writes the number. Release: who sees it knows that the section has begun, or ended.
                shown.store(shown.load(Ordering::Relaxed) + 1, Ordering::Release);
                let start = Instant::now();
                while start.elapsed() < SECTION {}
                shown.store(shown.load(Ordering::Relaxed) + 1, Ordering::Release);
            });
            thread::sleep(Duration::from_micros(fastrand::u64(PAUSE_US)));
        }
    }

    /// Calls `wait`, which waits for a grace period. Returns whether a witness was inside a section before.
    ///
    /// # Panics
    ///
    /// If a witness is still inside the same section afterwards.
    pub(super) fn check(&self, wait: impl FnOnce()) -> bool {
        // Acquire: the waiting comes after.
        let before: [u64; WITNESSES] = std::array::from_fn(|index| self.0[index].load(Ordering::Acquire));
        wait();
        let inside = |number: u64| number % 2 == 1;
        for (index, &number) in before.iter().enumerate() {
            // Relaxed: the grace period has ordered the end of the section before this.
            let still = inside(number) && self.0[index].load(Ordering::Relaxed) == number;
            assert!(
                !still,
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
    fn a_grace_period_that_is_too_short_is_noticed() {
        let witnesses = Witnesses::default();
        witnesses.0[1].store(1, Ordering::Relaxed);
        witnesses.check(|| {});
    }

    #[test]
    fn a_section_that_ends_or_begins_meanwhile_is_no_error() {
        let witnesses = Witnesses::default();
        witnesses.0[0].store(1, Ordering::Relaxed);
        let was_inside = witnesses.check(|| {
            witnesses.0[0].store(3, Ordering::Relaxed);
            witnesses.0[1].store(1, Ordering::Relaxed);
        });
        assert!(was_inside);
    }
}
