//! Barriers as futures.

use stillpoint::{Barrier, Domain};

/// Waits until all callbacks have run, and all retired values have been dropped, that any thread deferred in `domain`
/// before the first poll.
///
/// This is [`Domain::barrier_async`], and needs no runtime. No thread blocks, so it does not matter what the threads of
/// `spawn_blocking` do. If the future is dropped, nothing is waited for.
///
/// # Panics
///
/// Inside a section of a domain of [`rcu`](stillpoint::rcu) or [`qsbr`](stillpoint::qsbr), which a task of the same thread
/// may hold across `.await`, and inside a callback of the domain. Also if the kernel denies the heavy fence, which worked
/// before.
///
/// In a task that holds a guard of an [`srcu::Domain`](https://docs.rs/stillpoint/latest/stillpoint/srcu/struct.Domain.html)
/// itself, a barrier of that domain never ends.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use stillpoint::rcu;
///
/// static CALLED: AtomicBool = AtomicBool::new(false);
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// rcu::call(|| CALLED.store(true, Relaxed));
/// stillpoint_tokio::barrier(rcu::Global).await;
/// assert!(CALLED.load(Relaxed));
/// # });
/// ```
#[track_caller]
pub fn barrier<D: Domain>(domain: D) -> Barrier<D> {
    domain.barrier_async()
}
