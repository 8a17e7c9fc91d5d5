//! What the owner of a [queue](super::queue) does by itself, which the worker leaves to it.

use super::blocks::BLOCK;

/// Nanoseconds after which the worker assesses an owner again.
pub const ASSESSMENT_INTERVAL: u64 = if cfg!(loom) { 0 } else { 4_000_000 };

/// See the [module](self). Of the time between the last two assessments.
#[derive(Debug)]
pub struct OwnerActivity {
    /// Callbacks pushed, callbacks that have run, and the time, when the worker last assessed the owner.
    pushed: u64,
    run: u64,
    at: u64,
    /// Callbacks pushed at the assessment before.
    pushed_before: u64,
    /// The owner has pushed a block, and all that it had pushed two assessments ago has run. So it will soon flush, and
    /// run what it may.
    pub pushes: bool,
    /// Besides, a block of its callbacks has run. So grace periods end.
    pub reclaims: bool,
}

impl OwnerActivity {
    pub const NEW: Self = Self { pushed: 0, run: 0, at: 0, pushed_before: 0, pushes: false, reclaims: false };

    /// Assesses the owner at the time `now`, in nanoseconds, if it is time for that.
    pub fn assess(&mut self, pushed: u64, run: u64, now: u64) {
        let interval = now.saturating_sub(self.at);
        if interval >= ASSESSMENT_INTERVAL {
            // What was pushed and run in a longer time says nothing about what the owner does now.
            let is_recent = interval < 4 * ASSESSMENT_INTERVAL.max(1);
            let keeps_up = is_recent && run >= self.pushed_before;
            let pushes = keeps_up && pushed - self.pushed >= BLOCK;
            let reclaims = pushes && run - self.run >= BLOCK;
            *self = Self { pushed, run, at: now, pushed_before: self.pushed, pushes, reclaims };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn owner_reclaims_while_blocks_are_pushed_and_run() {
        let mut owner = OwnerActivity::NEW;
        let mut assess = |blocks_pushed, blocks_run, intervals| {
            owner.assess(blocks_pushed * BLOCK, blocks_run * BLOCK, intervals * ASSESSMENT_INTERVAL);
            [owner.pushes, owner.reclaims]
        };
        assert_eq!(assess(1, 0, 1), [true, false]);
        assert_eq!(assess(2, 1, 2), [true, true]);
        // It is not time yet.
        assert_eq!(assess(2, 1, 2), [true, true]);
        assert_eq!(assess(3, 1, 3), [true, false]);
        assert_eq!(assess(3, 3, 4), [false, false]);
        // It does not keep up: what it had pushed two assessments ago has not run.
        assert_eq!(assess(5, 3, 5), [true, false]);
        assert_eq!(assess(7, 4, 6), [true, true]);
        assert_eq!(assess(9, 4, 7), [false, false]);
        assert_eq!(assess(10, 9, 8), [true, true]);
        // The last assessment was long ago.
        assert_eq!(assess(20, 20, 12), [false, false]);
    }
}
