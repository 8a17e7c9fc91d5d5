//! Read-copy update: reads take about a nanosecond and never wait; writers wait for a *grace period*.
//!
//! A reader begins a *read-side critical section* ([`enter`]), a section for short. It loads pointers ([`Rcu::load`])
//! and uses the values behind them until it drops the guard. A writer publishes a new value ([`Rcu::replace`]) and
//! disposes of the old one after a grace period: when every section that was open has ended. Readers write only to a
//! cache line of their own, take no lock and execute no fence. The writer pays for both sides, by one
//! [`fence::heavy`](crate::fence::heavy) per grace period.
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
//!     // Drop the old table when its readers are gone ...
//!     routes.replace(vec![("10.0.0.0/8", "eth1")]);
//!     // ... or wait for them and take it back.
//!     let old = routes.replace(vec![("10.0.0.0/8", "eth2")]).wait();
//!     assert_eq!(old[0].1, "eth1");
//! });
//! ```
//!
//! # Threads
//!
//! A thread registers itself at its first read, and unregisters when it exits. Destructors of thread-specific data
//! (`pthread_key_create(3)`) may read and defer too. A thread that uses a domain for the *first* time in the last round
//! of these destructors, the fourth in glibc, leaks its reader record.
//!
//! A global allocator may read in each of its calls, from the first one in the process on.
//!
//! # Signal handlers
//!
//! A handler may read if its thread is registered and has not yet run its thread-local destructors. Registering may
//! allocate, and take a lock (signal backend of the fence), and a library that was loaded by `dlopen(3)` allocates its
//! thread-local variables at their first use: so call [`register`] before. A handler must not call [`synchronize`] or
//! [`retire`], nor drop a [`Retired`]. If it interrupts the end of a section in which its thread retired values, it
//! does the work that was due there: it frees some of them, and blocks if too many remain.
//!
//! # Domains
//!
//! The functions of this module use the domain [`Global`]. [`domain!`](crate::domain) defines further domains, whose
//! grace periods wait for their own readers only. The trait [`Domain`](crate::Domain) has the operations of all
//! domains, for generic code.
//!
//! # Cookies
//!
//! A [`GracePeriod`] is a *cookie*: a number that stands for a grace period. Take one after unpublishing something;
//! later poll it, wait for it with or without a timeout, or `.await` it on any executor.
//!
//! # Deferred callbacks
//!
//! [`call`] and [`retire`] run a callback or a destructor after a grace period; so does dropping a [`Retired`]. Each
//! thread appends to its own queue, by a few plain stores. A worker thread, started by the first callback of the
//! domain, waits for one grace period for all that is queued, then runs it. Unless the backlog is long, its grace
//! periods begin at least a millisecond apart, so that a busy writer causes at most a thousand interrupts a second. The
//! first one begins after 0.1 ms: a caller that defers something and then calls [`synchronize`] so leads the grace
//! period that serves both. [`DeferOptions::lazy`] lets a callback wait for others; [`barrier`] waits until all have
//! run.
//!
//! | thread | work |
//! |---|---|
//! | the worker of the domain | runs callbacks and destructors of retired values; frees values of threads that defer nothing more |
//! | the retiring thread | frees its values without destructors; runs destructors with [`DeferOptions::run_on_retiring_thread`] |
//!
//! The backlog is bounded ([`set_limits`]): above the limit, a retiring thread blocks until less is left. A callback
//! that blocks delays callbacks of its own domain only, since each domain with queued callbacks has its own worker. One
//! idle worker thread is kept for all domains.
//!
//! # Waiting
//!
//! There is no separate expedited grace period: one that no reader delays takes a few microseconds, most of them in
//! `membarrier`, which interrupts only CPUs that run this process. Threads that cannot tolerate interrupts use
//! [`qsbr`](crate::qsbr).
//!
//! # Stalls
//!
//! A grace period that has waited for 10 seconds reports on standard error which threads it waits for and where they
//! registered, again after 20, and so on; with the feature `tracing`, a subscriber gets an event instead.
//! [`set_stall_timeout`] and [`set_stall_hook`] change that. [`Stats::longest_wait`] and [`Stats::stalls`] count.
//!
//! A leaked guard (`mem::forget`, `Box::leak`) may have lent references for ever, so its section never ends: grace
//! periods of the domain wait for it, and nothing is freed, even after its thread has exited
//! ([`StalledReader::has_exited`]). If a late destructor of the thread drops the guard, grace periods go on.
//!
//! # Checks
//!
//! In debug builds every wait asserts that a full grace period has passed, by a count that is independent of the
//! algorithm. That costs each grace period and each caller a few atomic operations, and readers nothing.
//!
//! # Fork
//!
//! The child of a `fork` can use the library at once, whatever other threads of its parent were doing. It starts with
//! one thread, which is still inside the sections in which it forked.
//!
//! - *Callbacks deferred before the fork run in the parent only.* The child neither runs nor drops its copies, and its
//!   [`barrier`] does not wait for them. The child starts workers of its own.
//! - Sections of other threads are over in the child. References that they lent to the forking thread must not be used
//!   there.
//! - Futures that were polled before the fork must be polled again in the child to be woken there.
//! - Callbacks, destructors of retired values, wakers and [stall hooks](set_stall_hook) may fork, but must not return
//!   in the child, which must `exec` or `_exit`.
//!
//! Workers are not threads of `std`, which promises less: a child cannot call `std::thread::spawn` if another thread
//! was starting or exiting at the fork.
//!
//! Not supported: a fork in a signal handler that interrupted a function of this library; use in handlers of
//! `pthread_atfork(3)`; processes created without the C library's `fork` (`_Fork`, `clone`), unless they `exec`.
//!
//! # Trade-offs
//!
//! - A long section delays every grace period of its domain, and thereby the memory that waits to be freed. It never
//!   delays readers that retire nothing.
//! - A reader that a sleeping grace period waits for wakes it on leaving, and yields its CPU once: one or two system
//!   calls.
//! - [`synchronize`] costs a heavy fence, a look at each registered thread, and the rest of the longest open section.
//!   Concurrent callers share that cost; consecutive calls do not. A writer in a loop should drop the [`Retired`]
//!   instead of waiting.
//! - Two threads deadlock if each waits, inside a section of one domain, for a grace period of the domain whose section
//!   the other is in. Waiting inside a section of the *same* domain panics. The same goes for [`barrier`] and
//!   callbacks.
//! - One worker runs the callbacks of a domain one after the other, since the thread that deferred one may hold a lock
//!   that the callback takes. A program that defers faster is throttled. Values without destructors, and those with
//!   [`DeferOptions::run_on_retiring_thread`], are freed by the threads that retire them, several times faster.
//! - The readers' orderings rely on the compiler fence and on `membarrier`, which the language's memory model does not
//!   cover. They are measured and tested on x86-64 only. `docs/proof.md` says what has been checked and how.
//!
//! # Sources
//!
//! McKenney and Slingwine, *Read-copy update* (1998); Desnoyers, McKenney, Stern, Dagenais and Walpole, *User-level
//! implementations of read-copy update* (2012). The source (`grace_period/engine.rs`, `readers/threads.rs`) argues the
//! algorithm.

