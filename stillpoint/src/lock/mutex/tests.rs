//! The places of threads in queues, in the child of a fork.

use std::thread;
use std::time::Duration;

use super::api::Mutex;
use crate::lock::nodes::{ABANDONED, AllNodes, table};
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

/// Refutes: child-keeps-nodes, child-keeps-pollers, child-remembers-queues
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
        let nodes = AllNodes::alloc();
        scope.spawn(|| drop(lock.lock()));
        until(|| table().pollers.load(Relaxed) == 1);
        in_child(|| {
            assert_eq!(place(), (0, 0));
            assert_eq!((table().pollers.load(Relaxed), table().has_dead.load(Relaxed)), (0, 1));
            // All but those in the queue.
            assert_eq!(AllNodes::alloc().0.len(), nodes.0.len());
        });
        drop(nodes);
        drop(guard);
    });
}
