//! The reader-writer lock as a [`lock_api`] raw lock, and the types made of it.

use core::fmt;
use std::time::{Duration, Instant};

use super::gate::{RawRw, Timeout};
use crate::lock::mutex::api::{after, at};
use crate::lock::policy::DefaultPolicy;

#[cfg(feature = "lock_api_05")]
mod api_05;

/// A reader-writer lock by itself, for [`lock_api::RwLock`]. If `RECURSIVE`, every read is recursive.
pub struct RawRwLockOf<const RECURSIVE: bool>(RawRw<DefaultPolicy>);

/// The lock by itself, of 64 bytes, for [`lock_api::RwLock`].
///
/// ```
/// static RATES: lock_api::RwLock<stillpoint::lock::RawRwLock, [f64; 2]> = lock_api::RwLock::new([1.0, 1.5]);
///
/// RATES.write()[1] = 1.25;
/// assert_eq!(RATES.read()[1], 1.25);
/// ```
pub type RawRwLock = RawRwLockOf<false>;

/// The lock by itself, with recursive reads: see [`RecursiveRwLock`].
pub type RawRwLockRecursive = RawRwLockOf<true>;

/// A reader-writer lock around a value, for values that are read far more often than written.
///
/// A read lock and its release take some nanoseconds, and do not slow down other readers, on however many CPUs: each
/// reader counts itself on its own CPU. A writer waits for the readers that it finds; readers that come later wait for
/// the writer. So neither readers nor writers can starve the others.
///
/// # Upgradable reads
///
/// An upgradable read excludes writers and other upgradable reads, but not reads. It can become a write without a
/// writer in between.
///
/// # Recursive reads
///
/// A thread that holds the lock for reading must not lock it again: if a writer has come in between, each waits for the
/// other. [`RecursiveRwLock`] allows it.
///
/// # Memory
///
/// 64 bytes and the value. After about 128 reads without a write in between, a read allocates 128 bytes, and 128 more
/// for each CPU that the machine may ever have. They are freed with the lock. If there is no memory, reads take the slow
/// path.
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

/// Shared access to a part of the value of a [`RwLock`]: see
/// [`RwLockReadGuard::map`](lock_api::RwLockReadGuard::map).
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// Exclusive access to a part of the value of a [`RwLock`]: see
/// [`RwLockWriteGuard::map`](lock_api::RwLockWriteGuard::map).
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`RwLock`] whose readers may lock it again. Readers that keep coming may keep a writer out.
///
/// A read succeeds while a writer waits for readers, and waits only while a writer holds the lock.
///
/// ```
/// use stillpoint::lock::RecursiveRwLock;
///
/// let words = RecursiveRwLock::new(vec!["a", "b"]);
/// let outer = words.read();
/// std::thread::scope(|scope| {
///     scope.spawn(|| words.write().push("c"));
///     // Whether or not the writer waits already:
///     let inner = words.read();
///     drop((inner, outer));
/// });
/// assert_eq!(words.read().len(), 3);
/// ```
pub type RecursiveRwLock<T> = lock_api::RwLock<RawRwLockRecursive, T>;

/// Shared access to the value of a [`RecursiveRwLock`], until dropped.
pub type RecursiveRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLockRecursive, T>;

/// Exclusive access to the value of a [`RecursiveRwLock`], until dropped.
pub type RecursiveRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLockRecursive, T>;

/// Shared access to the value of a [`RecursiveRwLock`], which can become exclusive, until dropped.
pub type RecursiveRwLockUpgradableReadGuard<'a, T> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;

impl<const RECURSIVE: bool> fmt::Debug for RawRwLockOf<RECURSIVE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").finish_non_exhaustive()
    }
}

/// Returns when a call with a timeout gives up.
fn within(timeout: Duration) -> Timeout {
    after(timeout).map_or(Timeout::Never, Timeout::At)
}

/// Returns when a call with a time limit gives up.
fn until(instant: Instant) -> Timeout {
    at(instant).map_or(Timeout::Never, Timeout::At)
}

/// Ends the process if the fence of a write is denied: `lock_api` locks again under a live guard (`unlocked`, `bump`), which
/// must not be dropped without the lock. Version 0.5 aborts by itself in these two.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

// SAFETY: see the invariants of [`gate`](super::gate). Writers exclude each other, and upgradable readers, by the queued lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLock for RawRwLockOf<RECURSIVE> {
    const INIT: Self = Self(RawRw::new());

    #[cfg(not(feature = "send_guard"))]
    type GuardMarker = lock_api::GuardNoSend;
    #[cfg(feature = "send_guard")]
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        self.0.lock_shared::<RECURSIVE>(Timeout::Never);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.0.lock_shared::<RECURSIVE>(Timeout::Immediate)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.0.unlock_shared();
    }

    fn lock_exclusive(&self) {
        let abort = AbortOnUnwind;
        self.0.lock_exclusive(Timeout::Never);
        core::mem::forget(abort);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.lock_exclusive(Timeout::Immediate)
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's contract, here and below.
        unsafe { self.0.unlock_exclusive() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockFair for RawRwLockOf<RECURSIVE> {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.0.unlock_shared();
    }

    unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: see above.
        unsafe { self.0.unlock_exclusive_fair() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockDowngrade for RawRwLockOf<RECURSIVE> {
    unsafe fn downgrade(&self) {
        // SAFETY: see above.
        unsafe { self.0.downgrade() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockTimed for RawRwLockOf<RECURSIVE> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.0.lock_shared::<RECURSIVE>(within(timeout))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.0.lock_shared::<RECURSIVE>(until(timeout))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.0.lock_exclusive(within(timeout))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.0.lock_exclusive(until(timeout))
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockRecursive for RawRwLockOf<RECURSIVE> {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.0.lock_shared::<true>(Timeout::Never);
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.0.lock_shared::<true>(Timeout::Immediate)
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockRecursiveTimed for RawRwLockOf<RECURSIVE> {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.0.lock_shared::<true>(within(timeout))
    }

    fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
        self.0.lock_shared::<true>(until(timeout))
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgrade for RawRwLockOf<RECURSIVE> {
    fn lock_upgradable(&self) {
        self.0.lock_upgradable(Timeout::Never);
    }

    fn try_lock_upgradable(&self) -> bool {
        self.0.lock_upgradable(Timeout::Immediate)
    }

    unsafe fn unlock_upgradable(&self) {
        // SAFETY: see above.
        unsafe { self.0.unlock_upgradable() };
    }

    unsafe fn upgrade(&self) {
        // SAFETY: see above. If it panics, the guard is dropped, which releases the upgradable read.
        unsafe { self.0.upgrade(Timeout::Never) };
    }

    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: see above.
        unsafe { self.0.upgrade(Timeout::Immediate) }
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeFair for RawRwLockOf<RECURSIVE> {
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: see above.
        unsafe { self.0.unlock_upgradable_fair() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeDowngrade for RawRwLockOf<RECURSIVE> {
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: see above.
        unsafe { self.0.downgrade_upgradable() };
    }

    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: see above.
        unsafe { self.0.downgrade_to_upgradable() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeTimed for RawRwLockOf<RECURSIVE> {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.0.lock_upgradable(within(timeout))
    }

    fn try_lock_upgradable_until(&self, timeout: Instant) -> bool {
        self.0.lock_upgradable(until(timeout))
    }

    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        // SAFETY: see above.
        unsafe { self.0.upgrade(within(timeout)) }
    }

    unsafe fn try_upgrade_until(&self, timeout: Instant) -> bool {
        // SAFETY: see above.
        unsafe { self.0.upgrade(until(timeout)) }
    }
}
