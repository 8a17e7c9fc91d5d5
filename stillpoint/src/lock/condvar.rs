//! Waiting for something that changes under a lock.
//!
//! One word counts notifications, and is the futex; another counts those who wait. Who waits counts himself and reads the first
//! word while he holds the lock, releases the lock, sleeps unless the word has changed, and counts himself out. Who changes what
//! is waited for does so under the lock, and notifies then or later: if nobody is counted there is nothing to do; else he raises
//! the first word, which makes sleeps fail, and wakes sleepers.
//!
//! # No notification is lost
//!
//! Look at the last time that a waiter has held the lock before the change. He did not see it, so he has counted himself then and
//! read the word, both before the change in the order of the lock; and the notification comes after the change.
//!
//! 1. *He is found.* The count is changed by read-modify-writes only, so every value after he has counted himself includes him,
//!    until he counts himself out; and the notification cannot read an earlier one. If he has counted himself out he is awake, and
//!    is to take the lock after the change, which he then sees.
//! 2. *He does not sleep on.* He cannot have read the number that the notification makes of the word: the sleep fails, or is ended.
//!
//! The orderings are those of the lock, so all accesses here are relaxed. Whoever notifies need not hold the lock, nor ever have had
//! it, as long as the change happens before. Without any lock around the change it may come between a waiter's look and his
//! counting himself, as with other condition variables.
//!
//! # Too many may be counted
//!
//! That costs a system call, and does no harm: those who are awake and have not counted themselves out yet, and in the child of
//! a fork those who waited in the parent, for good. Nobody else stays counted, however he leaves ([`Waiter`] is dropped).
//!
//! # One mutex at a time
//!
//! Waiters with different mutexes would count and look without an order between them, and notifications could be lost. So a third
//! word holds the address of the waiters' mutex, or 0. It changes from 0 to a mutex when a thread that holds that mutex is about to
//! wait, and back when a thread has taken that mutex after its wait and finds no waiter counted. Meanwhile a wait with another mutex
//! panics. Both changes are made under that mutex, so a waiter with it cannot come between the look at the count and the change
//! back; another mutex has no waiters then.
//!
//! # When it may be freed
//!
//! Whoever waits or notifies borrows it until he returns. A notification touches no memory after it has raised the word, as the
//! kernel takes the address alone, and a waiter none after it has taken the lock and looked at the count.

use core::fmt;

use crate::sync::{AtomicU32, AtomicUsize, Futex32, Ordering::*, const_unless_loom, mutant, step};

/// Blocks threads until something that a [`Mutex`](super::Mutex) guards has changed. Sixteen bytes; works in statics. To notify when
/// nobody waits costs next to nothing.
///
/// All threads that wait at the same time use the same mutex. A wait panics if a wait with another mutex has not returned yet; in
/// the child of a `fork`, waits of the parent's other threads never do.
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
    /// Notifications, but for those that found nobody.
    notified: Futex32,
    /// Those who wait.
    waiters: AtomicU32,
    /// The address of the mutex that they wait with, or 0.
    mutex: AtomicUsize,
}

impl Condvar {
    const_unless_loom! {
        /// A condition variable that nobody waits for.
        pub fn new() -> Self {
            Self { notified: Futex32::new(0), waiters: AtomicU32::new(0), mutex: AtomicUsize::new(0) }
        }
    }

    /// Wakes one of those who wait, if there are any. Whether one slept: who was about to sleep will not, but is not told of.
    ///
    /// What is waited for is to be changed under the lock before; the lock need not be held any more.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.notify(1) != 0
    }

    /// Wakes all who wait. How many slept: who was about to sleep will not, but is not counted.
    ///
    /// What is waited for is to be changed under the lock before; the lock need not be held any more.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.notify(u32::MAX)
    }

    #[inline]
    fn notify(&self, most: u32) -> usize {
        // Relaxed: 1, above. Partner: `Waiter::new`.
        if self.waiters.load(Relaxed) == 0 { 0 } else { self.notify_slow(most) }
    }

    #[cold]
    fn notify_slow(&self, most: u32) -> usize {
        // Relaxed: 2, above. Partner: `Waiter::new`.
        step!("notification-not-counted", self.notified.fetch_add(1, Relaxed));
        self.notified.wake(most)
    }

    /// For a thread that holds `mutex`: names it as the one that threads wait with. False if that is another one.
    fn bind(&self, mutex: usize) -> bool {
        // Relaxed, both: the word carries nothing else, and `mutex` orders the changes from and to its address.
        match self.mutex.compare_exchange(0, mutex, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(bound) => bound == mutex || mutant("mutex-not-compared"),
        }
    }

    /// For a thread that holds `mutex` again, after its wait: if no other waits, any mutex will do.
    fn unbind(&self, mutex: usize) {
        // Relaxed, all: waiters with `mutex` are counted under it, and it orders them. If the exchange fails, another thread has
        // unbound it already.
        if (self.waiters.load(Relaxed) == 0 || mutant("mutex-unbound-early")) && !mutant("mutex-kept") {
            let _ = self.mutex.compare_exchange(mutex, 0, Relaxed, Relaxed);
        }
    }

    /// For the model: releases the lock at `mutex`, waits for a notification or until the clock shows `until`, and takes the lock
    /// again. False, and nothing has been done, if there are waiters with another mutex.
    #[cfg(loom)]
    pub fn wait_with(
        &self,
        mutex: usize,
        unlock: impl FnOnce(),
        until: Option<u64>,
        lock: impl FnOnce(),
    ) -> bool {
        let Some(waiter) = Waiter::new(self, mutex) else { return false };
        unlock();
        waiter.sleep(until);
        lock();
        self.unbind(mutex);
        true
    }

    /// For the model: whether no waiter is counted, and any mutex will do.
    #[cfg(loom)]
    pub fn is_idle(&self) -> bool {
        self.waiters.load(Relaxed) == 0 && self.mutex.load(Relaxed) == 0
    }
}

