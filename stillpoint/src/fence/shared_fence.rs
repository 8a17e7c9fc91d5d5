//! Heavy fences that callers share.
//!
//! A fence that starts after a call serves that call, whichever thread issues it: see [`crate::sync::shared_seq`].

use crate::sync::shared_seq::SharedSeq;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct SharedFence {
    /// Calls so far.
    calls: AtomicU64,
    rounds: SharedSeq,
}

impl SharedFence {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { calls: AtomicU64::new(0), rounds: SharedSeq::new() }
        }
    }

    /// Blocks until a thread has called `issue`, after the start of this call, and it has returned. One thread at a
    /// time calls it.
    pub fn call(&self, issue: impl FnMut()) {
        self.count_call();
        self.rounds.run_or_wait(issue);
    }

    /// Counts a call that needs no shared fence.
    pub fn count_call(&self) {
        // Relaxed: statistics. The end of the round that serves the caller is a Release, for `stats`.
        self.calls.fetch_add(1, Relaxed);
    }

    /// Returns the number of calls, and that of fences issued for them, which is not greater.
    pub fn stats(&self) -> (u64, u64) {
        // In this order, so that each counted fence has a counted call.
        let issued = self.rounds.completed();
        (self.calls.load(Relaxed), issued)
    }

    /// Forgets a fence in progress. The caller is the only thread of the child of a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.rounds.reset_in_child();
    }
}
