//! A mutex for more runnable threads than CPUs, and a reader-writer lock with per-CPU readers.
//!
//! [`Mutex`] takes four bytes, and works in statics. It has the throughput of locks that running threads take
//! whenever they are free, and bounds the waits like a queue:
//!
//! ```
//! use stillpoint::lock::Mutex;
//!
//! static TOTAL: Mutex<u64> = Mutex::new(0);
//!
//! std::thread::scope(|s| {
//!     for n in 1..=4 {
//!         s.spawn(move || *TOTAL.lock() += n);
//!     }
//! });
//! assert_eq!(*TOTAL.lock(), 10);
//! ```
//!
//! # Why another mutex
//!
//! A FIFO lock serves each thread in turn. Its throughput collapses when the next thread does not run, because all
//! threads wait for the scheduler. Locks that running threads take, such as those of the standard library, keep their
//! throughput, but a sleeping thread waits as long as others are faster: a quarter of a second with 64 threads on 2
//! CPUs. Here threads that contend yield their CPUs to each other every 50 us. Those that wait for longer queue,
//! running threads take the lock past the queue, and the head of the queue gets the lock when it has waited for a
//! *quantum* of a fraction of a millisecond. With `n` threads in the queue, a wait takes about `n` times a quantum, a
//! critical section, and the time for which a woken head waits for a CPU, added up. That time is the scheduler's, and
//! the largest of the three where threads also work outside the lock.
//!
//! The design is derived from the queued spinlock of Linux guests (`pvqspinlock`, 2015), with a thread for each
//! virtual CPU. There a waiter tries to steal the lock once, before it queues, and a spinning head forbids that at
//! once. Here threads steal as often as they find the lock free, until the head's quantum is over.
//!
//! # Contents
//!
//! | type | purpose |
//! |---|---|
//! | [`Mutex`], [`MutexGuard`] | a mutex around a value, with fair releases and timeouts |
//! | [`RawMutex`] | the lock by itself, for [`lock_api`]; for its version 0.5 too with the feature `lock_api_05` |
//! | [`Condvar`] | waiting for a condition that changes under the lock |
//! | [`RwLock`], [`RwLockReadGuard`], [`RwLockWriteGuard`], [`RwLockUpgradableReadGuard`] | a reader-writer lock around a value |
//! | [`RawRwLock`] | the same by itself |
//!
//! There is no poisoning: a panic under the lock releases it. A guard stays in its thread, unless the feature
//! `send_guard` is on.
//!
//! # Trade-offs
//!
//! - If each thread has a CPU, the queue hardly ever forms, and this is a spinning lock like others.
//! - Where the lock is not the bottleneck, fairness costs up to a tenth of the throughput: `docs/measurements.md` has
//!   the figures.
//! - A thread spins for some microseconds and yields its CPU before it sleeps, which costs CPU time. While threads
//!   contend, each yields its CPU every 50 us, unless it waits for a [`Condvar`] now and then, and up to eight times
//!   before it sleeps. Beside other busy programs, the scheduler lets these run first, for a time slice of some
//!   milliseconds each. (Threads that were notified shortly before stop yielding for 50 ms when one has lost its CPU
//!   for that long.) A thread that holds another lock delays its waiters by that time, and a timed wait may take
//!   as much longer. Threads that have a deadline or a real-time priority do not yield, nor do those that are bound
//!   to one CPU, except in timed waits.
//! - A thread that waits for a [`Condvar`] spins for up to twelve microseconds before it sleeps, or for two if more
//!   threads than CPUs have waited for one; less often if that has had no success. In a process with one CPU, no
//!   thread spins.
//! - A contended acquisition calls `sched_getscheduler`, `sched_getaffinity`, `sched_yield`, `futex` and the clock, a
//!   notification `getrusage`. A seccomp filter may deny the first three by an error. A filter that kills the process
//!   has to allow them.
//! - 16,383 threads of a process can queue, each from its first wait until it exits. Further threads poll
//!   the lock, or their condition: each millisecond, or each 0.2 ms times their number if that is longer. Their waits
//!   have no bound. A thread whose last wait was in vain, and that exits, leaves its place in the queue until the
//!   lock is next handed to that place. While there are 4,096 of these, timed waits for locks poll.
//! - If the head of the queue does not run, because of its priority or a quota, threads that arrive get the lock
//!   after some tens of milliseconds. Threads that are parked behind the head wait until it runs.
//! - A signal handler may call `try_lock`, and release what it took; nothing else. If a handler waits for a lock, its
//!   holder may be waiting for the thread that the handler has interrupted. A handler must end by returning.
//! - In a library that is loaded at run time (`dlopen`), the C library allocates thread-local variables when a thread
//!   first uses them. There the first contended operation of a thread, `try_lock` and releases included, may
//!   allocate, and must not be in a signal handler.
//! - `try_lock` may fail although no thread holds the lock: it may be reserved for the thread that has waited
//!   longest.
//! - A lock works in one process, not in shared memory: waiters are named by numbers in a table of their process. A
//!   [`Condvar`] is process-private too.
//! - A thread that is preempted while it changes the list of a [`Condvar`]'s waiters, which takes some nanoseconds
//!   for each, delays the others that wait or notify there.
//! - A thread that repeats timed waits at several locks, while no thread releases them, has a place in one of the
//!   queues, and polls the others. A timed wait whose time is over before the thread has spun leaves no place: it is
//!   an attempt like `try_lock`.
//! - In the child of a `fork`, a lock that another thread held stays held, as usual. A lock that the forking thread
//!   held, or that was free, can be used, whatever threads waited for it in the parent. Forks in signal handlers that
//!   have interrupted an operation of a lock are not supported.
//!
//! # The reader-writer lock
//!
//! A [`RwLock`] is one word until it is read often without a write in between, or by threads that overlap. From then
//! on its readers count themselves on their CPU, so they do not slow each other down. A writer queues as for a
//! [`Mutex`], shuts the readers out, executes [`fence::heavy`](crate::fence::heavy) if the lock has been read often
//! since the last write, and waits until the readers that it found have left. When it releases the lock, all readers
//! that sleep are admitted, before the next writer.
//!
//! - A write after many reads costs a heavy fence: half a microsecond to some ten microseconds, and an interrupt of
//!   each CPU that runs the process. While a lock is written often, each reader executes a full fence instead.
//! - Readers that wait, and writers that wait for readers, spin for some microseconds, then yield their CPUs up to
//!   eight times, then sleep.
//! - Where the kernel lacks or denies `membarrier`, readers execute fences; where rseq is missing, atomic
//!   instructions. If `membarrier` is denied after it was chosen, a write that needs a fence ends the process, as
//!   `lock_api` 0.4 may not unwind there; a write with a time limit panics and releases the lock, and so does any
//!   write of `lock_api` 0.5.
//! - A signal handler may call `try_read`, and unlock what it has read; nothing else. In a library that is loaded at
//!   run time, the first read of a thread must not be in a handler. If the C library does not register rseq, its
//!   thread must have called [`percpu::register_thread`](crate::percpu::register_thread) before, which allocates.
//! - Reads of the parent's other threads last for ever in the child of a `fork`. The child must not use a lock after
//!   it has released it if other threads were within `read` or `try_read`, or waited for a lock that the forking
//!   thread held.
//! - The memory of the lock must not be freed before an unlock has returned. References ensure it.

