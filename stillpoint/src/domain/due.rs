//! What a thread does before its next section, in the domains of `entry.rs`.

use core::cell::Cell;

use crate::reclaim::blocks::BLOCK;
use crate::reclaim::queue::{PushAction, STEP};

/// The most callbacks of its own that a thread runs before a section, except after a flush.
const MOST: u64 = 8 * BLOCK;

/// See the [module](self).
#[derive(Debug)]
pub struct Due {
    work: Cell<Work>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    /// Runs as many of its callbacks.
    pub count: u64,
    /// Reduces the backlog.
    pub flush: bool,
    /// Runs all callbacks that are ready, of all queues.
    pub all: bool,
}

impl Due {
    pub const fn new() -> Self {
        Self { work: Cell::new(Work { count: 0, flush: false, all: false }) }
    }

    /// Puts off what the owner of a queue does after a push.
    pub fn put_off(&self, action: PushAction) {
        let Work { count, flush, all } = self.work.get();
        let flush = flush || action == PushAction::Flush;
        self.work.set(Work { count: (count + STEP).min(MOST), flush, all });
    }

    pub fn run_all(&self) {
        self.work.set(Work { all: true, ..self.work.get() });
    }

    pub fn take(&self) -> Work {
        self.work.take()
    }
}
