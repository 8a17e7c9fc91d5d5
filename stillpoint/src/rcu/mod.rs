//! Read-copy update: reads take about a nanosecond and wait for no writer; writers wait for a *grace period*.
//!
//! A reader begins a *read-side critical section* ([`enter`]), a section for short. It loads pointers ([`Rcu::load`])
//! and uses the values behind them until it drops the guard. A writer publishes a new value ([`Rcu::replace`]) and
//! disposes of the old one after a grace period: when every section that was open at the replacement has ended.
//! Readers write only to a cache line of their own, take no lock and execute no fence. Instead, each grace period
//! makes every running thread of the process execute a fence, by one call of [`fence::heavy`](crate::fence::heavy),
//! or two if readers hold it up.
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
//! # Pointers
//!
//! | type | for |
//! |---|---|
//! | [`Rcu`] | a value that many threads read: read it with [`load`](Rcu::load), or [`read`](Rcu::read) without a guard of its own |
//! | [`RcuOption`] | a value that may be missing, and statics |
//! | `Rcu<dyn Trait>`, `Rcu<[T]>`, `Rcu<str>` | a value without a size, from a `Box` |
//! | [`Ref`] | a reference that brings its section with it |
//! | [`Retired`], [`Reclaim`] | a value that has been replaced: drop it, wait for it, or `.await` it |
//! | [`GracePeriod`] | a *cookie*, a number that stands for a grace period: take one after unpublishing something, and later poll it, wait for it with or without a timeout, or `.await` it on any executor |
//! | [`Atomic`], [`Owned`], [`Shared`] | lists, maps and queues whose nodes threads link and unlink; [`Domain::retire_shared`](crate::Domain::retire_shared) frees an unlinked node after a grace period |
//!
//! # Threads
//!
//! A thread registers itself at its first read, and unregisters when it exits. Destructors of thread-specific data
//! (`pthread_key_create(3)`) may read and defer too. A thread that uses a domain for the *first* time in the last
//! round of these destructors, the fourth in glibc, leaks its reader record.
//!
//! A global allocator may read in any of its calls, even in the first one of the process.
//!
//! # Signal handlers
//!
//! A handler may read if its thread is registered and has not yet run its thread-local destructors. Registering may
//! allocate, and a library that was loaded by `dlopen(3)` allocates its
//! thread-local variables at their first use: so call [`register`] before. A handler must not call [`synchronize`],
//! [`retire`] or [`hint_idle`], nor drop a [`Retired`]. If it interrupts the end of a section in which its thread
//! retired values, it does the work that was due there: it frees some of them, and blocks if too many remain.
//!
//! # Domains
//!
//! The functions of this module use the domain [`Global`]. [`domain!`](crate::domain) defines further domains, whose
//! grace periods wait for their own readers only. The trait [`Domain`](crate::Domain) has the operations of all
//! domains, for generic code.
//!
//! # Deferred callbacks
//!
//! [`call`] and [`retire`] run a callback or a destructor after a grace period; so does dropping a [`Retired`]. Each
//! thread appends to its own queue, by a few plain stores. A worker thread, started by the first callback of the
//! domain, waits for one grace period for all that is queued, then runs it. It begins at most a thousand grace periods
//! a second, unless the backlog is long, and waits 0.1 ms before the first: so if a thread defers something and then
//! calls [`synchronize`], the grace period of that call serves both. [`barrier`] waits until all have run.
//!
//! **The end of the program does not wait for them**: what is still queued when `main` returns neither runs nor is
//! dropped. If that matters, end `main` with [`barrier`], and with [`Domain::barrier`](crate::Domain::barrier) for
//! each further domain.
//!
//! | thread | work |
//! |---|---|
//! | the worker of the domain | runs callbacks and destructors of retired values; frees values of threads that defer nothing more |
//! | the retiring thread | frees its values without destructors; runs destructors with [`DeferOptions::run_on_retiring_thread`] |
//!
//! The backlog is [bounded](crate::Domain::set_limits): above the limits, a retiring thread blocks until less is left,
//! but for ten seconds at most, or tasks [wait](crate::Domain::below_limit). [What a value counts
//! for](Limits#what-a-value-counts-for) depends on its type. A callback that blocks delays callbacks of its own domain
//! only, and those of others by ten milliseconds: as many domains as there are CPUs have workers of their own, and all
//! others share one, or get another ten milliseconds after that has blocked. One idle worker thread is kept for all
//! domains. None is ever started after [`start_no_threads`].
//!
//! Workers do not inherit how the thread that defers first is scheduled. They have the normal policy, and the CPUs
//! and the nice value of the main thread. If the main thread is bound to one CPU, they have the CPUs with which the
//! program was started. Where the system denies that (a lower nice value takes a privilege), they inherit it after
//! all. Workers block all signals: see [`call`].
//!
//! # Waiting
//!
//! There is no separate expedited grace period: each one is expedited. One that no reader delays takes little more
//! than its `membarrier` call: some microseconds if no other thread of the process runs, and 15 to 30 us next to
//! running ones (measured in virtual machines). It interrupts only other CPUs that run this process. If some threads
//! cannot tolerate interrupts, the whole process must do without `rcu`, `srcu` and
//! [`fence::heavy`](crate::fence::heavy), and wait by [`synchronize`](crate::Domain::synchronize) of a domain of
//! [`qsbr`](crate::qsbr): workers of callbacks issue heavy fences in `qsbr` too.
//!
//! # Stalls
//!
//! A grace period that has waited for 10 seconds reports on standard error which threads it waits for and where they
//! registered, again after 20, and so on; with the feature `tracing`, a subscriber gets an event instead.
//! [`set_stall_timeout`] and [`set_stall_hook`] change that. [`Stats::stalls`] counts the reports, and
//! [`Stats::longest_wait`] is the longest wait so far.
//!
//! With the feature `section-locations`, a report also says where the sections began ([`StalledReader::section_at`]).
//! Each section then stores its place in its thread's reader. Without the feature, readers execute the same
//! instructions as if there were none.
//!
//! A leaked guard (`mem::forget`, `Box::leak`) may have lent references for ever, so its section never ends: grace
//! periods of the domain wait for it, and nothing is freed, even after its thread has exited
//! ([`StalledReader::has_exited`]). If a late destructor of the thread drops the guard, grace periods end again.
//!
//! # Checks
//!
//! In debug builds every wait asserts that a grace period has begun and ended since it was requested, by a count that
//! is independent of how callers share grace periods. That costs each grace period and each caller a few atomic
//! operations, and readers nothing.
//!
//! # Fork
//!
//! The child of a `fork` can use the library at once, whatever other threads of its parent were doing. It starts with
//! one thread, which is still inside the sections in which it forked.
//!
//! - *Callbacks deferred before the fork run in the parent only.* The child neither runs nor drops its copies, and
//!   its [`barrier`] does not wait for them. The child starts workers of its own.
//! - Sections of other threads are over in the child. References that they lent to the forking thread must not be
//!   used there.
//! - Futures that were polled before the fork must be polled again in the child to be woken there.
//! - Callbacks, destructors of retired values, wakers and [stall hooks](set_stall_hook) may fork, but must not return
//!   in the child, which must `exec` or `_exit`.
//!
//! The library does not start its workers with `std::thread::spawn`, which a child must not call if another thread of
//! the parent was starting or exiting at the fork.
//!
//! Not supported: a fork in a signal handler that interrupted a function of this library; use in handlers of
//! `pthread_atfork(3)`; processes created without the C library's `fork` (`_Fork`, `clone`), unless they `exec`.
//!
//! # Trade-offs
//!
//! - A long section delays every grace period of its domain, and so the freeing of memory. It delays other readers
//!   only by the yield below, and by the limit of the backlog if they retire values.
//! - A reader that a sleeping grace period waits for counts down when it leaves its section, and yields its CPU
//!   (`sched_yield(2)`); the last one wakes the leader. Where registered threads outnumber CPUs, those that the grace
//!   period does not wait for yield too, each when it next leaves a section, and up to three times. A reader may thus
//!   lose its CPU for a few time slices: the writer's latency is bought with the reader's. Threads with a real-time
//!   policy do not yield, as that would be for longer; idle threads that are registered count, until they call
//!   [`hint_idle`].
//! - [`synchronize`] costs a heavy fence, a look at each registered thread that is not idle ([`hint_idle`]), and the
//!   rest of the longest open section. Concurrent callers share that cost; consecutive calls do not. A writer in a
//!   loop should drop the [`Retired`] instead of waiting.
//! - Two threads deadlock if one waits for a grace period of domain B inside a section of domain A, and the other for
//!   one of A inside a section of B. Waiting inside a section of the *same* domain panics. Likewise for callbacks
//!   that call [`barrier`]: two that wait for each other's domains deadlock, one that waits for its own panics. A
//!   barrier may also wait for a section that begins after it: so no section waits for a thread that is inside
//!   `barrier`.
//! - One worker runs the callbacks of a domain one after the other, since the thread that deferred one may hold a
//!   lock that the callback takes. A program that defers faster is throttled. Values without destructors, and those
//!   with [`DeferOptions::run_on_retiring_thread`], are freed by the threads that retire them, several times faster.
//! - The readers' orderings rely on the compiler fence and on `membarrier`, which the language's memory model does
//!   not cover. They are measured and tested on x86-64 only. `docs/proof.md` says what has been checked and how.
//!
//! # Sources
//!
//! McKenney and Slingwine, *Read-copy update* (1998); Desnoyers, McKenney, Stern, Dagenais and Walpole, *User-level
//! implementations of read-copy update* (2012). The comments in the source (`grace_period/engine.rs`,
//! `readers/sections/scan.rs`) explain why the algorithm is correct.

