//! Models of the condition variable: threads wait for items, and take them. A timed sleep is over at once.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use stillpoint::lock::Condvar;
use stillpoint::lock::model::{Policy, Raw};
use support::model::check;

/// Quanta never end, and no head stalls.
struct NoTimeLimits;

impl Policy for NoTimeLimits {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
}

/// A number of items under a lock.
struct Items {
    lock: Raw<NoTimeLimits>,
    left: UnsafeCell<usize>,
    put: Condvar,
}

// SAFETY: the lock protects the items.
unsafe impl Sync for Items {}
// SAFETY: as above.
unsafe impl Send for Items {}

impl Items {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: Raw::new(), left: UnsafeCell::new(0), put: Condvar::new() })
    }

    fn unlock(&self) {
        // SAFETY: the calling thread holds it.
        unsafe { self.lock.unlock() };
    }

    /// Adds an item.
    fn put(&self) {
        self.lock.lock();
        self.left.with_mut(|left| unsafe { *left += 1 });
        self.unlock();
        self.put.notify_one();
    }

    /// Takes an item, or none if the time is over. Returns how many.
    fn take(&self, until: Option<u64>) -> usize {
        self.lock.lock();
        let mut is_over = false;
        while !is_over && self.left.with(|left| unsafe { *left }) == 0 {
            let waited = self.put.wait_with(1, || self.unlock(), until, || self.lock.lock());
            is_over = waited.expect("all waiters use one mutex");
        }
        let taken = self.left.with_mut(|left| {
            // SAFETY: this thread holds the lock.
            let left = unsafe { &mut *left };
            let taken = 1.min(*left);
            *left -= taken;
            taken
        });
        self.unlock();
        taken
    }
}

/// Starts a thread that takes an item, with this time limit.
fn taker(items: &Arc<Items>, until: Option<u64>) -> JoinHandle<usize> {
    let items = items.clone();
    thread::spawn(move || items.take(until))
}

/// Refutes: notified-not-woken, waiter-appended-late
#[test]
fn notification_reaches_a_waiter_that_checked_before() {
    check(0, 2, || {
        let items = Items::new();
        let waiter = taker(&items, None);
        items.put();
        assert_eq!(waiter.join().unwrap(), 1);
    });
}

/// Refutes: notified-by-load
#[test]
fn notification_reaches_a_waiter_that_spins_before_it_sleeps() {
    check(1, 2, || {
        let items = Items::new();
        let waiter = taker(&items, None);
        items.put();
        assert_eq!(waiter.join().unwrap(), 1);
    });
}

#[test]
fn each_notification_reaches_a_waiter() {
    check(0, 2, || {
        let items = Items::new();
        let waiters = [(); 2].map(|()| taker(&items, None));
        items.put();
        items.put();
        assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [1; 2]);
    });
}

/// Refutes: notified-waiter-removed, Locked::unlock:Release, WaitList::lock:Acquire
#[test]
fn waiter_whose_time_is_over_is_removed_or_notified() {
    check(0, 2, || {
        let items = Items::new();
        let waiters = [None, Some(0)].map(|until| taker(&items, until));
        items.put();
        items.put();
        let [untimed, timed] = waiters.map(|waiter| waiter.join().unwrap());
        assert_eq!(untimed, 1);
        assert!(timed <= 1);
        assert!(!items.put.notify_one(), "no thread waits");
    });
}

/// Refutes: list-not-woken, Locked::take_first:Release, WaitList::sleep:Acquire
#[test]
fn threads_that_sleep_for_the_list_are_woken() {
    check(0, 2, || {
        let items = Items::new();
        let notifiers = [(); 2].map(|()| {
            let items = items.clone();
            thread::spawn(move || items.put())
        });
        assert_eq!(items.take(None), 1);
        for notifier in notifiers {
            notifier.join().unwrap();
        }
        assert_eq!(items.take(None), 1);
    });
}

/// Refutes: mutex-not-compared
#[test]
fn wait_with_a_second_mutex_is_refused() {
    check(0, 2, || {
        let changed = Arc::new(Condvar::new());
        let c = changed.clone();
        let waits_with = move |mutex: usize| c.wait_with(mutex, || (), Some(0), || ()).is_some();
        let others = waits_with.clone();
        let unlock = || {
            let second = thread::spawn(move || {
                assert!(!others(2));
                // A wait that ends before the first one does.
                assert!(others(1));
                assert!(!others(2));
            });
            second.join().unwrap();
        };
        assert!(changed.wait_with(1, unlock, Some(0), || ()).is_some());
        assert!(waits_with(2));
    });
}
