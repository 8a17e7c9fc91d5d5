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
//! handler is fine from then on, until the thread's destructors have run; [`synchronize`], [`retire`], and dropping a [`Retired`]
//! are not. A handler that interrupts the end of a section in which its thread has retired values does in its place what the
//! thread was about to do: it frees some of them, and waits if too many are left. In a library that was loaded by `dlopen(3)` the C library allocates thread-local variables at
//! their first use in a thread: another reason to register before.
//!
//! A global allocator may read in each of its calls, from the first one of the process on.
//!
//! Destructors of thread-specific data (`pthread_key_create(3)`) may read and defer too, in whatever order the C library calls
//! them. Only a thread whose *first* use of a domain comes in the last round of these destructors, the fourth in glibc, leaves its
//! reader behind.
//!
//! A thread leaves by code of this crate, and workers never end. So a shared library that contains the crate is not unmapped by
//! `dlclose(3)`.
//!
//! # Domains
//!
//! These functions are those of [`Domain`] for [`Global`]. [`domain!`](crate::domain) makes others, whose grace periods
//! wait for their own readers only. [`AnyDomain`] is the bound for code that is generic over domains of all kinds.
//!
//! # Cookies
//!
//! A [`GracePeriod`] is a moment to ask after: take one when something was unpublished, and look later whether all who
//! might have seen it are gone, wait with a timeout, or `.await` it on any executor.
//!
//! # Deferred work
//!
//! [`call`] and [`retire`] leave something to be done after a grace period; dropping a [`Retired`] does the same. Each thread
//! appends to a queue of its own, with a few plain stores. A worker, which is started when there is first something to do and
//! sleeps while there is nothing, gives all that it finds one grace period and does it. Unless much
//! is queued, its grace periods begin a millisecond apart, so that a busy writer costs the readers a thousand interrupts a second
//! at most; and it lingers for a tenth of that before the first, so that a caller that defers something and then waits in
//! [`synchronize`] leads the grace period that serves both. [`Hints::lazy`] lets work wait for company, [`barrier`] waits until all is done.
//!
//! | where | what runs there |
//! |---|---|
//! | the worker of the domain | callbacks; destructors of retired values; memory of values whose thread has nothing more to do |
//! | the thread that retires | memory of its values without destructors; destructors with [`Hints::local`] |
//!
//! What waits is bounded ([`set_limits`]): a thread that retires more waits until less is left, in [`retire`] itself, or, if it
//! retired inside a section, where it leaves the outermost one. A callback that blocks delays the work of its own domain only: each domain with work to do has a worker for itself, and one idle worker
//! remains for all.
//!
//! # Waiting
//!
//! There is one kind of waiting, not an expedited and a relaxed one. A grace period that no reader holds up takes some
//! microseconds, most of them the `membarrier` call, so a caller would gain nothing by another kind. It interrupts only CPUs
//! that run this process. Threads that cannot bear an interrupt use [`qsbr`](crate::qsbr): its grace periods interrupt no CPU. (Its worker
//! does, before it sleeps: such programs wait in [`qsbr::synchronize`](crate::qsbr::synchronize) instead of deferring.)
//!
//! # Stalls
//!
//! A grace period that has waited for 10 seconds says on the standard error for which threads, and where they registered;
//! again after 20, and so on; with the feature `tracing`, in an event if a subscriber takes it. [`set_stall_timeout`] and [`set_stall_hook`] change that; [`Stats::longest_wait`] and
//! [`Stats::stalls`] keep count.
//!
//! # Checks
//!
//! In debug builds, and with the feature `check`, every wait for a grace period asserts on return that a full one has passed,
//! by a count that is kept apart from the algorithm ([`Stats::checked`]). It costs a few atomic operations a grace period and
//! caller, and readers nothing.
//!
//! # Fork
//!
//! The child of a `fork` works at once, whatever the other threads of its parent were doing. It starts as a process with one
//! thread, the one that forked, which is still inside the sections that it was in.
//!
//! - *What was deferred before the fork is done by the parent, and there only.* The child's copies are neither run nor
//!   dropped, and its [`barrier`] does not wait for them. What the child defers it does itself, in workers that it starts
//!   when they are needed.
//! - Sections of other threads are over in the child. References that these lent to the thread that forked must not be used
//!   there.
//! - Futures that were polled before are polled again in the child, or they are not woken there.
//! - A callback that forks ends in both processes; the child runs none of those that were to come after it. In a hook for stalls
//!   the child must `exec` or `_exit`: see [`set_stall_hook`].
//!
//! Rust's standard library makes no such promise: a child cannot use `std::thread::spawn` if such a thread was starting or
//! ending at the fork. The workers here are not such threads.
//!
//! Not supported: forking in a signal handler that interrupted a function of this library; using it in a handler of
//! `pthread_atfork(3)`; and processes made past the C library's `fork` (`_Fork`, `clone`), unless they `exec`.
//!
//! # Trade-offs
//!
//! - A section that is long delays every grace period of its domain, and with them the memory that waits to be freed. It
//!   never delays readers that retire nothing.
//! - A reader that a grace period sleeps for wakes it on leaving, and yields its CPU once: a system call or two.
//! - [`synchronize`] takes a heavy fence, a look at each registered thread, and the rest of the longest open section. Ten
//!   writers who call it at once share the cost; one who calls it ten times does not. Writers in a loop should drop the
//!   [`Retired`] instead of waiting.
//! - Two threads that each wait for a grace period of a domain inside a section of the other's wait for ever. Waiting
//!   inside a section of the *same* domain panics. So it is with [`barrier`] and callbacks.
//! - What is deferred in one domain is done by one worker, one thing after the other, as whoever defers it may hold a lock that it
//!   takes. A program that defers faster than that is made to wait. Values without destructors, and those with
//!   [`Hints::local`], are freed by the threads that retire them, and several times faster.
//! - The reader's orderings rest on the compiler fence being one and on `membarrier`, which the language's memory model
//!   does not know; they are measured and tested on x86-64 only. `docs/proof.md` says what has been checked and how.
//!
//! # Sources
//!
//! McKenney and Slingwine, *Read-copy update* (1998); Desnoyers, McKenney, Stern, Dagenais and Walpole, *User-level
//! implementations of read-copy update* (2012). The grace period with one fence and one pass, and the countdown of awaited
//! readers, are argued in the source of the engine.