mod atomic;
mod exchange_error;
#[cfg(feature = "_capi")]
#[doc(hidden)]
pub mod foreign;
mod grace_period;
mod guard;
#[cfg(feature = "_lab")]
#[doc(hidden)]
pub mod lab;
mod option;
mod pointer;
pub(crate) mod published_ptr;
mod reference;
mod retired;
#[cfg(all(test, target_os = "linux", target_arch = "x86_64", not(miri)))]
mod tests;

use crate::Domain as _;
use crate::domain::options::known;
use crate::reclaim::pool;

pub use atomic::Atomic;
pub use exchange_error::CompareExchangeError;
pub use grace_period::{Elapse, GracePeriod};
pub use guard::{Global, Guard};
pub use option::RcuOption;
pub use pointer::Rcu;
pub use reference::Ref;
pub use retired::{Reclaim, Retired};

pub use crate::domain::options::DeferOptions;
pub use crate::domain::static_domain::StaticDomain;
pub use crate::domain::stats::Stats;
pub use crate::grace_period::stall::{Stall, StalledReader, set_stall_hook, set_stall_timeout};
pub use crate::pointer::owned::Owned;
pub use crate::pointer::shared::Shared;
pub use crate::reclaim::backlog::Limits;

// For the macros that define domains.
#[doc(hidden)]
pub use crate::domain::static_domain::{DomainState, HazardState, ThreadState};
#[doc(hidden)]
pub use crate::readers::sections::protocol::ReaderProtocol;