mod block_on;
mod grace_period;
mod guard;
mod pointer;
mod published_ptr;

use core::ptr::NonNull;

use crate::Domain as _;

pub use grace_period::{Elapse, GracePeriod, WaitTimeoutError};
pub use guard::{Global, Guard, RcuDomain};
pub use pointer::{Rcu, Retired};

pub use crate::domain::stats::Stats;
pub use crate::grace_period::stall::{
    Stall, StalledReader, set_stall_hook, set_stall_timeout, take_stall_hook,
};
pub use crate::reclaim::backlog::Limits;
pub use crate::reclaim::options::DeferOptions;

// For the macros that define domains.
#[doc(hidden)]
pub use crate::domain::raw::Messages;
#[doc(hidden)]
pub use crate::domain::static_domain::{DomainState, StaticDomain, ThreadState};
#[doc(hidden)]
pub use crate::readers::threads::Memb;
#[doc(hidden)]
pub use guard::MESSAGES;

/// Begins a read-side critical section, which ends when the guard is dropped.
///
/// Takes less than a nanosecond, except for the first call in a thread, which registers it.
///
/// # Panics
///
/// If the thread cannot be registered: there is no memory or no thread-specific data key, or the shared library that
/// contains this crate cannot be kept loaded.
#[inline]
#[track_caller]
pub fn enter() -> Guard {
    Global::enter()
}

/// Blocks until every section that is open now has ended.
///
/// Concurrent callers share grace periods. Deferred callbacks are not waited for. While a leaked guard keeps a section
/// open, this does not return: see [stalls](self#stalls).
///
/// # Panics
///
/// Inside a section, where it would wait for itself, and in a [stall hook](set_stall_hook), for which a grace period
/// waits.
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
    Global.synchronize();
}

