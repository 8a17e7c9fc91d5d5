//! Heavy fences that callers share.
//!
//! A fence that begins after a caller asked serves that caller, whichever thread issues it: see [`crate::sequence`].

use crate::sequence::Sequence;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct SharedFence {
    /// Fences that were asked for.
    calls: AtomicU64,
    turns: Sequence,
}

impl SharedFence {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { calls: AtomicU64::new(0), turns: Sequence::new() }
        }
    }

    /// Returns when `issue` has returned in some thread that called it after this thread asked. Called by one thread at a time.
    pub fn call(&self, issue: impl FnMut()) {
        self.count_call();
        self.turns.join(issue);
    }

    /// Counts a call that is served otherwise.
    pub fn count_call(&self) {
        // Relaxed: the end of the turn that serves the caller is a Release.
        self.calls.fetch_add(1, Relaxed);
    }

    /// Fences that were asked for, and those that were issued: no more.
    pub fn stats(&self) -> (u64, u64) {
        // In this order, so that no fence is counted whose call is not.
        let issued = self.turns.completed();
        (self.calls.load(Relaxed), issued)
    }

    /// No fence is under way: for the only thread of a process, as after a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.turns.reset_in_child();
    }
}
