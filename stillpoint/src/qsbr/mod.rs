//! Read-copy update for threads that report *quiescent states*: a read is a plain load.
//!
//! In a quiescent state a thread holds no references. A thread registers and gets a [`Handle`]. Loading a pointer
//! borrows the handle and is a plain load. Now and then, say once per round of its loop, the thread calls
//! [`Handle::quiescent`], which borrows the handle mutably: so the compiler proves that no reference outlives the
//! report. If no grace period has begun, that is a load and a comparison. A writer waits until every thread has
//! reported.
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
//! use std::thread;
//! use stillpoint::qsbr;
//! use stillpoint::rcu::Rcu;
//!
//! let routes = Rcu::new_in(vec![("10.0.0.0/8", "eth0")], qsbr::Global);
//! let stop = AtomicBool::new(false);
//!
//! thread::scope(|s| {
//!     for _ in 0..2 {
//!         s.spawn(|| {
//!             let mut thread = qsbr::register();
//!             while !stop.load(Relaxed) {
//!                 let table = routes.load(&thread);
//!                 assert!(!table.is_empty());
//!                 thread.quiescent();
//!             }
//!         });
//!     }
//!     let old = routes.replace(vec![("10.0.0.0/8", "eth1")]).wait();
//!     assert_eq!(old[0].1, "eth0");
//!     stop.store(true, Relaxed);
//! });
//! ```
//!
//! The guide [compares](crate::guide#three-kinds-of-readers) `qsbr` with [`rcu`](crate::rcu) and
//! [`srcu`](crate::srcu).
//!
//! # Blocking
//!
//! An online thread that does not report keeps every grace period of the domain from ending: memory is not freed, and
//! [`synchronize`](crate::Domain::synchronize) blocks. So code that may block, or runs for long without reading,
//! belongs in [`Handle::offline`]: I/O, sleeps, waits for locks and condition variables, joins. A thread deadlocks if
//! it waits online for a lock whose holder waits for a grace period.
//!
//! ```
//! use std::sync::Mutex;
//! use stillpoint::qsbr;
//!
//! let jobs = Mutex::new(vec![1, 2, 3]);
//! let mut thread = qsbr::register();
//! let job = thread.offline(|| jobs.lock().unwrap().pop());
//! assert_eq!(job, Some(3));
//! ```
//!
//! [Stalls](crate::rcu#stalls) are reported as in [`rcu`](crate::rcu), by the same hook and after the same time.
//!
//! # Writers
//!
//! Writers use [`Rcu`](crate::rcu::Rcu), [`Retired`](crate::rcu::Retired) and
//! [`GracePeriod`](crate::rcu::GracePeriod) in a domain of this module: `Rcu::new_in(value, qsbr::Global)`,
//! `GracePeriod::now_in(qsbr::Global)`. The trait [`Domain`](crate::Domain) has the other operations of
//! [`rcu`](crate::rcu): `qsbr::Global.call(f)`. A thread that waits must be offline or have no handle: otherwise it
//! would wait for itself, and panics. Callbacks and destructors run in a worker, which has no handle.
//! `qsbr::Global.barrier()` at the end of `main` waits for those that are still queued; otherwise they do not run.
//!
//! An online thread that defers while the backlog exceeds its [limits](crate::Domain::set_limits) blocks at its next
//! report.
//!
//! # Threads, signals, fork
//!
//! A thread has at most one handle in each domain. The handle stays in its thread, which is offline once it is
//! dropped. A leaked online handle may have lent references for ever: grace periods of the domain wait for it, even
//! after its thread has exited, and the stall report names the thread. If a late destructor of the thread drops the
//! handle, grace periods end again.
//!
//! A signal handler can neither report nor read, as the handle belongs to the code that it interrupts. In the child
//! of a fork only the forking thread keeps its handle; all else is as for [`rcu`](crate::rcu#fork).
//!
//! # Trade-offs
//!
//! - Every registered thread must report often or be offline. One that does neither stops all writers.
//! - Going offline, coming online, and the first report in a grace period each take an atomic read-modify-write.
//!   Threads that read rarely should use [`rcu`](crate::rcu).
//! - A grace period looks at each registered thread, and makes a read-modify-write on each that is offline.
//!
//! # Sources
//!
//! McKenney and Slingwine (1998) and Desnoyers et al. (2012), as for [`rcu`](crate::rcu#sources). The flag in each
//! reader that requests a wake-up goes back to a patch to liburcu of 2011. The source (`readers/qsbr.rs`) argues the
//! protocol, which needs no fences.

mod handle;

pub use crate::qsbr_domain as domain;
pub use handle::{Global, Handle};

/// Registers the calling thread, which is online from now on: it must report until it drops the handle.
///
/// # Panics
///
/// If the thread has a handle already, or cannot be registered (see [`rcu::enter`](crate::rcu::enter)).
///
/// ```
/// use stillpoint::qsbr;
///
/// let mut thread = qsbr::register();
/// assert!(qsbr::Global::is_online());
/// thread.quiescent();
/// drop(thread);
/// assert!(!qsbr::Global::is_online());
/// ```
#[track_caller]
pub fn register() -> Handle {
    Global::register()
}
