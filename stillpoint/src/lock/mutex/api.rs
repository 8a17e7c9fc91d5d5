//! The lock by itself, and the mutex types made of it.

use core::fmt;
use std::time::Instant;

use super::raw::Raw;
use crate::lock::policy::DefaultPolicy;
use crate::sync::after;

/// The lock by itself, of four bytes, for [`lock_api::Mutex`].
///
/// ```
/// static ACCOUNTS: lock_api::Mutex<stillpoint::lock::RawMutex, [i64; 2]> = lock_api::Mutex::new([10, 0]);
///
/// let mut accounts = ACCOUNTS.lock();
/// accounts[0] -= 3;
/// accounts[1] += 3;
/// ```
pub struct RawMutex(pub(in crate::lock) Raw<DefaultPolicy>);

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
#[doc(alias("futex", "pthread_mutex"))]
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a [`Mutex`], until dropped.
///
/// A guard stays in its thread, so the compiler refuses a task that holds one over an `.await` and may move to
/// another thread. With the feature `send_guard`, guards are `Send`.
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

/// Returns the reading of the clock at `instant`; `None` if the clock does not reach it.
pub(crate) fn at(instant: Instant) -> Option<u64> {
    after(instant.saturating_duration_since(Instant::now()))
}

impl RawMutex {
    /// Takes the lock; blocks until the clock shows `until` at most. Returns `true` if the caller holds it.
    pub(in crate::lock) fn lock_before(&self, until: Option<u64>) -> bool {
        match until {
            Some(until) => self.0.lock_until(until),
            None => {
                self.0.lock();
                true
            }
        }
    }
}