mod block_on;
mod cookie;
pub(crate) mod deferred;
pub(crate) mod domain;
mod fork;
mod guard;
mod pointer;
mod poller;
mod running;
pub(crate) mod stall;
mod stats;
pub(crate) mod world;

pub(crate) mod alarm;
pub(crate) mod callbacks;
pub(crate) mod check;
pub(crate) mod engine;
pub(crate) mod entry;
pub(crate) mod events;
pub(crate) mod published;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod registration;
pub(crate) mod registry;
pub(crate) mod reports;
pub(crate) mod threads;
pub(crate) mod worker_pool;

pub use callbacks::Limits;
pub use cookie::{Elapse, GracePeriod, WaitTimeoutError};
pub use deferred::Hints;
pub use domain::{Domain, Global};
#[doc(hidden)]
pub use domain::{Local, Shared, WORDS};
pub use guard::Guard;
pub use pointer::{Rcu, Retired};
pub use stall::{Stall, StalledReader, set_stall_hook, set_stall_timeout, take_stall_hook};
pub use stats::Stats;
#[doc(hidden)]
pub use threads::Sections;
pub use world::AnyDomain;
#[doc(hidden)]
pub use world::{Static, Words};

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
/// - If a thread ended inside a section (its guard was leaked): it would wait for ever.
/// - In a stall hook ([`set_stall_hook`]): a grace period waits for the hook.
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

/// Calls `f` after a grace period, in a worker thread that the library starts: when every section that is open now has
/// ended.
///
/// May be called inside a section, in a callback, in a destructor; not in a signal handler. It does not wait, unless more is
/// queued than [`set_limits`] allows and it is called outside sections and callbacks; inside a section, dropping the outermost
/// guard waits instead. Callbacks of one thread run one after the other, in order; those of several threads in any order. One
/// that panics is caught and counted ([`Stats::panics`]); a line on the standard error names its domain and its type.
///
/// Small closures (one word) need no memory of their own. Where there is no memory to queue it, the caller waits for a grace
/// period and calls `f` itself; inside a section, `f` is lost ([`Stats::lost`]). Where no worker can be started, `f` waits until
/// somebody defers something else, or for [`barrier`], which then runs it.
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
    Global::call(f);
}

/// [`call`], with [`Hints`].
#[track_caller]
pub fn call_with(f: impl FnOnce() + Send + 'static, hints: Hints) {
    Global::call_with(f, hints);
}

/// Drops `value` after a grace period. As [`call`], but without memory beyond the box; destructors run in the worker.
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
    Global::retire(value);
}

/// [`retire`], with [`Hints`].
#[inline]
#[track_caller]
pub fn retire_with<T: Send + 'static>(value: Box<T>, hints: Hints) {
    Global::retire_with(value, hints);
}

/// [`retire`] for many values.
#[track_caller]
pub fn retire_all<T: Send + 'static>(values: impl IntoIterator<Item = Box<T>>) {
    Global::retire_all(values);
}

/// [`retire`] for a value that readers still hold references to, so that it must not be a `Box`, which claims to be the only
/// one: for data structures that unlink their own nodes.
///
/// # Safety
///
/// `value` comes from a `Box`. Nobody frees it otherwise, and nobody uses it after the sections that are open now.
#[inline]
#[track_caller]
pub unsafe fn retire_raw<T: Send + 'static>(value: core::ptr::NonNull<T>, hints: Hints) {
    // SAFETY: the caller's contract.
    unsafe { Global::retire_raw(value, hints) };
}

/// Waits until all callbacks have run, and all values have been dropped, that were deferred before, by any thread.
///
/// Before code or data goes away that callbacks use, or at the end of a test.
///
/// # Panics
///
/// - Inside a section, or a callback of the same domain: it would wait for itself.
/// - If a thread ended inside a section (its guard was leaked): it would wait for ever.
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
    Global::barrier();
}

/// How much may wait to be done, from now on. See [`Limits`].
///
/// Above, a caller of [`call`] or [`retire`] waits, and so does dropping a [`Retired`], which async code should know. Inside a
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
    Global::set_limits(limits);
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