/// Begins a read-side critical section, which ends when the guard is dropped.
///
/// Takes less than a nanosecond, some 20 ns after [`hint_idle`], and longer for the first call in a thread, which
/// registers it.
///
/// # Panics
///
/// If the thread cannot be registered: there is no memory or no thread-specific data key, or the shared library that
/// contains this crate cannot be kept loaded.
#[doc(alias("pin", "rcu_read_lock"))]
#[inline]
#[track_caller]
pub fn enter() -> Guard {
    Global::enter()
}

/// Blocks until every section that is open now has ended.
///
/// Concurrent callers share grace periods. Deferred callbacks are not waited for. While a leaked guard keeps a
/// section open, this does not return: see [stalls](self#stalls).
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
#[doc(alias = "synchronize_rcu")]
#[track_caller]
pub fn synchronize() {
    Global.synchronize();
}

/// Calls `f` in a worker thread of the library after a grace period: when every section that is open now has ended.
///
/// May be called inside sections, callbacks and destructors, but not in signal handlers. Does not block, unless the
/// backlog is above its limit: see [`Domain::set_limits`](crate::Domain::set_limits). With options:
/// [`Domain::call_with`](crate::Domain::call_with) of [`Global`].
///
/// Callbacks of one thread run in order, one after the other; callbacks of several threads run in any order. A panic
/// in a callback is caught and counted ([`Stats::panics`]), and a line on standard error names its domain and its
/// type. If `f` forks, the child must `exec` or `_exit`.
///
/// **A process that `f` starts blocks all signals**, as the worker does, so `SIGTERM` does not end it:
/// [`Command`](std::process::Command) leaves the mask as it is. Start processes in a thread of the program instead,
/// or unblock the signals in the child, by `sigprocmask(2)` in
/// [`pre_exec`](std::os::unix::process::CommandExt::pre_exec).
///
/// A closure of at most one word needs no allocation. If there is no worker, and none can be started, `f` waits until
/// something else is deferred (four milliseconds later, as no thread is started sooner), or until [`barrier`] runs
/// it.
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
#[doc(alias("call_rcu", "defer"))]
#[track_caller]
pub fn call(f: impl FnOnce() + Send + 'static) {
    Global.call(f);
}

