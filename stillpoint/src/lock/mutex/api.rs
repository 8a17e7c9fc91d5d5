//! The lock as a [`lock_api`] raw mutex, and the mutex types made of it.

use core::fmt;
use std::time::{Duration, Instant};

use super::raw::Raw;
use crate::lock::policy::DefaultPolicy;
use crate::sync::now;

/// The lock by itself, of four bytes, for [`lock_api::Mutex`].
///
/// ```
/// static ACCOUNTS: lock_api::Mutex<stillpoint::lock::RawMutex, [i64; 2]> = lock_api::Mutex::new([10, 0]);
///
/// let mut accounts = ACCOUNTS.lock();
/// accounts[0] -= 3;
/// accounts[1] += 3;
/// ```
pub struct RawMutex(Raw<DefaultPolicy>);

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
/// MutexGuard::unlock_fair(guard); // to the thread that has waited longest
/// assert!(names.try_lock().is_some());
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a [`Mutex`], until dropped.
///
/// A guard stays in its thread, so the compiler refuses a task that holds one over an `.await` and may move to another
/// thread. With the feature `send_guard`, guards are `Send`.
///
#[cfg_attr(not(feature = "send_guard"), doc = "```compile_fail,E0277")]
#[cfg_attr(feature = "send_guard", doc = "```")]
/// use stillpoint::lock::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// # fn spawn(task: impl Future<Output = ()> + Send) {}
/// spawn(async {
///     let mut total = TOTAL.lock();
///     *total += 1;
///     std::future::ready(()).await; // the guard still exists
/// });
/// ```
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of the value of a [`Mutex`]: see [`MutexGuard::map`](lock_api::MutexGuard::map).
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// Returns the reading of the clock after `timeout`; `None` if the clock does not reach it.
pub(crate) fn after(timeout: Duration) -> Option<u64> {
    u64::try_from(timeout.as_nanos()).ok()?.checked_add(now())
}

/// Returns the reading of the clock at `instant`; `None` if the clock does not reach it.
pub(crate) fn at(instant: Instant) -> Option<u64> {
    after(instant.saturating_duration_since(Instant::now()))
}

impl RawMutex {
    /// Takes the lock; blocks until the clock shows `until` at most. Returns `true` if the caller holds it.
    fn lock_before(&self, until: Option<u64>) -> bool {
        match until {
            Some(until) => self.0.lock_until(until),
            None => {
                self.0.lock();
                true
            }
        }
    }
}

// SAFETY: one thread at a time holds the lock, from an acquiring read-modify-write of the word to a releasing one. A
// lock that is held may be moved: its waiters borrow it, and no waiter rejoins a queue that the child of a fork has
// inherited.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self(Raw::new());

    #[cfg(not(feature = "send_guard"))]
    type GuardMarker = lock_api::GuardNoSend;
    #[cfg(feature = "send_guard")]
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        self.0.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock_fair() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.lock_before(after(timeout))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.lock_before(at(timeout))
    }
}

/// The same for version 0.5 of `lock_api`, whose raw locks return tokens.
#[cfg(feature = "lock_api_05")]
mod api_05 {
    #[cfg(not(feature = "send_guard"))]
    use lock_api_05::GuardNoSend as GuardMarker;
    #[cfg(feature = "send_guard")]
    use lock_api_05::GuardSend as GuardMarker;

    use super::*;

    // SAFETY: as for version 0.4.
    unsafe impl lock_api_05::RawMutex for RawMutex {
        const INIT: Self = Self(Raw::new());

        type Guard = GuardMarker;

        #[inline]
        fn lock(&self) -> GuardMarker {
            self.0.lock();
            GuardMarker::new()
        }

        #[inline]
        fn try_lock(&self) -> Option<GuardMarker> {
            self.0.try_lock().then(GuardMarker::new)
        }

        #[inline]
        unsafe fn unlock(&self, _: GuardMarker) {
            // SAFETY: the caller's contract.
            unsafe { self.0.unlock() };
        }

        fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
    }

    // SAFETY: as above.
    unsafe impl lock_api_05::RawMutexFair for RawMutex {
        #[inline]
        unsafe fn unlock_fair(&self, _: GuardMarker) {
            // SAFETY: the caller's contract.
            unsafe { self.0.unlock_fair() };
        }
    }

    // SAFETY: as above.
    unsafe impl lock_api_05::RawMutexTimed for RawMutex {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, timeout: Duration) -> Option<GuardMarker> {
            self.lock_before(after(timeout)).then(GuardMarker::new)
        }

        fn try_lock_until(&self, timeout: Instant) -> Option<GuardMarker> {
            self.lock_before(at(timeout)).then(GuardMarker::new)
        }
    }
}
