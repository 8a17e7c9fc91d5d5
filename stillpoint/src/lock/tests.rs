//! Locks and condition variables when all nodes are in use.

use std::thread;
use std::time::Duration;

use super::nodes::{AllNodes, CAPACITY, exclude_other_tests};
use super::{Condvar, Mutex};
use support::deadline::deadline;

#[test]
fn lock_without_free_nodes_excludes_and_times_out() {
    let (_running, _alone) = (deadline(), exclude_other_tests());
    // Other tests of this process wait without nodes until this one ends.
    let all = AllNodes::alloc();
    assert!(all.0.len() > CAPACITY / 2);
    let total = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..500 {
                    *total.lock() += 1;
                    if n % 16 == 0 {
                        let guard = total.lock();
                        thread::yield_now();
                        drop(guard);
                    }
                }
            });
        }
    });
    let guard = total.lock();
    thread::scope(|scope| {
        scope.spawn(|| assert!(total.try_lock_for(Duration::from_millis(5)).is_none()));
    });
    assert_eq!(*guard, 4000);
}

#[test]
fn waiter_without_a_node_sees_the_change_soon() {
    let (_running, _alone) = (deadline(), exclude_other_tests());
    let (is_over, changed) = (Mutex::new(false), Condvar::new());
    let nodes = AllNodes::alloc();
    thread::scope(|scope| {
        // A thread that has had no node before.
        let waits = || {
            changed.wait_while(&mut is_over.lock(), |is_over| !*is_over);
            changed.wait_for(&mut is_over.lock(), Duration::from_nanos(1)).timed_out()
        };
        let waiter = scope.spawn(waits);
        *is_over.lock() = true;
        assert!(!changed.notify_one(), "there is no waiter in the list");
        assert!(waiter.join().expect("no panic"), "its time is over");
    });
    drop(nodes);
}
