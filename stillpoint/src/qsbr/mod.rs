//! Read-copy update without any cost to readers, for threads that report *quiescent states*: moments at which they hold no
//! references.
//!
//! A thread registers and gets a [`Handle`]. Loading a pointer borrows the handle and is nothing but the load. Now and then,
//! say once in each round of its loop, the thread calls [`Handle::quiescent`], which needs the handle exclusively: so the
//! compiler proves that no reference outlives the report. While nobody waits that is a load and a comparison. A writer waits
//! until every thread has reported.
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
//! # When to use it
//!
//! | | [`rcu`](crate::rcu) | `qsbr` |
//! |---|---|---|
//! | a read | about a nanosecond | a load |
//! | threads | register themselves | must register, and report for ever after |
//! | a grace period waits for | sections that are open | every thread that is online, whatever it does |
//! | its cost | one `membarrier` call | none, but a look at each thread |
//!
//! # Blocking
//!
//! A thread that is online and does not report keeps every grace period of the domain from ending: memory is not freed, and
//! [`synchronize`] waits. What may block, or take long without reading, belongs into [`Handle::offline`]: reads and writes of
//! files and sockets, sleeps, waits for locks and conditions, joins. A thread that waits for a lock which is held by a thread
//! that waits for a grace period must be offline, or neither goes on.
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
//! A grace period that has waited for long says for which threads, and where they registered: stalls are reported as in
//! [`rcu`](crate::rcu#stalls), by the same hook and with the same limit.
//!
//! # Writers
//!
//! [`Rcu`](crate::rcu::Rcu), [`Retired`](crate::rcu::Retired) and [`GracePeriod`](crate::rcu::GracePeriod) are those of
//! [`rcu`](crate::rcu), of another domain: `Rcu::new_in(value, qsbr::Global)`, `GracePeriod::now_in(qsbr::Global)`. The
//! functions here do what those of the same name do there. Whoever waits must be offline, or have no handle: otherwise it
//! would wait for itself, and panics. Callbacks and destructors run in a worker, which has no handle.
//!
//! An online thread that defers more than its [limits](crate::Domain::set_limits) allow is not made to wait where it defers, but where it reports next.
//!
//! # Threads, signals, fork
//!
//! A thread has at most one handle in each domain. It stays in its thread. When it is dropped, the thread is offline. A leaked
//! handle that is online may have lent references for ever: grace periods of the domain wait for it, also once its thread has
//! exited, and the stall report names the thread. If one of the thread's last destructors drops the handle, grace periods go on.
//!
//! A signal handler cannot report or read, as the handle belongs to the code that it interrupts. In the child of a fork only the
//! thread that forked has a handle still; everything else is as for [`rcu`](crate::rcu#fork). As there, a shared library that
//! contains this crate is not unmapped by `dlclose(3)`.
//!
//! # Trade-offs
//!
//! - Every thread that reads must report often, or be offline. One that does neither stops all writers.
//! - Coming online and going offline take an atomic read-modify-write each, and so does the first report after a grace period
//!   began. Threads that read rarely are better served by [`rcu`](crate::rcu).
//! - A grace period looks at every thread that has ever been registered at the same time, and makes a read-modify-write for
//!   each that is offline.
//!
//! # Sources
//!
//! McKenney and Slingwine (1998) and Desnoyers et al. (2012), as for [`rcu`](crate::rcu#sources). That each reader has a flag
//! which says whether somebody sleeps for it goes back to a patch to liburcu of 2011. The protocol, which needs no fences, is
//! argued in the source (`readers/qsbr.rs`).

mod handle;

use crate::Domain as _;

pub use crate::qsbr_domain as domain;
#[doc(hidden)]
pub use crate::readers::qsbr::Qsbr;
pub use handle::{Global, Handle, QsbrDomain, RegisterError};

/// Registers the calling thread, which is online from now on: until the handle is dropped it must report.
///
/// # Panics
///
/// If it has a handle already, or cannot be registered: no memory, no thread-specific data key, or a shared library that cannot
/// be kept loaded.
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

/// Waits until every thread that is online now has reported, or gone offline.
///
/// # Panics
///
/// - If the calling thread is online: it would wait for itself. Use [`Handle::synchronize`].
/// - In a stall hook.
///
/// ```
/// use stillpoint::qsbr;
///
/// qsbr::synchronize();
///
/// let thread = qsbr::register();
/// assert!(std::panic::catch_unwind(qsbr::synchronize).is_err());
/// # drop(thread);
/// ```
pub fn synchronize() {
    Global.synchronize();
}
