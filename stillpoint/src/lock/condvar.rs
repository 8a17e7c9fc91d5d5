//! Waiting for something that changes under a lock.
//!
//! One word counts notifications, and is the futex. Who waits reads it while he holds the lock, releases the lock, and sleeps
//! unless the word has changed. Who changes what is waited for does so under the lock, and notifies then or later: after the
//! waiter has read the word, so the sleep fails or is ended.
//!
//! The orderings are those of the lock: a waiter cannot have read the number of a notification whose reason it has not seen.

use crate::sync::{Futex32, Ordering::*, const_unless_loom, mutant};

/// Blocks threads until something that a [`Mutex`](super::Mutex) guards has changed. Four bytes; works in statics.
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
#[derive(Debug)]
pub struct Condvar {
    notified: Futex32,
}

impl Condvar {
    const_unless_loom! {
        /// A condition variable that nobody waits for.
        pub fn new() -> Self {
            Self { notified: Futex32::new(0) }
        }
    }

    /// Wakes one of those who wait, if there are any.
    #[inline]
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all who wait.
    #[inline]
    pub fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    fn notify(&self, count: u32) {
        // Relaxed: see above.
        if !mutant("notification-not-counted") {
            self.notified.fetch_add(1, Relaxed);
        }
        self.notified.wake(count);
    }

    /// For who holds the lock: what to [`sleep`](Self::sleep) with, without it.
    fn ticket(&self) -> u32 {
        // Relaxed: see above.
        self.notified.load(Relaxed)
    }

    /// Sleeps until a notification that came after the ticket, or until the clock shows `until`. Whether the time is over.
    fn sleep(&self, ticket: u32, until: Option<u64>) -> bool {
        self.notified.wait(ticket, until)
    }

    /// For the model: releases the lock, waits for a notification, and takes the lock again.
    #[cfg(loom)]
    pub fn wait_with(&self, unlock: impl FnOnce(), lock: impl FnOnce()) {
        let ticket = self.ticket();
        unlock();
        self.sleep(ticket, None);
        lock();
    }
}

#[cfg(not(loom))]
mod guarded {
    use std::time::{Duration, Instant};

    use super::super::MutexGuard;
    use super::super::api::{after, at};
    use super::Condvar;

    /// Whether a wait ended because its time was over.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// Whether the time was over. What was waited for may have happened all the same.
        pub fn timed_out(self) -> bool {
            self.0
        }
    }

    impl Condvar {
        /// Releases the lock, waits for a notification, and takes the lock again. May return without a notification: look at
        /// what was waited for, in a loop, or use [`wait_while`](Self::wait_while).
        pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
            self.wait_before(guard, None);
        }

        /// [`wait`](Self::wait)s as long as `condition` says so.
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
        pub fn wait_while<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut condition: impl FnMut(&mut T) -> bool,
        ) {
            while condition(guard) {
                self.wait(guard);
            }
        }

        /// [`wait`](Self::wait), but no longer than `timeout` and what it takes to get the lock.
        pub fn wait_for<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            timeout: Duration,
        ) -> WaitTimeoutResult {
            self.wait_before(guard, after(timeout))
        }

        /// [`wait`](Self::wait), but no longer than until `instant` and what it takes to get the lock.
        pub fn wait_until<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            instant: Instant,
        ) -> WaitTimeoutResult {
            self.wait_before(guard, at(instant))
        }

        fn wait_before<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            until: Option<u64>,
        ) -> WaitTimeoutResult {
            let ticket = self.ticket();
            WaitTimeoutResult(MutexGuard::unlocked(guard, || self.sleep(ticket, until)))
        }
    }
}
#[cfg(not(loom))]
pub use guarded::WaitTimeoutResult;

#[cfg(not(loom))]
impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}
