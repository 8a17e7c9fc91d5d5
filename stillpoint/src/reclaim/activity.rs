//! What the owner of a [queue](super::queue) does by itself, which the worker leaves to it.

use super::blocks::BLOCK;

/// Nanoseconds after which the worker assesses an owner anew.
pub const ASSESSMENT_INTERVAL: u64 = if cfg!(loom) { 0 } else { 4_000_000 };

/// See the [module](self). Of the time between the last two assessments.
#[derive(Debug)]
pub struct OwnerActivity {
    /// Callbacks pushed, callbacks that have run, and the time, when the worker last assessed the owner.
    pushed: u64,
    run: u64,
    at: u64,
    /// The owner has pushed a block. So it will soon flush, and run what it may.
    pub pushes: bool,
    /// Besides, a block of its callbacks has run. So grace periods end.
    pub reclaims: bool,
}

impl OwnerActivity {
    pub const NEW: Self = Self { pushed: 0, run: 0, at: 0, pushes: false, reclaims: false };

    /// Assesses the owner at the time `now`, in nanoseconds, if it is time for that.
    pub fn assess(&mut self, pushed: u64, run: u64, now: u64) {
        if now - self.at >= ASSESSMENT_INTERVAL {
            let pushes = pushed - self.pushed >= BLOCK;
            let reclaims = pushes && run - self.run >= BLOCK;
            *self = Self { pushed, run, at: now, pushes, reclaims };
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
    }
}