/// Drops `value` after a grace period, in the worker. Its destructor is a callback: see [`call`].
///
/// For a box whose destructor releases something that readers use. A value that readers reference is retired by
/// dropping what [`Rcu::replace`] returns, or by [`Domain::retire_shared`](crate::Domain::retire_shared).
///
/// A value without a destructor (no drop glue) is freed by the thread that retired it if that thread continues to
/// retire, or else by the worker.
///
/// ```
/// use stillpoint::rcu;
///
/// rcu::retire(Box::new([0_u8; 100]));
/// ```
#[doc(alias("kfree_rcu", "defer_destroy"))]
#[inline]
#[track_caller]
pub fn retire<T: Send + 'static>(value: Box<T>) {
    Global.retire(value);
}

/// Blocks until all callbacks have run, and all retired values have been dropped, that any thread deferred before.
///
/// Call it before code or data goes away that callbacks use, at the end of a test, and at the end of `main`: the end
/// of the program does not wait for what is still queued. (What callbacks themselves defer needs another call.)
/// Callbacks of *other* domains may call it: the destructor of a structure that owns an
/// [`srcu::Domain`](crate::srcu::Domain) drains that domain wherever the destructor runs. Two callbacks that each
/// wait for the callbacks of the other's domain deadlock, as two threads that join each other. So do a reader that
/// waits for a barrier of another thread, and the barrier, which may wait for readers that have begun later.
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
#[doc(alias = "rcu_barrier")]
#[track_caller]
pub fn barrier() {
    Global.barrier();
}

/// From now on, the library starts no thread in this process, nor in children of its forks, for any domain. Threads
/// that it has started stay: call this first.
///
/// For language runtimes, plugins, and other code that does not own its process. There is no way back. The program
/// does the worker's work:
///
/// | call | without threads |
/// |---|---|
/// | [`Domain::poll`](crate::Domain::poll) | runs what is deferred, a bounded amount at a time |
/// | [`barrier`] | runs it all in its caller, whatever thread deferred it |
/// | [`call`], [`retire`], and others that defer | run what [may run there](DeferOptions), as always; the rest waits |
/// | those above the [limits](crate::Domain::set_limits) | wait for one grace period, at most as long as else, free what they may, and go on |
/// | futures of grace periods and barriers | block in their first poll |
/// | [`Domain::below_limit`](crate::Domain::below_limit) | is ready above the limits, too |
/// | [`GracePeriod::start`] | starts nothing |
///
/// ```
/// use stillpoint::Domain as _;
/// use stillpoint::rcu::{self, Global, Rcu};
///
/// rcu::start_no_threads();
///
/// let routes = Rcu::new(vec!["a"]);
/// drop(routes.replace(vec!["b"]));
/// // At a safepoint:
/// while Global.poll() {}
/// ```
pub fn start_no_threads() {
    pool::start_no_threads();
}

/// Returns what dropping the value frees on the heap, if the library knows it, without the value itself.
///
/// The library knows it of these types; the limits of the backlog [count it](Limits#what-a-value-counts-for):
///
/// - all types without destructors (no drop glue): 0;
/// - `String`, `Box<str>`;
/// - `Vec<T>` and `Box<[T]>`, where `T` is an integer, a float, `bool`, `char` or `&'static str`.
///
/// For other types, see [`DeferOptions::heap_bytes`].
///
/// ```
/// use stillpoint::rcu;
///
/// assert_eq!(rcu::known_heap_bytes(&vec![0_u8; 4096]), Some(4096));
/// assert_eq!(rcu::known_heap_bytes(&Some(String::new())), None);
/// ```
pub fn known_heap_bytes<T: ?Sized + Sync + 'static>(value: &T) -> Option<usize> {
    known(value)
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

/// Hints that the calling thread will not read for a while, so that grace periods need not look at it.
///
/// A grace period looks at each registered thread, whether it is reading or not, which takes some nanoseconds for
/// each: a thread that blocks, or has not read for long, is not idle by itself. After this call grace periods skip
/// the thread until its next section. That section takes some 20 ns more than others, and longer if many threads do
/// this at the same time. A thread that is about to block for long may call this, if there are thousands of such
/// threads; with few threads it gains nothing. Threads that have exited are skipped anyway. The worker that runs
/// callbacks still looks at the queues of idle and exited threads.
///
/// Does nothing inside a section, and in a thread that is not registered. Must not be called in signal handlers.
///
/// ```
/// use stillpoint::rcu;
///
/// fn wait_for_work() {
///     rcu::hint_idle();
///     // Blocks.
/// }
/// # wait_for_work();
/// ```
pub fn hint_idle() {
    Global::hint_idle();
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
