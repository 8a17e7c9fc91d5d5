//! Models of the condition variable: threads wait for items, and take them. A timed sleep is over at once.

use stillpoint::lock::Condvar;
use stillpoint::lock::model::{Policy, Raw};
use support::model::*;

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

    fn put_two(&self) {
        self.put();
        self.put();
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

fn notification(budget: u32) {
    check(budget, 2, || {
        let (_, taken) = race(&Items::new(), Items::put, |items| items.take(None));
        assert_eq!(taken, 1);
    });
}

/// Refutes: notified-not-woken, waiter-appended-late
#[test]
fn notification_reaches_a_waiter_that_checked_before() {
    notification(0);
}

/// Refutes: notified-by-load
#[test]
fn notification_reaches_a_waiter_that_spins_before_it_sleeps() {
    notification(1);
}

#[test]
fn each_notification_reaches_a_waiter() {
    check(0, 2, || {
        let (_, taken) = race_all(&Items::new(), Items::put_two, 2, |items, _| items.take(None));
        assert_eq!(taken, [1; 2]);
    });
}

/// Refutes: notified-waiter-removed, Locked::unlock:Release, WaitList::lock:Acquire
#[test]
fn waiter_whose_time_is_over_is_removed_or_notified() {
    check(0, 2, || {
        let items = Items::new();
        let limits = [None, Some(0)];
        let (_, taken) = race_all(&items, Items::put_two, 2, move |items, index| items.take(limits[index]));
        assert_eq!(taken[0], 1);
        assert!(taken[1] <= 1);
        assert!(!items.put.notify_one(), "no thread waits");
    });
}

/// Refutes: list-not-woken, Locked::take_first:Release, WaitList::sleep:Acquire
#[test]
fn threads_that_sleep_for_the_list_are_woken() {
    check(0, 2, || {
        let items = Items::new();
        let (taken, _) = race_all(&items, |items| items.take(None), 2, |items, _| items.put());
        assert_eq!(taken, 1);
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
