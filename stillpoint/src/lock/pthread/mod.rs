//! What the package in `dropins/pthread/` needs beside [`RawMutex`](super::RawMutex) and [`Condvar`](super::Condvar).
//! No stable interface.

mod rwlock;

pub use rwlock::Shared;
#[cfg(loom)]
pub use rwlock::WordRwLock;

#[cfg(not(any(loom, stillpoint_portable)))]
pub use crate::sys::{futex_wait, futex_wake};

/// The value of a waiter's word until it is notified, once it may sleep.
#[cfg(not(loom))]
pub const NOT_NOTIFIED: u32 = super::nodes::WAITING_PARKED;

/// Returns the number of forks between the process and its first ancestor that used a lock.
#[cfg(not(loom))]
pub fn generation() -> u64 {
    super::nodes::table().generation()
}

/// The reader-writer lock with the policy of the others.
#[cfg(not(loom))]
pub type WordRwLock = rwlock::WordRwLock<super::policy::DefaultPolicy>;
