//! A condition variable for mutexes on [`RawMutex`](super::RawMutex).
//!
//! One word counts notifications, and is the futex. Another counts waiters. A waiter counts itself and reads the first
//! word while it holds the lock, releases the lock, sleeps unless the first word has changed, and uncounts itself. A
//! notifier has changed the condition under the lock. If no waiter is counted, it returns. Otherwise it increments the
//! first word, so that waiters that are about to sleep do not, and wakes sleepers.
//!
//! # No notification is lost
//!
//! Consider the last time that a waiter has held the lock before the change. It did not see the change, so it counted
//! itself then and read the first word, both before the change in the order of the lock. The notification follows the
//! change.
//!
//! 1. *The waiter is found.* The count is changed by read-modify-writes only, so every value from then on includes the
//!    waiter, until it uncounts itself; and the notification cannot read an earlier value. A waiter that has uncounted
//!    itself is awake: it takes the lock after the change, and sees it.
//! 2. *The waiter does not sleep on.* It cannot have read the number to which the notification increments the word: it
//!    does not sleep, or is woken.
//!
//! The orderings are those of the lock, so all accesses here are relaxed. The notifier need not hold the lock, nor ever
//! have held it, if the change happens before the notification. A change without the lock may come between a waiter's
//! check and its counting, as with other condition variables.
//!
//! The count may be too high, which costs a system call. It includes waiters that are awake and have not uncounted
//! themselves yet. In the child of a fork it includes the parent's waiters, for ever.
//!
//! # One mutex at a time
//!
//! Waiters with different mutexes would count and check in no common order, and notifications could be lost. So a third
//! word holds the address of the waiters' mutex, or 0. It changes from 0 to a mutex when a thread that holds that mutex
//! is about to wait, and back when a thread has taken that mutex after its wait and finds no waiter counted. Meanwhile
//! a wait with another mutex panics. Both changes are made under that mutex, so no waiter with it can come between the
//! check of the count and the change back; and there are no waiters with another mutex then.
//!
//! # When it may be freed
//!
//! Waiters and notifiers borrow it until they return. A notification accesses no memory after it has incremented the
//! word, as the kernel uses the address alone. A waiter accesses none after it has taken the lock and checked the
//! count.

use core::fmt;
#[cfg(not(loom))]
use std::{
    ops::DerefMut,
    ptr,
    time::{Duration, Instant},
};

#[cfg(not(loom))]
use super::mutex::{RawMutex, after, at};
#[cfg(not(loom))]
use crate::sync::now;
use crate::sync::{AtomicU32, AtomicUsize, Futex32, Ordering::*, const_unless_loom, step};

/// Blocks threads until a condition changes that a [`Mutex`](super::Mutex) guards. Takes sixteen bytes, and works in
/// statics. A notification without waiters costs next to nothing.
///
/// Waits take the guard of a `lock_api` mutex on [`RawMutex`](super::RawMutex): of version 0.5, as
/// [`Mutex`](super::Mutex) is, and with the feature `lock_api_04` of version 0.4.
///
/// All threads that wait at the same time use the same mutex. A wait panics if a wait with another mutex has not
/// returned yet. In the child of a `fork`, waits of the parent's other threads never return.
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
    /// Notifications that found waiters.
    notified: Futex32,
    /// Waiters.
    waiters: AtomicU32,
    /// The address of the waiters' mutex, or 0.
    mutex: AtomicUsize,
}

impl Condvar {
    const_unless_loom! {
        /// Creates a condition variable without waiters.
        pub fn new() -> Self {
            Self { notified: Futex32::new(0), waiters: AtomicU32::new(0), mutex: AtomicUsize::new(0) }
        }
    }

    /// Wakes one waiter. Returns `true` if one slept. A waiter that is about to sleep does not sleep then, and is not
    /// counted.
    ///
    /// Change the condition under the lock before. The lock need not be held any more.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.notify(1) != 0
    }

    /// Wakes all waiters. Returns how many slept. A waiter that is about to sleep does not sleep then, and is not
    /// counted.
    ///
    /// Change the condition under the lock before. The lock need not be held any more.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.notify(u32::MAX)
    }

    #[inline]
    fn notify(&self, most: u32) -> usize {
        // Relaxed: 1, above. Partner: `start_wait`.
        if self.waiters.load(Relaxed) == 0 { 0 } else { self.notify_slow(most) }
    }

    #[cold]
    fn notify_slow(&self, most: u32) -> usize {
        // Relaxed: 2, above. Partner: `start_wait`.
        step!("notification-not-counted", self.notified.fetch_add(1, Relaxed));
        let mut woken = 0;
        step!("notified-not-woken", woken = self.notified.wake(most));
        woken
    }

    /// Makes `mutex`, which the caller holds, the mutex of the waiters. Returns `false` if there are waiters with
    /// another one.
    fn bind(&self, mutex: usize) -> bool {
        // Relaxed, both: the word carries nothing else, and `mutex` orders the changes from and to its address.
        match self.mutex.compare_exchange(0, mutex, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(bound) => bound == mutex,
        }
    }

    /// Allows other mutexes if there are no waiters, after a wait. The caller holds `mutex` again.
    fn unbind(&self, mutex: usize) {
        // Relaxed, all: waiters with `mutex` are counted under it, and it orders them. If the exchange fails, another
        // thread has unbound it already.
        if self.waiters.load(Relaxed) == 0 {
            step!("mutex-not-unbound", let _ = self.mutex.compare_exchange(mutex, 0, Relaxed, Relaxed));
        }
    }

    /// Counts the caller, which holds `mutex`, as a waiter. Returns the number of notifications so far, or `None` if
    /// there are waiters with another mutex.
    fn start_wait(&self, mutex: usize) -> Option<u32> {
        if !self.bind(mutex) {
            return None;
        }
        // Relaxed, both: published by the release of the lock. Partners: `notify` and `notify_slow`, after the change.
        self.waiters.fetch_add(1, Relaxed);
        Some(self.notified.load(Relaxed))
    }

    /// Sleeps until a notification after the first `seen` ones, or until the clock shows `until`; then uncounts the
    /// caller, which has released the lock. Returns `true` if the time is over.
    fn sleep(&self, seen: u32, until: Option<u64>) -> bool {
        let is_over = self.notified.wait(seen, until);
        // Relaxed: 1, above.
        step!("waiter-not-uncounted", self.waiters.fetch_sub(1, Relaxed));
        is_over
    }
}

