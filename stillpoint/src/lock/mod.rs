//! A mutex for more runnable threads than processors.
//!
//! [`Mutex`] takes four bytes, works in statics, and is used like any other. It keeps the throughput of locks that let whoever
//! runs take them, and bounds how long anyone waits, as a queue does:
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
//! A lock that is handed over in order of arrival gives each thread its turn, and collapses when the next in line does not run:
//! everybody waits for the scheduler. Locks that are taken by whoever runs, such as those of the standard library, keep going,
//! and let a thread that sleeps wait as long as others happen to be faster: a quarter of a second with 64 threads on 2
//! processors. Here threads queue, whoever runs takes the lock past the queue, and the first in the queue gets the lock when it
//! has waited for a *quantum* of a fraction of a millisecond. With `n` waiting threads nobody waits much longer than `n` quanta,
//! if the scheduler lets him run. The design is that of the queued spinlock of Linux guests (`pvqspinlock`, 2015): a
//! virtual processor there is a thread here.
//!
//! # What there is
//!
//! | type | what it is |
//! |---|---|
//! | [`Mutex`], [`MutexGuard`] | a mutex around a value: `lock`, `try_lock`, `try_lock_for`, `MutexGuard::unlock_fair`, `MutexGuard::bump`, ... |
//! | [`RawMutex`] | the lock by itself, for [`lock_api`]; for version 0.4 of it too with the feature `lock_api_04` |
//! | [`Condvar`] | waiting for something that changes under the lock |
//!
//! With the feature `lock-events`, `events()` tells what happened in locks.
//!
//! There is no poisoning: a panic under the lock releases it. Guards may be sent to other threads.
//!
//! # Trade-offs
//!
//! - Where each thread has a processor, this is a spinning lock like others; a queue that hardly ever forms gains nothing.
//! - Fairness costs throughput, up to a quarter where the lock is the bottleneck: each quantum puts one thread to sleep and another
//!   one to work. `docs/measurements.md` shows what is
//!   gained and lost, and how long the quantum is.
//! - A thread spins for some microseconds before it sleeps. Programs that must not burn a cycle want another lock.
//! - 16,383 threads of a process have a place in queues, from their first wait to their end. More wait all the same, but slowly,
//!   and with no bound.
//! - A thread that waits is a step of its queue. Where one that is the first does not run, because of its priority or a quota, the
//!   lock is given to others after some tens of milliseconds. Those that sleep behind it get no turns meanwhile: they try for the lock
//!   as anybody does, each nearly once in a second.
//! - A signal handler may use `try_lock`, and release what it took; nothing else. It must not leave other than by returning.
//! - In a library that is loaded at run time (`dlopen`), the C library allocates thread-local variables when a thread first touches
//!   them. There the first contended use of a lock by a thread, `try_lock` and releases included, may allocate, and is not for a signal
//!   handler.
//! - `try_lock` may fail although no thread holds the lock: it may be reserved for the thread that has waited longest.
//! - A lock works in one process. In memory that processes share it does not: waiters are named by numbers in a table of their process.
//!   Nor does a [`Condvar`], whose system calls are those for one process.
//! - A thread that waits for a limited time again and again, at several locks at once that nobody releases, has one place in a
//!   queue, and waits for the others without a bound.
//! - In the child of a `fork`, a lock that another thread held stays held, as usual. One that the forking thread held, or that
//!   was free, can be used, whoever waited for it in the parent. A `fork` in a signal handler that has interrupted an operation of
//!   a lock is not supported.

mod api;
mod condvar;
mod events;
mod local;
mod outside;
mod policy;
mod queue;
mod raw;
mod table;
#[cfg(test)]
mod tests;
mod word;

use core::fmt;

pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(feature = "lock-events")]
pub use events::Events;

/// What has happened in the locks of this process; for tuning. Only with the feature `lock-events`, without which nothing is
/// counted and nothing paid.
///
/// ```
/// println!("{:#?}", stillpoint::lock::events());
/// ```
#[cfg(feature = "lock-events")]
pub fn events() -> Events {
    events::read()
}

/// The lock by itself, of four bytes, for [`lock_api::Mutex`].
///
/// ```
/// static ACCOUNTS: lock_api::Mutex<stillpoint::lock::RawMutex, [i64; 2]> = lock_api::Mutex::new([10, 0]);
///
/// let mut accounts = ACCOUNTS.lock();
/// accounts[0] -= 3;
/// accounts[1] += 3;
/// ```
pub struct RawMutex(raw::Raw<policy::Shipped>);

impl fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex").finish_non_exhaustive()
    }
}

/// A mutex around a value.
///
/// ```
/// use std::time::Duration;
/// use stillpoint::lock::{Mutex, MutexGuard};
///
/// let names = Mutex::new(vec!["a"]);
/// let guard = names.lock();
/// assert!(names.try_lock_for(Duration::from_millis(1)).is_none());
/// MutexGuard::unlock_fair(guard); // to whoever has waited longest
/// assert!(names.try_lock().is_some());
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a [`Mutex`], until dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a [`Mutex`]: see [`MutexGuard::map`](lock_api::MutexGuard::map).
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// The lock as a type of its mechanisms and constants. For measuring; not stable.
#[cfg(feature = "lab")]
#[doc(hidden)]
pub mod lab {
    pub use super::events::{Event, Events, add, read, reset};
    pub use super::policy::{Policy, Shipped};
    pub use super::raw::Raw;

    /// All slots that nobody uses, until dropped: who waits meanwhile, and has none, waits outside the queues.
    #[derive(Debug)]
    pub struct Slots(Vec<u32>);

    impl Slots {
        /// Leases them.
        pub fn lease_all() -> Self {
            Self(std::iter::from_fn(|| super::table::table().lease()).collect())
        }
    }

    impl Drop for Slots {
        fn drop(&mut self) {
            self.0.iter().for_each(|&slot| super::table::table().give_back(slot));
        }
    }
}
