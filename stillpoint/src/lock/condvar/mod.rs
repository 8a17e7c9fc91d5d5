//! A condition variable for mutexes on [`RawMutex`](super::RawMutex).
//!
//! A waiter appends itself to a [list](list) while it holds the mutex, releases the mutex, [spins](super::patience)
//! for a short time, and sleeps until a notifier has taken it from the list. A notifier has changed the condition
//! under the mutex. If the list is empty, it returns. Otherwise it takes the first waiters from the list, and wakes
//! just these.
//!
//! So a notification makes no system call for waiters that have been notified and wait for a CPU, which takes longer
//! than most critical sections. And it does not keep other waiters from sleeping, which then would contend for the
//! mutex to find that nothing has changed for them. (Both happen where waiters sleep on a count of notifications.)
//!
//! # No notification is lost
//!
//! Consider the last time that a waiter has held the mutex before the change. It did not see the change, so it
//! appended itself then, before the change in the order of the mutex. The notification follows the change, so it
//! finds the waiter in the list, unless the waiter has been taken from it: by another notifier or because its time
//! was over. It is awake then, or about to be: it takes the mutex after the change, and sees it.
//!
//! The notifier need not hold the mutex, nor ever have held it, if the change happens before the notification. A
//! change without the mutex may come between a waiter's check and its arrival in the list, as with other condition
//! variables.
//!
//! # One mutex at a time
//!
//! Waiters with different mutexes would check and arrive in no common order, and notifications could be lost. So the
//! mutex of the waiters is stored while the list is not empty, and a wait with another one panics.

mod list;
#[cfg(all(feature = "_pthread", not(loom)))]
mod parts;

use core::fmt;
#[cfg(not(loom))]
use std::{ops::DerefMut, ptr, time::Duration};

use self::list::WaitList;
#[cfg(not(loom))]
use super::mutex::api::RawMutex;
use super::mutex::polling;
use super::waiter::{self, Place};
#[cfg(not(loom))]
use crate::sync::after;
use crate::sync::{AtomicUsize, Ordering::*, const_unless_loom, now};

/// Nanoseconds of a timed wait below which the waiter sleeps at once.
const LEAST_NS: u64 = 50_000;

/// Blocks threads until a condition changes that a [`Mutex`](super::Mutex) guards. Takes sixteen bytes, and works in
/// statics. A notification without waiters costs next to nothing.
///
/// Waits take the guard of a `lock_api` mutex on [`RawMutex`](super::RawMutex): of version 0.4, as
/// [`Mutex`](super::Mutex) is, and with the feature `lock_api_05` of version 0.5.
///
/// All threads that wait at the same time use the same mutex. A wait panics while there is a waiter with another
/// mutex that has not been notified. In the child of a `fork`, waits of the parent's other threads never return.
///
/// ```
/// use stillpoint::lock::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// std::thread::spawn(|| {
///     *READY.lock() = true;
///     CHANGED.notify_one();
/// });
/// let mut ready = READY.lock();
/// while !*ready {
///     CHANGED.wait(&mut ready);
/// }
/// ```
pub struct Condvar {
    waiters: WaitList,
    /// The address of the waiters' mutex. Changes while the list is locked.
    mutex: AtomicUsize,
}

impl Condvar {
    const_unless_loom! {
        /// Creates a condition variable without waiters.
        pub fn new() -> Self {
            Self { waiters: WaitList::new(), mutex: AtomicUsize::new(0) }
        }
    }

    /// Wakes the thread that has waited longest. Returns `true` if there was one.
    ///
    /// Change the condition under the lock before. The lock need not be held any more.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.notify(1) != 0
    }

    /// Wakes all waiters. Returns their number.
    ///
    /// Change the condition under the lock before. The lock need not be held any more.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.notify(u32::MAX)
    }

    #[inline]
    fn notify(&self, most: u32) -> usize {
        if self.waiters.is_empty() { 0 } else { self.waiters.notify(most) }
    }

    /// Appends the caller, which holds `mutex`, to the waiters. Returns its node, or 0 if it has none; `None` if
    /// there are waiters with another mutex.
    fn start_wait(&self, mutex: usize) -> Option<u32> {
        waiter::with(|waiter| {
            // The node is in no queue: there is no lock at this address.
            let Place::Tail(id) = waiter.acquire(usize::MAX, false) else { return Some(0) };
            let mut list = self.waiters.lock();
            // Relaxed, both: the lock of the list orders them.
            let waits = list.is_empty() || self.mutex.load(Relaxed) == mutex;
            if waits {
                self.mutex.store(mutex, Relaxed);
                list.append(id);
            }
            list.unlock();
            if !waits {
                waiter.release(id);
            }
            waits.then_some(id)
        })
    }

    /// Sleeps until a notification, or until the clock shows `until`. Returns `true` if the time is over. `id` comes
    /// from `start_wait`; the caller has released the mutex.
    fn sleep(&self, id: u32, until: Option<u64>) -> bool {
        if id == 0 {
            // The caller then checks its condition.
            return polling::sleep(until);
        }
        waiter::with(|waiter| {
            // Without time to spin, it does not.
            if until.is_none_or(|until| until > now().saturating_add(LEAST_NS)) {
                waiter.patience.spin(|ns| WaitList::spin(id, ns));
            }
            let is_over = self.waiters.sleep(id, until);
            waiter.finish_wait(id);
            is_over
        })
    }
}