/// One who waits: counted, until dropped.
struct Waiter<'a> {
    condvar: &'a Condvar,
    /// The number of notifications that he has found.
    ticket: u32,
}

impl<'a> Waiter<'a> {
    /// For a thread that holds `mutex`. `None` if there are waiters with another one.
    fn new(condvar: &'a Condvar, mutex: usize) -> Option<Self> {
        if !condvar.bind(mutex) {
            return None;
        }
        // Relaxed, both: published by the release of the lock. Partners: `notify` and `notify_slow`, after the change.
        step!("waiter-counted-late", condvar.waiters.fetch_add(1, Relaxed));
        Some(Self { condvar, ticket: condvar.notified.load(Relaxed) })
    }

    /// For who has released the lock: sleeps until a notification that came after the ticket, or until the clock shows `until`.
    /// Whether the time is over.
    fn sleep(self, until: Option<u64>) -> bool {
        let &Self { condvar, ticket } = &self;
        if mutant("waiter-counted-late") {
            condvar.waiters.fetch_add(1, Relaxed);
        }
        let _counted = (!mutant("waiter-uncounted-asleep")).then_some(self);
        condvar.notified.wait(ticket, until)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // Relaxed: 1, above.
        step!("waiter-counted-for-good", self.condvar.waiters.fetch_sub(1, Relaxed));
    }
}

#[cfg(not(loom))]
mod guarded {
    use std::ptr;
    use std::time::{Duration, Instant};

    use super::super::MutexGuard;
    use super::super::api::{after, at};
    use super::{Condvar, Waiter};
    use crate::sync::now;

    /// Whether a wait ended because its time was over.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// Whether the time was over. After [`wait_for`](Condvar::wait_for) and [`wait_until`](Condvar::wait_until) what was
        /// waited for may have happened all the same; after [`wait_while_for`](Condvar::wait_while_for) and
        /// [`wait_while_until`](Condvar::wait_while_until) it had not.
        pub fn timed_out(self) -> bool {
            self.0
        }
    }

    impl Condvar {
        /// Releases the lock, waits for a notification, and takes the lock again. May return without a notification: look at
        /// what was waited for, in a loop, or use [`wait_while`](Self::wait_while).
        ///
        /// # Panics
        ///
        /// As all waits, if another thread waits with another mutex.
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

        /// [`wait_while`](Self::wait_while), but for no longer than `timeout` and what it takes to get the lock, however many
        /// notifications come. Times out if `condition` says wait still when the time is over, and only then.
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
        pub fn wait_while_for<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            condition: impl FnMut(&mut T) -> bool,
            timeout: Duration,
        ) -> WaitTimeoutResult {
            self.wait_while_before(guard, condition, after(timeout))
        }

        /// [`wait_while_for`](Self::wait_while_for), with the `instant` at which the time is over. If it is over already, looks at
        /// `condition` once and keeps the lock.
        pub fn wait_while_until<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            condition: impl FnMut(&mut T) -> bool,
            instant: Instant,
        ) -> WaitTimeoutResult {
            self.wait_while_before(guard, condition, at(instant))
        }

        fn wait_while_before<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut condition: impl FnMut(&mut T) -> bool,
            until: Option<u64>,
        ) -> WaitTimeoutResult {
            while condition(guard) {
                // The clock decides: a sleep that fails for a notification does not look at it.
                if until.is_some_and(|until| now() >= until) {
                    return WaitTimeoutResult(true);
                }
                self.wait_before(guard, until);
            }
            WaitTimeoutResult(false)
        }

        fn wait_before<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            until: Option<u64>,
        ) -> WaitTimeoutResult {
            let mutex = ptr::from_ref(MutexGuard::mutex(guard)).addr();
            let Some(waiter) = Waiter::new(self, mutex) else {
                panic!(
                    "Condvar: a thread waits with another mutex; all waiters of a Condvar use the same one"
                );
            };
            let is_over = MutexGuard::unlocked(guard, || waiter.sleep(until));
            self.unbind(mutex);
            WaitTimeoutResult(is_over)
        }
    }
}
#[cfg(not(loom))]
pub use guarded::WaitTimeoutResult;

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
    use std::time::Duration;

    use super::super::Mutex;
    use super::*;

    #[test]
    fn a_notification_for_nobody_ends_at_the_count() {
        let (lock, changed) = (Mutex::new(()), Condvar::new());
        for _ in 0..2 {
            assert!(!changed.notify_one());
            assert_eq!(changed.notify_all(), 0);
            assert_eq!(changed.notified.load(Relaxed), 0, "who comes to the system call raises this first");
            // Also when somebody has waited.
            changed.wait_for(&mut lock.lock(), Duration::from_millis(1));
        }
    }
}
