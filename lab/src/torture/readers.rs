//! Readers that show when they read, so that who waited can check that a full grace period has passed.
//!
//! Each has a number of its own, odd inside a section: stepped once after the section has begun and once before it ends.
//! Whoever sees an odd number and then waits for a grace period must not see it afterwards. That is sound because
//!
//! - a number seen odd is that of a section whose beginning the grace period sees: [`rcu::enter`] passes a light fence
//!   before the step, the grace period executes a heavy one after the look, and the two are ordered. The heavy one cannot
//!   be first, as then the look before it would not have seen the step;
//! - the grace period waits for the end of that section, which is a release after the second step and is acquired by the
//!   grace period, so that even a relaxed look afterwards sees the second step, or a later one.
//!
//! A look may miss a section that has just begun, which makes the check weaker, not wrong. After [`fence::heavy`] it misses
//! none: either the reader's light fence after the step comes before the heavy one, and the look sees the step; or the
//! heavy one comes first, and the reader reads what was written before it. But that fence could make up for one that the
//! grace period lacks, so half of the looks do without.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use crossbeam_utils::CachePadded;
use stillpoint::{fence, rcu};

/// How long every other reader sleeps in its section, and how long after it at most.
const SECTION: Duration = Duration::from_millis(1);
const PAUSE_US: std::ops::RangeInclusive<u64> = 0..=1000;

/// How often the other readers spin in a section at most.
const SPINS: u32 = 200;

/// The numbers that the readers show.
#[derive(Debug)]
pub(super) struct Readers(Box<[CachePadded<AtomicU64>]>);

impl Readers {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| CachePadded::default()).collect())
    }

    /// The life of a reader, until `stop`. Those with odd places have long sections.
    pub(super) fn read(&self, place: usize, stop: &AtomicBool) {
        let shown = &self.0[place];
        // Relaxed: only this thread writes the number; the module says what orders it.
        let step = || shown.store(shown.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        while !stop.load(Ordering::Relaxed) {
            let guard = rcu::enter();
            step();
            // Partner: the heavy fence in `look`.
            fence::light();
            if place % 2 == 1 {
                thread::sleep(SECTION);
            } else {
                (0..fastrand::u32(..SPINS)).for_each(|_| hint::spin_loop());
            }
            step();
            drop(guard);
            if place % 2 == 1 {
                thread::sleep(Duration::from_micros(fastrand::u64(PAUSE_US)));
            }
        }
    }

    /// What the readers show now.
    pub(super) fn look(self: &Arc<Self>) -> Look {
        if fastrand::bool() {
            // Partner: the light fence in `read`.
            fence::heavy();
        }
        // Acquire: what follows comes after.
        let numbers = self.0.iter().map(|shown| shown.load(Ordering::Acquire)).collect();
        Look { readers: self.clone(), numbers }
    }

    /// Sections that have ended.
    pub(super) fn sections(&self) -> u64 {
        self.0.iter().map(|shown| shown.load(Ordering::Relaxed) / 2).sum()
    }
}

/// What the readers showed.
#[derive(Debug)]
pub(super) struct Look {
    readers: Arc<Readers>,
    numbers: Box<[u64]>,
}

impl Look {
    /// After a grace period. Whether a section was open before it.
    ///
    /// # Errors
    ///
    /// Fails if one of those is still open.
    pub(super) fn check(self) -> anyhow::Result<bool> {
        let is_open = |number: u64| number % 2 == 1;
        for (place, (&number, shown)) in self.numbers.iter().zip(&self.readers.0).enumerate() {
            // Relaxed: the grace period has ordered the end of the section before this.
            if is_open(number) && shown.load(Ordering::Relaxed) == number {
                bail!("returned while reader {place} was still in section {}, open before", number / 2);
            }
        }
        Ok(self.numbers.iter().copied().any(is_open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_was_open_and_still_is_fails_the_check_and_others_do_not() {
        let readers = Arc::new(Readers::new(2));
        let show = |place: usize, number| readers.0[place].store(number, Ordering::Relaxed);
        assert!(!readers.look().check().expect("all are outside"));
        show(1, 5);
        let error = readers.look().check().expect_err("the section is open");
        assert_eq!(error.to_string(), "returned while reader 1 was still in section 2, open before");
        let look = readers.look();
        show(0, 1);
        show(1, 7);
        assert!(look.check().expect("that section has ended"));
    }
}
