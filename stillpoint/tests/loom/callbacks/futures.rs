//! Models of barriers that are futures: the worker wakes them, or dismisses them.

use loom::thread;
use stillpoint::grace_period::engine::Denied;
use stillpoint::reclaim::rounds::BarrierPoll;
use stillpoint::sync::Ordering::*;
use stillpoint::sync::block_on::block_on;
use stillpoint::sync::model::reader as interruptible;
use support::model::check;

use super::{Call, Domain, Lazy, two_free};

impl Domain {
    /// As the future of a barrier, blocked on.
    fn barrier_async(&self) -> Result<(), Denied> {
        let (mut id, mut end) = (0, BarrierPoll::Pending);
        block_on(None, |waker| {
            end = self.0.state.core.callbacks.poll_barrier(&mut id, waker, self);
            end != BarrierPoll::Pending
        });
        if end == BarrierPoll::Dismissed { self.barrier() } else { Ok(()) }
    }
}

/// Refutes: round-not-ended, round-without-worker
#[test]
fn worker_of_a_parked_domain_wakes_a_future_when_all_has_run() {
    check(0, 1, || {
        let domain = Domain::that_parks(0);
        let own = domain.register();
        interruptible(0, || {
            domain.defer(own, Lazy);
            domain.barrier_async().unwrap();
            assert_eq!(domain.count(0), 1);
        });
        domain.join();
    });
}

/// Refutes: round-not-ended
#[test]
fn future_is_woken_when_the_owner_reclaims() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = two_free(&domain);
        // Assigns a cookie to the callbacks; their grace period ends at once.
        domain.flush(own);
        let t = domain.spawn(0, move |domain| {
            domain.reclaim_some(own);
            domain.reclaim_some(own);
        });
        domain.barrier_async().unwrap();
        assert_eq!(domain.count(0), 2);
        t.join().unwrap();
        domain.join();
    });
}

/// Refutes: start-failure-without-dismissal
#[test]
fn future_is_dismissed_when_no_worker_starts() {
    check(0, 2, || {
        let domain = Domain::new();
        domain.0.refused.store(1, Relaxed);
        let own = domain.register();
        let t = domain.spawn(0, move |domain| domain.defer(own, Call));
        thread::yield_now();
        domain.barrier_async().unwrap();
        t.join().unwrap();
        domain.barrier_async().unwrap();
        domain.join();
        assert_eq!(domain.count(0), 1);
    });
}

/// Refutes: failed-round-without-dismissal
#[test]
fn future_is_dismissed_while_the_fence_is_denied() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        domain.0.denied.store(1, Relaxed);
        domain.defer(own, Call);
        assert_eq!(domain.barrier_async(), Err(Denied));
        domain.0.denied.store(0, Relaxed);
        while domain.barrier().is_err() {}
        assert_eq!(domain.count(0), 1);
        domain.join();
    });
}

/// Refutes: worker-stops-without-dismissal
#[test]
fn future_is_dismissed_when_a_barrier_stops_being_the_worker() {
    check(0, 2, || {
        let domain = Domain::new();
        // No worker can be started.
        domain.0.refused.store(100, Relaxed);
        let own = [domain.register(), domain.register()];
        domain.defer(own[0], Call);
        let t = domain.spawn(1, move |domain| {
            // The barrier has yielded, for want of a worker, and is to find nothing yet.
            thread::yield_now();
            domain.defer(own[1], Call);
            domain.barrier_async().unwrap();
            assert_eq!(domain.count(1), 1);
        });
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 1);
        t.join().unwrap();
    });
}