/// Calls `f` in a worker thread of the library after a grace period: when every section that is open now has ended.
///
/// May be called inside sections, callbacks and destructors, but not in signal handlers. Does not block, unless the
/// backlog is above its limit: see [`set_limits`].
///
/// Callbacks of one thread run in order, one after the other; those of several threads run in any order. A panic in a
/// callback is caught and counted ([`Stats::panics`]), and a line on standard error names its domain and its type. If
/// `f` forks, the child must `exec` or `_exit`.
///
/// A closure of at most one word needs no allocation. If no worker can be started, `f` waits until something else is
/// deferred, or until [`barrier`] runs it.
///
/// # Panics
///
/// As [`enter`], if the thread is not registered yet. If memory runs out, the process aborts, as in the standard
/// library.
///
/// ```
/// use std::sync::mpsc::channel;
/// use stillpoint::rcu;
///
/// let (sender, receiver) = channel();
/// rcu::call(move || sender.send("all readers have left").unwrap());
/// assert_eq!(receiver.recv(), Ok("all readers have left"));
/// ```
#[track_caller]
pub fn call(f: impl FnOnce() + Send + 'static) {
    Global.call(f);
}

/// [`call`], with [`DeferOptions`].
#[track_caller]
pub fn call_with(f: impl FnOnce() + Send + 'static, options: DeferOptions) {
    Global.call_with(f, options);
}

/// Drops `value` after a grace period, in the worker. Its destructor is a callback: see [`call`].
///
/// A value without a destructor (no drop glue) is freed by the thread that retired it if that thread goes on retiring,
/// or else by the worker.
///
/// ```
/// use stillpoint::rcu;
///
/// rcu::retire(Box::new([0_u8; 100]));
/// ```
#[inline]
#[track_caller]
pub fn retire<T: Send + 'static>(value: Box<T>) {
    Global.retire(value);
}

/// [`retire`], with [`DeferOptions`].
#[inline]
#[track_caller]
pub fn retire_with<T: Send + 'static>(value: Box<T>, options: DeferOptions) {
    Global.retire_with(value, options);
}

/// [`retire`] for many values.
#[track_caller]
pub fn retire_all<T: Send + 'static>(values: impl IntoIterator<Item = Box<T>>) {
    Global.retire_all(values);
}

/// [`retire`] for a value that readers still reference, so that it must not be a `Box`.
///
/// For data structures that unlink their own nodes.
///
/// # Safety
///
/// `value` comes from a `Box`. It is not freed otherwise, and not used after the sections that are open now.
#[inline]
#[track_caller]
pub unsafe fn retire_raw<T: Send + 'static>(value: NonNull<T>, options: DeferOptions) {
    // SAFETY: the caller's contract.
    unsafe { Global.retire_raw(value, options) };
}

/// Blocks until all callbacks have run, and all retired values have been dropped, that any thread deferred before.
///
/// Call it before code or data goes away that callbacks use, or at the end of a test. Callbacks of *other* domains may
/// call it: the destructor of a structure that owns an [`srcu::Domain`](crate::srcu::Domain) drains that domain
/// wherever the destructor runs. Two callbacks that each wait for the callbacks of the other's domain deadlock, as two
/// threads that join each other.
///
/// # Panics
///
/// Inside a section, and in a callback of the same domain, where it would wait for itself. Also if the kernel denies
/// the heavy fence, which worked before.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use stillpoint::rcu;
///
/// static CALLED: AtomicBool = AtomicBool::new(false);
/// rcu::call(|| CALLED.store(true, Relaxed));
/// rcu::barrier();
/// assert!(CALLED.load(Relaxed));
/// ```
pub fn barrier() {
    Global.barrier();
}

/// Sets the limits of the backlog, from now on: see [`Limits`].
///
/// Above a limit, [`call`] and [`retire`] block, and so does dropping a [`Retired`], which async code should know.
/// Inside a section, leaving the outermost one blocks instead ([`Guard::repin`] included). A thread that exits blocks
/// too. Callbacks never block.
///
/// A wait times out after ten seconds, since what it waits for may need a lock that the caller holds. The waits after
/// that time out after one millisecond, until a callback has run ([`Stats::limit_overruns`]). Inside a section of
/// *another* domain, a wait always times out after one millisecond.
///
/// ```
/// use stillpoint::rcu::{self, Limits};
///
/// rcu::set_limits(Limits { bytes: 16 << 20, ..Limits::default() });
/// ```
pub fn set_limits(limits: Limits) {
    Global.set_limits(limits);
}

/// Registers the calling thread now, instead of at its first read. Does nothing if it is registered.
///
/// # Panics
///
/// As [`enter`].
#[track_caller]
pub fn register() {
    Global::register();
}

/// Returns `true` inside a read-side critical section.
pub fn in_read_section() -> bool {
    Global::in_read_section()
}

/// Returns the counters since the start of the process.
///
/// ```
/// use stillpoint::rcu;
///
/// let before = rcu::stats();
/// rcu::synchronize();
/// assert!(rcu::stats().grace_periods > before.grace_periods);
/// ```
pub fn stats() -> Stats {
    Global.stats()
}
