//! A writer that waits for readers.

use std::thread::{self, JoinHandle};

use stillpoint::rcu::Domain;

/// A thread in `D::synchronize()`, asleep for a section that is open now. There must be one, and no other writer.
pub fn waiting_synchronize<D: Domain>() -> JoinHandle<()> {
    let before = D::stats().sleeps;
    let writer = thread::spawn(D::synchronize);
    while D::stats().sleeps == before {
        thread::yield_now();
    }
    writer
}
