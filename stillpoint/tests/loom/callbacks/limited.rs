//! Models of futures that are ready below the limit.

use std::task::Waker;

use stillpoint::reclaim::backlog::Limits;
use stillpoint::sync::block_on::block_on;

use super::{ABSENT, Call, Domain, not_reported, null, two_free};
use crate::own::Own;
use support::model::*;

impl Domain {
    /// As the future, blocked on.
    fn below_limit(&self) {
        let (mut id, mut failures) = (0, None);
        let callbacks = self.callbacks();
        block_on(None, |waker| callbacks.poll_limited(&mut id, &mut failures, waker, self));
    }

    fn is_below_limit(&self) -> bool {
        self.callbacks().is_below_limit(self)
    }

    /// Above its limit, by two callbacks that no worker runs, but their owner may.
    fn above_limit() -> (Self, Own) {
        let domain = Self::new();
        domain.0.refused.store(ABSENT, Relaxed);
        let own = two_free(&domain);
        domain.set_limit(1);
        assert!(!domain.is_below_limit());
        (domain, own)
    }

    fn set_limit(&self, count: u64) {
        self.callbacks().set_limits(Limits { count, ..Limits::default() });
    }
}

/// Refutes: freed-without-wake, limited-not-announced, EventCount::notify_all:Acquire,
/// EventCount::prepare_wait:Release
#[test]
fn future_is_woken_when_an_owner_frees_below_the_limit() {
    check(0, 2, || {
        let (domain, own) = Domain::above_limit();
        let wait = |domain: &Domain| {
            domain.below_limit();
            assert!(domain.is_below_limit());
        };
        domain.race_owners(wait, move |domain| domain.flush(own));
        assert_eq!(domain.count(0), 2);
    });
}

/// The worker then waits for a reader, which waits for the future.
/// Refutes: run-without-wake
#[test]
fn future_is_woken_when_the_worker_frees_below_the_limit() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = two_free(&domain);
        let _ = domain.push(own, Call, null());
        domain.callbacks().report(own.queue);
        domain.set_limit(2);
        let reader = domain.register();
        domain.run(|domain| {
            domain.0.state.enter(reader);
            domain.below_limit();
            domain.0.state.leave(reader);
        });
        assert_eq!(domain.count(0), 3);
    });
}

/// One future is woken at a time.
/// Refutes: limited-alone
#[test]
fn dropped_future_wakes_the_next_one_below_the_limit() {
    check(0, 2, || {
        let (domain, own) = Domain::above_limit();
        domain.race_owners(Domain::below_limit, move |domain| {
            let (mut id, mut failures) = (0, None);
            let callbacks = domain.callbacks();
            assert!(!callbacks.poll_limited(&mut id, &mut failures, Waker::noop(), domain));
            domain.flush(own);
            callbacks.leave_limited(&mut id);
        });
    });
}

/// Refutes: idle-without-wake
#[test]
fn future_is_woken_when_the_worker_finds_nothing() {
    check(0, 1, || {
        let domain = not_reported();
        domain.run(Domain::below_limit);
        assert_eq!(domain.count(0), 1);
    });
}

#[test]
fn future_is_ready_when_no_worker_starts() {
    check(0, 1, || {
        let domain = Domain::with_limit(0);
        domain.0.refused.store(100, Relaxed);
        let own = domain.register();
        let _ = domain.push(own, Call, null());
        domain.callbacks().report(own.queue);
        domain.race(Domain::below_limit, |domain| domain.below_limit());
        domain.barrier().unwrap();
    });
}

#[test]
fn future_is_woken_by_a_raised_limit() {
    check(0, 2, || {
        let (domain, _) = Domain::above_limit();
        domain.race(Domain::below_limit, |domain| domain.set_limit(2));
    });
}
