//! The places of threads in queues: after timed waits, and in the child of a fork.

use std::thread;
use std::time::Duration;

use super::api::Mutex;
use super::nodes::{ABANDONED, exclude_other_tests, table};
#[cfg(not(stillpoint_portable))]
use super::nodes::{AllNodes, FORKED};
use super::waiter::{Waiter, with};
use crate::lock::policy::LATE_WAITS;
use crate::sync::Ordering::Relaxed;
use support::asleep::asleep_in;
#[cfg(not(stillpoint_portable))]
use support::child;
use support::deadline::deadline;
#[cfg(not(stillpoint_portable))]
use support::fork::in_child;
#[cfg(not(stillpoint_portable))]
use support::until::until;

/// Returns the state of the node that the calling thread keeps, which is one at most.
fn own_state() -> Option<u32> {
    let places = with(Waiter::places);
    assert!(places.len() <= 1);
    places.first().map(|&(node, _)| table().node(node).state.load(Relaxed))
}

/// Refutes: late-waits-never-queue
#[test]
#[cfg_attr(windows, ignore = "cannot see that a thread sleeps")]
fn one_in_some_waits_that_are_too_short_leaves_a_place() {
    let _alone = exclude_other_tests();
    let _running = deadline();
    let lock = Mutex::new(());
    thread::scope(|scope| {
        let guard = lock.lock();
        asleep_in(scope, || drop(lock.lock()));
        for wait in 1..=LATE_WAITS {
            assert!(lock.try_lock_for(Duration::ZERO).is_none());
            assert_eq!(own_state(), (wait == LATE_WAITS).then_some(ABANDONED));
        }
        drop(guard);
    });
}

/// Refutes: late-wait-forgotten
#[test]
#[cfg_attr(windows, ignore = "cannot see that a thread sleeps")]
fn waits_that_are_too_short_leave_places_at_each_lock() {
    let _alone = exclude_other_tests();
    let _running = deadline();
    let locks = [const { Mutex::new(()) }; 2];
    thread::scope(|scope| {
        let guards = locks.each_ref().map(Mutex::lock);
        for lock in &locks {
            asleep_in(scope, || drop(lock.lock()));
        }
        for _ in 0..2 * LATE_WAITS {
            locks.iter().for_each(|lock| assert!(lock.try_lock_for(Duration::ZERO).is_none()));
        }
        assert_eq!(with(Waiter::places).len(), 2);
        drop(guards);
    });
}

/// Refutes: child-keeps-nodes, child-keeps-unqueued-count, child-remembers-queues
#[cfg(not(stillpoint_portable))]
#[test]
fn child_of_a_fork_has_no_places_in_queues() {
    if !child::is_alone(child_of_a_fork_has_no_places_in_queues) {
        return;
    }
    let _running = deadline();
    let lock = Mutex::new(());
    thread::scope(|scope| {
        let guard = lock.lock();
        asleep_in(scope, || drop(lock.lock()));
        // Abandons its node behind the head, unless the time is over before it queues.
        let mut limit = Duration::from_millis(1);
        until(|| {
            limit *= 2;
            lock.try_lock_for(limit).is_none() && own_state() == Some(ABANDONED)
        });
        let nodes = AllNodes::alloc();
        scope.spawn(|| drop(lock.lock()));
        until(|| table().slow_unlock_flags.load(Relaxed) == 1);
        in_child(|| {
            assert_eq!(with(Waiter::places), []);
            assert_eq!(table().slow_unlock_flags.load(Relaxed), FORKED);
            // All but those in the queue.
            assert_eq!(AllNodes::alloc().0.len(), nodes.0.len());
        });
        drop(nodes);
        drop(guard);
    });
}
