//! The readers of each flavour: what they do, where they are registered, and how a grace period waits for them.
//!
//! [`sections`] has the readers that belong to threads: those of [`crate::rcu`], and, by the protocol in [`qsbr`],
//! those of [`crate::qsbr`]. [`srcu`] counts the readers of [`crate::srcu`].

pub mod any;
pub mod qsbr;
pub mod sections;
#[cfg(any(feature = "srcu", loom, test))]
pub mod srcu;

use crate::probes::{DomainId, probe};

/// A reader for which the leader sleeps has left, in the thread that calls this.
#[inline(always)]
pub fn awaited_reader_leaves(domain: DomainId) {
    probe!(reader_exit, domain.address());
}

/// Returns how long a leader sleeps, in nanoseconds, before it checks again the readers that may wake no thread: each
/// time twice as long, up to a millisecond. Too short for the reports of stalls to notice. Never ends.
fn timeouts() -> impl Iterator<Item = u64> {
    core::iter::successors(Some(50_000), |timeout| Some((timeout * 2).min(1_000_000)))
}
