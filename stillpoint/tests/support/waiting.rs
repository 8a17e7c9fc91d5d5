//! A writer that waits for readers.

use std::thread::{self, JoinHandle};

use stillpoint::rcu::Domain;

/// A thread in `D::synchronize()`, asleep for a section that is open now. There must be one, and no other writer; something
/// that was deferred counts as one.
pub fn waiting_synchronize<D: Domain>() -> JoinHandle<()> {
    waiting::<D>(D::synchronize)
}

/// The same for `wait`, which waits for a grace period.
pub fn waiting<D: Domain>(wait: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let before = D::stats().sleeps;
    let writer = thread::spawn(wait);
    while D::stats().sleeps == before {
        thread::yield_now();
    }
    writer
}
