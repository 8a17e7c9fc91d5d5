//! The places of threads in queues: after timed waits, and in the child of a fork.

use std::thread;
use std::time::Duration;

use super::api::Mutex;
use crate::lock::nodes::{ABANDONED, AllNodes, FORKED, table};
use crate::lock::waiter::{Waiter, with};
use crate::sync::Ordering::Relaxed;
use support::asleep::asleep_in;
use support::child;
use support::deadline::deadline;
use support::fork::in_child;
use support::until::until;

/// Returns the state of the node that the calling thread keeps, which is one at most.
fn own_state() -> Option<u32> {
    let places = with(Waiter::places);
    assert!(places.len() <= 1);
    places.first().map(|&(node, _)| table().node(node).state.load(Relaxed))
}

/// Refutes: child-keeps-nodes, child-keeps-unqueued-count, child-remembers-queues
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