/// For the models.
#[cfg(loom)]
impl Condvar {
    /// Releases the lock at `mutex`, waits for a notification or until the clock shows `until`, and takes the lock
    /// again. Returns `true` if the time is over, and `None`, without doing anything, if there are waiters with
    /// another mutex.
    pub fn wait_with(
        &self,
        mutex: usize,
        unlock: impl FnOnce(),
        until: Option<u64>,
        lock: impl FnOnce(),
    ) -> Option<bool> {
        let id = self.start_wait(mutex)?;
        unlock();
        let is_over = self.sleep(id, until);
        lock();
        Some(is_over)
    }
}

/// A guard of a mutex on [`RawMutex`](super::RawMutex). This module is private, so other types cannot implement it.
#[cfg(not(loom))]
pub trait RawMutexGuard: DerefMut {
    /// Returns the address of the mutex.
    fn mutex_address(&self) -> usize;

    /// Calls `f` while the lock is released.
    fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R;
}

macro_rules! guard_of {
    ($api:ident) => {
        #[cfg(not(loom))]
        impl<T: ?Sized> RawMutexGuard for $api::MutexGuard<'_, RawMutex, T> {
            fn mutex_address(&self) -> usize {
                ptr::from_ref(Self::mutex(self)).addr()
            }

            fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
                Self::unlocked(self, f)
            }
        }
    };
}

guard_of!(lock_api);
#[cfg(feature = "lock_api_05")]
guard_of!(lock_api_05);

/// The result of a timed wait.
#[cfg(not(loom))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

#[cfg(not(loom))]
impl WaitTimeoutResult {
    /// Returns `true` if the time was over. After [`wait_for`](Condvar::wait_for) the condition may have changed
    /// nevertheless; after [`wait_while_for`](Condvar::wait_while_for) it had not.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

#[cfg(not(loom))]
impl Condvar {
    /// Releases the lock, blocks until a notification, and takes the lock again. May return without a notification:
    /// check the condition in a loop, or use [`wait_while`](Self::wait_while).
    ///
    /// # Panics
    ///
    /// Panics, like all waits, if another thread waits with another mutex.
    #[track_caller]
    pub fn wait<G: RawMutexGuard>(&self, guard: &mut G) {
        self.wait_before(guard, None);
    }

    /// Repeats [`wait`](Self::wait) while `condition` returns `true`.
    ///
    /// ```
    /// use stillpoint::lock::{Condvar, Mutex};
    ///
    /// static QUEUE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    /// static FILLED: Condvar = Condvar::new();
    ///
    /// std::thread::spawn(|| {
    ///     QUEUE.lock().push(7);
    ///     FILLED.notify_one();
    /// });
    /// let mut queue = QUEUE.lock();
    /// FILLED.wait_while(&mut queue, |queue| queue.is_empty());
    /// assert_eq!(queue.pop(), Some(7));
    /// ```
    #[track_caller]
    pub fn wait_while<G: RawMutexGuard>(
        &self,
        guard: &mut G,
        mut condition: impl FnMut(&mut G::Target) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Like [`wait`](Self::wait), but blocks for at most `timeout` and the time that it takes to get the lock.
    #[track_caller]
    pub fn wait_for<G: RawMutexGuard>(&self, guard: &mut G, timeout: Duration) -> WaitTimeoutResult {
        self.wait_before(guard, after(timeout))
    }

    /// Like [`wait_while`](Self::wait_while), but blocks for at most `timeout` and the time that it takes to get the
    /// lock, however many notifications arrive. Times out if `condition` still returns `true` when the time is over,
    /// and only then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stillpoint::lock::{Condvar, Mutex};
    ///
    /// let (queue, filled) = (Mutex::new(vec![7]), Condvar::new());
    /// let limit = Duration::from_millis(1);
    /// let mut queue = queue.lock();
    /// assert!(!filled.wait_while_for(&mut queue, |queue| queue.is_empty(), limit).timed_out());
    /// assert_eq!(queue.pop(), Some(7));
    /// assert!(filled.wait_while_for(&mut queue, |queue| queue.is_empty(), limit).timed_out());
    /// ```
    #[track_caller]
    pub fn wait_while_for<G: RawMutexGuard>(
        &self,
        guard: &mut G,
        mut condition: impl FnMut(&mut G::Target) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        let until = after(timeout);
        while condition(guard) {
            // The clock decides: a sleep that a notification prevents does not check it.
            if until.is_some_and(|until| now() >= until) {
                return WaitTimeoutResult(true);
            }
            self.wait_before(guard, until);
        }
        WaitTimeoutResult(false)
    }

    #[track_caller]
    fn wait_before<G: RawMutexGuard>(&self, guard: &mut G, until: Option<u64>) -> WaitTimeoutResult {
        let Some(result) = self.try_wait_before(guard, until) else {
            panic!("Condvar: a thread waits with another mutex; all waiters of a Condvar use the same one");
        };
        result
    }

    fn try_wait_before<G: RawMutexGuard>(
        &self,
        guard: &mut G,
        until: Option<u64>,
    ) -> Option<WaitTimeoutResult> {
        let id = self.start_wait(guard.mutex_address())?;
        Some(WaitTimeoutResult(guard.unlocked(|| self.sleep(id, until))))
    }

    /// A wait that returns `None` if another thread waits with another mutex: for the C interface. Not stable.
    #[cfg(feature = "_capi")]
    #[doc(hidden)]
    pub fn try_wait<G: RawMutexGuard>(
        &self,
        guard: &mut G,
        timeout: Option<Duration>,
    ) -> Option<WaitTimeoutResult> {
        self.try_wait_before(guard, timeout.and_then(after))
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}
