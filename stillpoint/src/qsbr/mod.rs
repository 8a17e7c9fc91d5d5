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
//! An online thread that defers more than [`set_limits`] allows is not made to wait where it defers, but where it reports next.
//!
//! # Threads, signals, fork
//!
//! A thread has at most one handle in each domain. It stays in its thread. When it is dropped, the thread is offline. A thread
//! that ends while a leaked handle of it is online may have lent references for ever: no grace period of the domain is
//! completed any more, and who waits for one panics.
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
//! argued in the source (`rcu/reports.rs`).

mod domain;
mod handle;

use crate::rcu::{Hints, Limits, Stats};

pub use crate::qsbr_domain as domain;
#[doc(hidden)]
pub use crate::rcu::reports::Reports;
#[doc(hidden)]
pub use domain::WORDS;
pub use domain::{Domain, Global};
pub use handle::{Handle, RegisterError};

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
/// assert!(qsbr::is_online());
/// thread.quiescent();
/// drop(thread);
/// assert!(!qsbr::is_online());
/// ```
#[track_caller]
pub fn register() -> Handle {
    Global::register()
}

/// [`register`], which tells why it cannot be done.
///
/// ```
/// use stillpoint::qsbr::{self, RegisterError};
///
/// let thread = qsbr::register();
/// assert_eq!(qsbr::try_register().err(), Some(RegisterError::Registered));
/// # drop(thread);
/// ```
#[track_caller]
pub fn try_register() -> Result<Handle, RegisterError> {
    Global::try_register()
}

/// Whether the calling thread has a handle that is online.
pub fn is_online() -> bool {
    Global::is_online()
}

/// Waits until every thread that is online now has reported, or gone offline.
///
/// # Panics
///
/// - If the calling thread is online: it would wait for itself. Use [`Handle::synchronize`].
/// - If a thread ended while it was online (its handle was leaked): it would wait for ever.
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
    Global::synchronize();
}

/// Calls `f` after a grace period: see [`rcu::call`](crate::rcu::call).
#[track_caller]
pub fn call(f: impl FnOnce() + Send + 'static) {
    Global::call_with(f, Hints::new());
}

/// [`call`], with [`Hints`].
#[track_caller]
pub fn call_with(f: impl FnOnce() + Send + 'static, hints: Hints) {
    Global::call_with(f, hints);
}

/// Drops `value` after a grace period: see [`rcu::retire`](crate::rcu::retire).
#[inline]
#[track_caller]
pub fn retire<T: Send + 'static>(value: Box<T>) {
    Global::retire_with(value, Hints::new());
}

/// [`retire`], with [`Hints`].
#[inline]
#[track_caller]
pub fn retire_with<T: Send + 'static>(value: Box<T>, hints: Hints) {
    Global::retire_with(value, hints);
}

/// [`retire`] for a value that readers still hold references to: see [`rcu::retire_raw`](crate::rcu::retire_raw).
///
/// # Safety
///
/// `value` comes from a `Box`. Nobody frees it otherwise, and nobody uses it after the threads that are online now have
/// reported.
#[inline]
#[track_caller]
pub unsafe fn retire_raw<T: Send + 'static>(value: core::ptr::NonNull<T>, hints: Hints) {
    // SAFETY: the caller's contract.
    unsafe { Global::retire_raw(value, hints) };
}

/// Waits until all that was deferred before has been done: see [`rcu::barrier`](crate::rcu::barrier).
///
/// # Panics
///
/// As [`synchronize`], and inside a callback of the same domain.
pub fn barrier() {
    Global::barrier();
}

/// How much may wait to be done: see [`rcu::set_limits`](crate::rcu::set_limits). A thread that is online waits in
/// [`Handle::quiescent`].
pub fn set_limits(limits: Limits) {
    Global::set_limits(limits);
}

/// Counters since the start of the process.
pub fn stats() -> Stats {
    Global::stats()
}
