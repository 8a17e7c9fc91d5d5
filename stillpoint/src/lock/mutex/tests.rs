//! The places of threads in queues, after threads have exited and in the child of a fork.

use std::thread;
use std::time::Duration;

use super::api::Mutex;
use crate::lock::nodes::{ABANDONED, AllNodes, CAPACITY, MANY_EXITED, table};
use crate::lock::waiter::with;
use crate::sync::Ordering::Relaxed;
use support::asleep::asleep_in;
use support::child;
use support::deadline::deadline;
use support::fork::in_child;
use support::until::until;

/// Returns the node that the calling thread keeps, and the lock in whose queue it is abandoned.
fn place() -> (u32, usize) {
    with(|waiter| (waiter.own.get(), waiter.abandoned_at.get()))
}

/// Refutes: freed-node-counts-as-exited
#[test]
fn threads_that_give_up_and_exit_leave_nodes_for_others() {
    if !child::is_alone(threads_that_give_up_and_exit_leave_nodes_for_others) {
        return;
    }
    let _running = deadline();
    let lock = Mutex::new(());
    let gives_up = || assert!(lock.try_lock_for(Duration::from_micros(200)).is_none());
    let exited = || table().exited.load(Relaxed);
    thread::scope(|scope| {
        let guard = lock.lock();
        asleep_in(scope, || drop(lock.lock()));
        // In the place of many threads.
        while exited() < MANY_EXITED {
            gives_up();
            with(|waiter| {
                waiter.exit();
                waiter.has_exited.set(false);
            });
        }
        gives_up();
        assert_eq!(place(), (0, 0));
        assert_eq!(AllNodes::alloc().0.len(), CAPACITY - 2 - MANY_EXITED as usize);
        drop(guard);
    });
    assert_eq!(exited(), 0);
    // The other thread gives its node back after the scope.
    until(|| AllNodes::alloc().0.len() == CAPACITY - 1);
}

/// Refutes: child-counts-exited-nodes, child-keeps-nodes, child-keeps-pollers, child-remembers-queues
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
            lock.try_lock_for(limit).is_none() && table().node(place().0).state.load(Relaxed) == ABANDONED
        });
        // As if a thread had exited whose node is in the queue.
        table().exited.fetch_add(1, Relaxed);
        let nodes = AllNodes::alloc();
        scope.spawn(|| drop(lock.lock()));
        until(|| table().pollers.load(Relaxed) == 1);
        in_child(|| {
            assert_eq!(place(), (0, 0));
            assert_eq!(table().exited.load(Relaxed), 0);
            assert_eq!((table().pollers.load(Relaxed), table().has_dead.load(Relaxed)), (0, 1));
            // All but those in the queue.
            assert_eq!(AllNodes::alloc().0.len(), nodes.0.len());
        });
        drop(nodes);
        drop(guard);
    });
}
