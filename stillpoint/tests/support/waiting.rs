//! Writers that wait for readers.

use std::thread::{self, JoinHandle};

use stillpoint::Domain as _;
use stillpoint::rcu::StaticDomain;

/// A thread in `D::INSTANCE.synchronize()`, asleep for a section that is open now. There must be one, and no other
/// writer; something that was deferred counts as one.
pub fn waiting_synchronize<D: StaticDomain>() -> JoinHandle<()> {
    waiting::<D>(|| D::INSTANCE.synchronize())
}

/// The same for a thread in `wait`, which waits for a grace period.
pub fn waiting<D: StaticDomain>(wait: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let before = D::INSTANCE.stats().sleeps;
    let writer = thread::spawn(wait);
    while D::INSTANCE.stats().sleeps == before {
        thread::yield_now();
    }
    writer
}
