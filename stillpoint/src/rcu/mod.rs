//! Read-copy update: reads that cost about a nanosecond and never wait, writers that wait for a *grace period*.
//!
//! A reader opens a section ([`enter`]), loads pointers ([`Rcu::load`]) and reads what they point to until it drops the
//! guard. A writer publishes a new value ([`Rcu::replace`]) and disposes of the old one after a grace period: when every
//! section that was open has ended. Readers write nothing that others read often, take no lock and execute no fence; the
//! writer pays for both sides, with one [`fence::heavy`](crate::fence::heavy) a grace period.
//!
//! ```
//! use std::thread;
//! use stillpoint::rcu::{self, Rcu};
//!
//! let routes = Rcu::new(vec![("10.0.0.0/8", "eth0")]);
//!
//! thread::scope(|s| {
//!     for _ in 0..4 {
//!         s.spawn(|| {
//!             for _ in 0..1000 {
//!                 let guard = rcu::enter();
//!                 let table = routes.load(&guard);
//!                 assert!(!table.is_empty());
//!             }
//!         });
//!     }
//!     // Drop the old table once nobody reads it any more ...
//!     routes.replace(vec![("10.0.0.0/8", "eth1")]);
//!     // ... or wait for that and have it back.
//!     let old = routes.replace(vec![("10.0.0.0/8", "eth2")]).wait();
//!     assert_eq!(old[0].1, "eth1");
//! });
//! ```
//!
//! # Threads
//!
//! A thread registers itself when it first reads, and leaves when it ends. Registering may allocate and take a lock (with
//! the signal backend of the fence), so a thread whose signal handlers read should call [`register`] before. Reading in a
//! handler is fine from then on, until the thread's destructors have run; [`synchronize`], and
//! dropping a [`Retired`], are not.
//!
//! # Domains
//!
//! These functions are those of [`Domain`] for [`Global`]. [`domain!`](crate::domain) makes others, whose grace periods
//! wait for their own readers only.
//!
//! # Trade-offs
//!
//! - A section that is long delays every grace period of its domain, and with them the memory that waits to be freed. It
//!   never delays readers.
//! - [`synchronize`] takes a heavy fence, a look at each registered thread, and the rest of the longest open section. Ten
//!   writers who call it at once share the cost; one who calls it ten times does not. Writers in a loop should drop the
//!   [`Retired`] instead of waiting.
//! - Two threads that each wait for a grace period of a domain inside a section of the other's wait for ever. Waiting
//!   inside a section of the *same* domain panics.
//! - The reader's orderings rest on the compiler fence being one and on `membarrier`, which the language's memory model
//!   does not know. `docs/proof.md` says what has been checked and how.
//!
//! # Sources
//!
//! McKenney and Slingwine, *Read-copy update* (1998); Desnoyers, McKenney, Stern, Dagenais and Walpole, *User-level
//! implementations of read-copy update* (2012). The grace period with one fence and one pass, and the countdown of awaited
//! readers, are argued in the source of the engine.

mod deferred;
mod domain;
mod guard;
mod pointer;

pub(crate) mod engine;
pub(crate) mod published;
pub(crate) mod reader;
pub(crate) mod registry;

pub use domain::{Domain, Global};
#[doc(hidden)]
pub use domain::{Local, Shared};
pub use engine::Stats;
pub use guard::Guard;
pub use pointer::{Rcu, Retired};

/// Begins a read-side section, which lasts until the guard is dropped.
///
/// The first call in a thread registers it. Costs well under a nanosecond afterwards.
///
/// # Panics
///
/// If the thread cannot be registered: no memory, or no thread-specific data key.
#[inline]
pub fn enter() -> Guard {
    Global::enter()
}

/// Waits until every section that is open now has ended.
///
/// Callers at the same time share grace periods. Nobody waits for deferred frees here.
///
/// # Panics
///
/// - Inside a section: it would wait for itself.
/// - If a thread ended inside a section (its guard was leaked): it would wait for ever.
///
/// ```
/// use stillpoint::rcu;
///
/// rcu::synchronize();
///
/// let guard = rcu::enter();
/// assert!(std::panic::catch_unwind(rcu::synchronize).is_err());
/// ```
pub fn synchronize() {
    Global::synchronize();
}

/// Registers the calling thread now, not when it first reads. Nothing if it is registered.
///
/// # Panics
///
/// As [`enter`].
pub fn register() {
    Global::register();
}

/// Whether the calling thread is inside a section.
pub fn is_inside() -> bool {
    Global::is_inside()
}

/// Counters since the start of the process.
///
/// ```
/// use stillpoint::rcu;
///
/// let before = rcu::stats();
/// rcu::synchronize();
/// assert!(rcu::stats().grace_periods > before.grace_periods);
/// ```
pub fn stats() -> Stats {
    Global::stats()
}
