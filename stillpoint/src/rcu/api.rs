//! The functions of [`crate::rcu`]: those of the [`Global`] domain.

use core::ptr::NonNull;

use super::guard::{Global, Guard};
use crate::Domain as _;
use crate::domain::stats::Stats;
use crate::reclaim::backlog::Limits;
use crate::reclaim::options::DeferOptions;

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
/// open, this does not return: see [stalls](crate::rcu#stalls).
///
/// # Panics
///
/// Inside a section, where it would wait for itself, and in a [stall hook](crate::rcu::set_stall_hook), which a grace
/// period waits for.
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

/// [`retire`] for a value that readers still reference, which a `Box` would claim to own alone: for data structures
/// that unlink their own nodes.
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

/// Sets the limits of the backlog, from now on. See [`Limits`].
///
/// Above a limit, callers of [`call`] and [`retire`] block, and so does dropping a [`Retired`](crate::rcu::Retired),
/// which async code should know. Inside a section, leaving the outermost one blocks instead ([`Guard::repin`] leaves it
/// too); in a callback nothing does. A thread that exits blocks too.
///
/// The wait is bounded, since what it waits for may need a lock that the caller holds. It times out after ten seconds,
/// and for the callers after that each after one millisecond, until any callback has run ([`Stats::limit_overruns`]).
/// Inside a section of *another* domain it always times out after one millisecond.
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
