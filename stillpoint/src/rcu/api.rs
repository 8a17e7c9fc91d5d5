//! The functions of [`crate::rcu`]: those of the [`Global`] domain.

use core::ptr::NonNull;

use super::guard::{Global, Guard};
use crate::Domain as _;
use crate::domain::stats::Stats;
use crate::reclaim::backlog::Limits;
use crate::reclaim::options::DeferOptions;

/// Begins a read-side section, which lasts until the guard is dropped.
///
/// The first call in a thread registers it. Costs well under a nanosecond afterwards.
///
/// # Panics
///
/// If the thread cannot be registered: no memory, no thread-specific data key, or a shared library that cannot be kept loaded.
#[inline]
#[track_caller]
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
/// - In a stall hook ([`set_stall_hook`](crate::rcu::set_stall_hook)): a grace period waits for the hook.
///
/// It does not return while a leaked guard keeps a section open: see [stalls](crate::rcu#stalls).
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

/// Calls `f` after a grace period, in a worker thread that the library starts: when every section that is open now has
/// ended.
///
/// May be called inside a section, in a callback, in a destructor; not in a signal handler. It does not wait, unless more is
/// queued than [`set_limits`] allows and it is called outside sections and callbacks; inside a section, dropping the outermost
/// guard waits instead. Callbacks of one thread run one after the other, in order; those of several threads in any order. One
/// that panics is caught and counted ([`Stats::panics`]); a line on the standard error names its domain and its type.
///
/// Small closures (one word) need no memory of their own. Where no worker can be started, `f` waits until something else is
/// deferred, or for [`barrier`], which then runs it. If `f` forks, the child must `exec` or `_exit`: `f` must not return there.
///
/// # Panics
///
/// As [`enter`], if the thread is not registered yet. A process that runs out of memory aborts here, as in the standard library.
///
/// ```
/// use std::sync::mpsc::channel;
/// use stillpoint::rcu;
///
/// let (sender, receiver) = channel();
/// rcu::call(move || sender.send("nobody reads it any more").unwrap());
/// assert_eq!(receiver.recv(), Ok("nobody reads it any more"));
/// ```
#[track_caller]
pub fn call(f: impl FnOnce() + Send + 'static) {
    Global.call(f);
}

/// [`call`], with [`DeferOptions`].
#[track_caller]
pub fn call_with(f: impl FnOnce() + Send + 'static, hints: DeferOptions) {
    Global.call_with(f, hints);
}

/// Drops `value` after a grace period, in the worker. What is said of callbacks at [`call`] holds for its destructor.
///
/// A value without a destructor (no drop glue) is freed by the thread that retired it while it goes on retiring, or else by
/// the worker.
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
pub fn retire_with<T: Send + 'static>(value: Box<T>, hints: DeferOptions) {
    Global.retire_with(value, hints);
}

/// [`retire`] for many values.
#[track_caller]
pub fn retire_all<T: Send + 'static>(values: impl IntoIterator<Item = Box<T>>) {
    Global.retire_all(values);
}

/// [`retire`] for a value that readers still hold references to, so that it must not be a `Box`, which claims to be the only
/// one: for data structures that unlink their own nodes.
///
/// # Safety
///
/// `value` comes from a `Box`. Nobody frees it otherwise, and nobody uses it after the sections that are open now.
#[inline]
#[track_caller]
pub unsafe fn retire_raw<T: Send + 'static>(value: NonNull<T>, hints: DeferOptions) {
    // SAFETY: the caller's contract.
    unsafe { Global.retire_raw(value, hints) };
}

/// Waits until all callbacks have run, and all values have been dropped, that were deferred before, by any thread.
///
/// Before code or data goes away that callbacks use, or at the end of a test.
///
/// # Panics
///
/// Inside a section, or a callback of the same domain: it would wait for itself. And if the kernel denies the heavy fence, which
/// worked before.
///
/// Callbacks of other domains may wait: the destructor of a structure that owns an [`srcu::Domain`](crate::srcu::Domain) drains
/// that domain, wherever the destructor runs. Two callbacks that each wait for the callbacks of the other's domain wait for
/// ever, as two threads that join each other.
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

/// How much may wait to be done, from now on. See [`Limits`].
///
/// Above, a caller of [`call`] or [`retire`] waits, and so does dropping a [`Retired`](crate::rcu::Retired), which async code should know. Inside a
/// section it waits on leaving the outermost one ([`Guard::repin`] leaves it too), in a callback never. It does not wait for ever, as what keeps the readers, or a callback, may be a
/// lock that the caller holds: after ten seconds in vain it goes on, and so do others, after a millisecond each, until
/// anything at all has been done ([`Stats::limit_overruns`]). A caller inside a section of *another* domain waits for a
/// millisecond only. A thread that ends waits too.
///
/// ```
/// use stillpoint::rcu::{self, Limits};
///
/// rcu::set_limits(Limits { bytes: 16 << 20, ..Limits::default() });
/// ```
pub fn set_limits(limits: Limits) {
    Global.set_limits(limits);
}

/// Registers the calling thread now, not when it first reads. Nothing if it is registered.
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
    Global.stats()
}
