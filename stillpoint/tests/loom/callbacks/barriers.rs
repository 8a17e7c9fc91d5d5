//! Models of callers that wait until all callbacks have run: barriers that block, and those that are futures, which
//! the worker wakes or dismisses.

use stillpoint::grace_period::engine::Denied;
use stillpoint::reclaim::amount::Amount;
use stillpoint::reclaim::poller::PollResult;
use stillpoint::sync::block_on::block_on;

use super::{ABSENT, Call, Domain, null, two_free};
use crate::own::Own;
use support::model::*;

impl Domain {
    pub fn barrier(&self) -> Result<(), Denied> {
        self.callbacks().barrier(self)
    }

    /// As the future of a barrier, blocked on.
    fn barrier_async(&self) -> Result<(), Denied> {
        let (mut id, mut end) = (0, PollResult::Pending);
        block_on(None, |waker| {
            end = self.callbacks().poll_barrier(&mut id, waker, self);
            end != PollResult::Pending
        });
        if end == PollResult::Dismissed { self.barrier() } else { Ok(()) }
    }
}

/// One of both.
type Barrier = fn(&Domain) -> Result<(), Denied>;

fn waits_for_a_callback(domain: fn() -> Domain, barrier: Barrier) {
    check(0, 1, move || {
        let domain = domain();
        let own = domain.register();
        domain.run(|domain| {
            domain.defer(own, Call);
            barrier(domain).unwrap();
            assert_eq!(domain.count(0), 1);
        });
    });
}

/// Refutes: barrier-does-not-wait, run-without-notify, sleepers-not-woken
#[test]
fn barrier_returns_when_the_worker_has_run_a_callback() {
    waits_for_a_callback(Domain::new, Domain::barrier);
}

#[test]
fn barrier_gets_a_worker_for_a_parked_domain() {
    waits_for_a_callback(Domain::that_parks, Domain::barrier);
}

/// Refutes: round-not-ended, round-without-worker
#[test]
fn worker_of_a_parked_domain_wakes_a_future_when_all_has_run() {
    waits_for_a_callback(Domain::that_parks, Domain::barrier_async);
}

/// A thread of the program does what the worker would do, and no other one can.
/// Refutes: poll-without-end
#[test]
fn barrier_returns_beside_a_thread_that_polls() {
    check(0, 1, || {
        let domain = Domain::that_refuses(100);
        let own = domain.register();
        let poll = move |domain: &Domain| {
            domain.defer(own, Call);
            while domain.callbacks().poll(domain) {
                thread::yield_now();
            }
        };
        domain.race(|domain| domain.barrier().unwrap(), poll);
        domain.defer(own, Call);
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 2);
    });
}

/// The timer is busy, and no thread can be started.
/// Refutes: parked-without-notify
#[test]
fn barrier_acts_as_the_worker_of_a_domain_parked_meanwhile() {
    check(0, 1, || {
        let domain = Domain::that_parks();
        domain.0.refused.store(100, Relaxed);
        let own = domain.register();
        let wait = |domain: &Domain| {
            thread::yield_now();
            domain.barrier().unwrap();
        };
        domain.race(wait, move |domain| domain.defer(own, Call));
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 1);
    });
}

/// Refutes: check-before-bit, counted-before-run
#[test]
fn barrier_waits_for_earlier_callbacks() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        let wait = |domain: &Domain| {
            thread::yield_now();
            let seen = own.queue.tail();
            domain.barrier().unwrap();
            if seen == 1 {
                assert_eq!(domain.count(0), 1);
            }
        };
        domain.race(wait, move |domain| domain.defer(own, Call));
        domain.barrier().unwrap();
        domain.join();
    });
}

/// Waits for two callbacks of an owner while that runs them.
fn barrier_beside_owner(domain: &Domain, own: Own, barrier: Barrier) {
    let wait = |domain: &Domain| {
        barrier(domain).unwrap();
        assert_eq!(domain.count(0), 2);
    };
    domain.race(wait, move |domain| {
        domain.reclaim_some(own);
        domain.reclaim_some(own);
    });
}

fn returns_when_the_owner_reclaims(barrier: Barrier) {
    check(0, 1, move || {
        let domain = Domain::new();
        let own = two_free(&domain);
        barrier_beside_owner(&domain, own, barrier);
        domain.join();
    });
}

#[test]
fn barrier_returns_when_the_owner_reclaims() {
    returns_when_the_owner_reclaims(Domain::barrier);
}

/// Refutes: round-not-ended
#[test]
fn future_is_woken_when_the_owner_reclaims() {
    returns_when_the_owner_reclaims(Domain::barrier_async);
}

/// The worker sleeps for readers of a later grace period.
fn returns_when_the_owner_reclaims_last(barrier: Barrier) {
    check(0, 2, move || {
        let domain = Domain::new();
        let own = two_free(&domain);
        domain.0.refused.store(ABSENT, Relaxed);
        // As if it had pushed as many as it runs: it does not report them.
        own.queue.unreported().push(Amount { count: 2, unknown: 0, bytes: 0 });
        barrier_beside_owner(&domain, own, barrier);
    });
}