/// For the models.
#[cfg(loom)]
impl Condvar {
    /// Releases the lock at `mutex`, waits for a notification or until the clock shows `until`, and takes the lock
    /// again. Returns `false`, and does nothing, if there are waiters with another mutex.
    pub fn wait_with(
        &self,
        mutex: usize,
        unlock: impl FnOnce(),
        until: Option<u64>,
        lock: impl FnOnce(),
    ) -> bool {
        let Some(seen) = self.start_wait(mutex) else { return false };
        unlock();
        self.sleep(seen, until);
        lock();
        self.unbind(mutex);
        true
    }

    /// Returns `true` if no waiter is counted, and any mutex may be used.
    pub fn is_idle(&self) -> bool {
        self.waiters.load(Relaxed) == 0 && self.mutex.load(Relaxed) == 0
    }
}

/// A guard of a mutex on [`RawMutex`](super::RawMutex). This module is private, so other types cannot implement it.
#[cfg(not(loom))]
pub trait Guard: DerefMut {
    /// Returns the address of the mutex.
    fn mutex_address(&self) -> usize;

    /// Calls `f` while the lock is released.
    fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R;
}

macro_rules! guard_of {
    ($api:ident) => {
        #[cfg(not(loom))]
        impl<T: ?Sized> Guard for $api::MutexGuard<'_, RawMutex, T> {
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
#[cfg(feature = "lock_api_04")]
guard_of!(lock_api_04);

/// The result of a timed wait.
#[cfg(not(loom))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

#[cfg(not(loom))]
impl WaitTimeoutResult {
    /// Returns `true` if the time was over. After [`wait_for`](Condvar::wait_for) and
    /// [`wait_until`](Condvar::wait_until) the condition may have changed nevertheless; after
    /// [`wait_while_for`](Condvar::wait_while_for) and [`wait_while_until`](Condvar::wait_while_until) it had not.
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
    pub fn wait<G: Guard>(&self, guard: &mut G) {
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
    pub fn wait_while<G: Guard>(&self, guard: &mut G, mut condition: impl FnMut(&mut G::Target) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Like [`wait`](Self::wait), but blocks for at most `timeout` and the time that it takes to get the lock.
    #[track_caller]
    pub fn wait_for<G: Guard>(&self, guard: &mut G, timeout: Duration) -> WaitTimeoutResult {
        self.wait_before(guard, after(timeout))
    }

    /// Like [`wait_for`](Self::wait_for), with the `instant` at which the time is over.
    #[track_caller]
    pub fn wait_until<G: Guard>(&self, guard: &mut G, instant: Instant) -> WaitTimeoutResult {
        self.wait_before(guard, at(instant))
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
    pub fn wait_while_for<G: Guard>(
        &self,
        guard: &mut G,
        condition: impl FnMut(&mut G::Target) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_before(guard, condition, after(timeout))
    }

    /// Like [`wait_while_for`](Self::wait_while_for), with the `instant` at which the time is over. If it is over
    /// already, checks `condition` once and keeps the lock.
    #[track_caller]
    pub fn wait_while_until<G: Guard>(
        &self,
        guard: &mut G,
        condition: impl FnMut(&mut G::Target) -> bool,
        instant: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_before(guard, condition, at(instant))
    }

    #[track_caller]
    fn wait_while_before<G: Guard>(
        &self,
        guard: &mut G,
        mut condition: impl FnMut(&mut G::Target) -> bool,
        until: Option<u64>,
    ) -> WaitTimeoutResult {
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
    fn wait_before<G: Guard>(&self, guard: &mut G, until: Option<u64>) -> WaitTimeoutResult {
        let mutex = guard.mutex_address();
        let Some(seen) = self.start_wait(mutex) else {
            panic!("Condvar: a thread waits with another mutex; all waiters of a Condvar use the same one");
        };
        let is_over = guard.unlocked(|| self.sleep(seen, until));
        self.unbind(mutex);
        WaitTimeoutResult(is_over)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::mutex::Mutex;
    use super::*;

    #[test]
    fn notification_without_waiters_makes_no_system_call() {
        let (lock, changed) = (Mutex::new(()), Condvar::new());
        for _ in 0..2 {
            assert!(!changed.notify_one());
            assert_eq!(changed.notify_all(), 0);
            assert_eq!(changed.notified.load(Relaxed), 0, "the system call comes after the increment");
            // Also after a wait.
            changed.wait_for(&mut lock.lock(), Duration::from_millis(1));
        }
    }
}
