//! Barriers as futures.

use std::panic::resume_unwind;

use stillpoint::Domain;
use stillpoint::rcu::GracePeriod;
use tokio::task::spawn_blocking;

/// Waits until all callbacks have run, and all retired values have been dropped, that any thread deferred in `domain`
/// before the first poll.
///
/// The future of [`Domain::barrier`], which blocks: a thread of `spawn_blocking` calls it, after a grace period. Other
/// tasks run until then. If the future is dropped, the barrier may still be waited for in that thread, which delays the
/// end of the runtime as every blocking task does.
///
/// # Panics
///
/// Outside of a runtime, or if the runtime is being shut down. Inside a section of a domain of
/// [`rcu`](stillpoint::rcu) or [`qsbr`](stillpoint::qsbr), which a task of the same thread may hold across `.await`. Also
/// if the kernel denies the heavy fence, which worked before.
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
pub async fn barrier<D: Domain>(domain: D) {
    // So that most of the wait takes no thread. It also panics inside a section of this thread, for which the other
    // thread would wait as if it were a reader's.
    GracePeriod::now_in(domain.clone()).await;
    if let Err(error) = spawn_blocking(move || domain.barrier()).await {
        match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => panic!("barrier() in a runtime that is being shut down"),
        }
    }
}