/// Refutes: reclaimed-without-notify, awaited-without-fence
#[test]
fn barrier_returns_when_the_owner_reclaims_last() {
    returns_when_the_owner_reclaims_last(Domain::barrier);
}

/// Refutes: reclaimed-without-wake, round-without-fence
#[test]
fn future_is_woken_when_the_owner_reclaims_last() {
    returns_when_the_owner_reclaims_last(Domain::barrier_async);
}

fn runs_callbacks_when_no_worker_starts(barrier: Barrier) {
    check(0, 2, move || {
        let domain = Domain::that_refuses(1);
        let own = domain.register();
        let wait = |domain: &Domain| {
            thread::yield_now();
            barrier(domain).unwrap();
        };
        domain.race(wait, move |domain| domain.defer(own, Call));
        barrier(&domain).unwrap();
        domain.join();
        assert_eq!(domain.count(0), 1);
    });
}

/// Refutes: no-caller-continues, notified-before-giving-up, start-failure-without-notify,
/// EventCount::notify_all:Release, EventCount::prepare_wait:Acquire
#[test]
fn barrier_runs_callbacks_when_no_worker_starts() {
    runs_callbacks_when_no_worker_starts(Domain::barrier);
}

/// Refutes: start-failure-without-dismissal
#[test]
fn future_is_dismissed_when_no_worker_starts() {
    runs_callbacks_when_no_worker_starts(Domain::barrier_async);
}

fn fails_while_the_fence_is_denied(barrier: Barrier) {
    check(0, 1, move || {
        let domain = Domain::new();
        let own = domain.register();
        domain.0.denied.store(1, Relaxed);
        domain.defer(own, Call);
        assert_eq!(barrier(&domain), Err(Denied));
        domain.0.denied.store(0, Relaxed);
        domain.defer(own, Call);
        // A round that was under way may fail still.
        while domain.barrier().is_err() {}
        assert_eq!(domain.count(0), 2);
        domain.join();
    });
}

/// Refutes: barrier-does-not-wake-worker, failed-round-without-notify, urgency-ignored, urgent-after-wake
#[test]
fn barrier_fails_while_the_fence_is_denied() {
    fails_while_the_fence_is_denied(Domain::barrier);
}

/// Refutes: failed-round-without-dismissal
#[test]
fn future_is_dismissed_while_the_fence_is_denied() {
    fails_while_the_fence_is_denied(Domain::barrier_async);
}

fn goes_on_when_another_stops_being_the_worker(second: Barrier) {
    check(0, 2, move || {
        let domain = Domain::that_refuses(100);
        let own = [domain.register(), domain.register()];
        domain.defer(own[0], Call);
        let first = |domain: &Domain| {
            domain.barrier().unwrap();
            assert_eq!(domain.count(0), 1);
        };
        domain.race(first, move |domain| {
            // The first has yielded, for want of a worker, and is to find nothing yet.
            thread::yield_now();
            domain.defer(own[1], Call);
            second(domain).unwrap();
            assert_eq!(domain.count(1), 1);
        });
    });
}

/// Refutes: worker-stops-without-notify
#[test]
fn second_barrier_goes_on_when_the_first_stops_being_the_worker() {
    goes_on_when_another_stops_being_the_worker(Domain::barrier);
}

/// Refutes: worker-stops-without-dismissal
#[test]
fn future_is_dismissed_when_a_barrier_stops_being_the_worker() {
    goes_on_when_another_stops_being_the_worker(Domain::barrier_async);
}

/// Only the first start of a worker fails.
/// Refutes: stopped-worker-leaves-rest
#[test]
fn callbacks_left_by_a_barrier_that_was_worker_get_another() {
    check(0, 1, || {
        let domain = Domain::that_refuses(1);
        let own = [domain.register(), domain.register()];
        let _ = domain.push(own[0], Call, null());
        let first = |domain: &Domain| domain.barrier().unwrap();
        domain.race(first, move |domain| {
            // The barrier has yielded, for want of a worker, and is to find nothing yet.
            thread::yield_now();
            domain.defer(own[1], Call);
        });
        domain.join();
        assert_eq!([domain.count(0), domain.count(1)], [1, 1], "a callback was forgotten");
    });
}

/// Refutes: start-failure-without-notify
#[test]
fn barrier_goes_on_when_a_throttled_caller_gets_no_worker() {
    check(0, 1, || {
        let domain = Domain::with_limit(0);
        domain.0.refused.store(100, Relaxed);
        let own = [domain.register(), domain.register()];
        let _ = domain.push(own[0], Call, null());
        let wait = |domain: &Domain| {
            domain.barrier().unwrap();
            assert_eq!(domain.count(0), 1);
        };
        domain.race(wait, move |domain| {
            let _ = domain.push(own[1], Call, null());
            domain.flush(own[1]);
        });
    });
}