mod condvar;
mod events;
mod mutex;
mod nodes;
mod patience;
mod policy;
#[cfg(any(feature = "_pthread", loom))]
#[doc(hidden)]
pub mod pthread;
#[cfg(not(loom))]
mod raw_locks;
mod rwlock;
mod spin;
#[cfg(all(test, not(loom)))]
mod tests;
mod waiter;

pub use condvar::Condvar;
#[cfg(not(loom))]
pub use condvar::WaitTimeoutResult;
#[cfg(not(loom))]
pub use mutex::api::{Mutex, MutexGuard, RawMutex};
#[cfg(not(loom))]
pub use rwlock::api::{RawRwLock, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

/// The lock with other policies, for measurements. Not stable.
#[cfg(feature = "_lab")]
#[doc(hidden)]
pub mod lab {
    pub use super::mutex::raw::Raw;
    pub use super::nodes::AllNodes;
    pub use super::policy::{DefaultPolicy, Policy};
}

/// The parts that the models in `tests/loom/lock.rs` check.
#[cfg(loom)]
pub mod model {
    pub use super::mutex::raw::Raw;
    pub use super::nodes::{ABANDONED, CAPACITY, DEAD, HEAD, IDLE, table};
    pub use super::policy::Policy;
    pub use super::rwlock::gate::{RawRw, Timeout};
    pub use super::waiter::{Waiter, with as with_waiter};
}
