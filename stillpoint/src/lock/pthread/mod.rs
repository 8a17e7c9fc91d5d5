//! What the package in `pthread/` needs beside [`RawMutex`](super::RawMutex) and [`Condvar`](super::Condvar). No stable
//! interface.

pub mod rwlock;

/// The value of a waiter's word until it is notified.
#[cfg(not(loom))]
pub const NOT_NOTIFIED: u32 = super::mutex::nodes::WAITING;

/// The reader-writer lock with the policy of the others.
#[cfg(not(loom))]
pub type WordRwLock = rwlock::WordRwLock<super::policy::DefaultPolicy>;
