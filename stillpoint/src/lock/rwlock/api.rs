//! The reader-writer lock by itself, and the types made of it.

use core::fmt;

use super::gate::RawRw;
use crate::lock::policy::DefaultPolicy;

/// The lock by itself, of 56 bytes, for [`lock_api::RwLock`].
///
/// ```
/// static RATES: lock_api::RwLock<stillpoint::lock::RawRwLock, [f64; 2]> = lock_api::RwLock::new([1.0, 1.5]);
///
/// RATES.write()[1] = 1.25;
/// assert_eq!(RATES.read()[1], 1.25);
/// ```
pub struct RawRwLock(pub(in crate::lock) RawRw<DefaultPolicy>);

/// A reader-writer lock around a value, for values that are read far more often than written.
///
/// A read lock and its release take some nanoseconds, and do not slow down other readers, on however many CPUs: each
/// reader counts itself on its own CPU, once the lock has been read often without a write in between. Before that,
/// and for one thread that also writes, it costs what a lock of one word does. A writer waits for the readers that it
/// finds; readers that come later wait for the writer. So neither readers nor writers can starve the others.
///
/// # Upgradable reads
///
/// An upgradable read excludes writers and other upgradable reads, but not reads. It can become a write without a
/// writer in between.
///
/// # Recursive reads
///
/// A thread that holds the lock for reading must not call `read` again: if a writer has come in between, each waits
/// for the other. [`read_recursive`](lock_api::RwLock::read_recursive) passes a writer that waits for readers, and
/// waits only while a writer holds the lock. Such readers that keep coming may keep a writer out.
///
/// # Memory
///
/// 56 bytes and the value. After about a thousand reads without a write in between, a read allocates 128 bytes, and
/// 128 more for each CPU that the machine may ever have. They are freed with the lock. If there is no memory, reads
/// take the slow path.
///
/// # Guards
///
/// Guards stay in their threads, unless the feature `send_guard` is on. A read may end on another CPU, and, as a raw
/// lock, in another thread.
///
/// ```
/// use stillpoint::lock::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
///
/// let names = RwLock::new(vec!["a"]);
/// {
///     let (one, other) = (names.read(), names.read());
///     assert_eq!(one.len() + other.len(), 2);
///     assert!(names.try_write().is_none());
/// }
///
/// // Adds a name unless it is there. No writer can come between the check and the change.
/// let guard = names.upgradable_read();
/// if !guard.contains(&"b") {
///     let mut guard = RwLockUpgradableReadGuard::upgrade(guard);
///     guard.push("b");
///     let guard = RwLockWriteGuard::downgrade(guard);
///     assert_eq!(*names.read(), *guard);
/// }
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Shared access to the value of a [`RwLock`], until dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to the value of a [`RwLock`], until dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// Shared access to the value of a [`RwLock`], which can become exclusive, until dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").finish_non_exhaustive()
    }
}
