//! Models of deferred callbacks: owners that push and reclaim, the worker, and callers that wait for it. All of it is
//! the library's code; the model starts its threads. No time passes in a model, so a thread that sleeps must be
//! woken.

mod barriers;
pub mod domain;
mod limited;

use std::ptr::null;
use std::time::Duration;

use self::domain::{ABSENT, Domain, Kind, Kind::*};
use crate::own::Own;
use stillpoint::reclaim::amount::Amount;
use stillpoint::reclaim::backlog::Limits;
use stillpoint::sync::event_count::EventCount;
use stillpoint::sync::model::set_now;
use support::model::*;

#[test]
fn reader_never_sees_a_value_freed_by_the_worker() {
    check(0, 1, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        domain.race_owners(move |domain| domain.replace(own), move |domain| domain.0.state.read(reader));
        assert_eq!(domain.count(0), 1);
    });
}

/// Two owners defer a callback each. Returns the domain when all workers have ended.
fn two_owners(domain: Domain, kinds: [Kind; 2]) -> Domain {
    let own = kinds.map(|kind| (domain.register(), kind));
    let defer = |(own, kind)| move |domain: &Domain| domain.defer(own, kind);
    domain.race_owners(defer(own[0]), defer(own[1]));
    domain
}

#[test]
fn callbacks_of_two_owners_all_run() {
    check(0, 1, || {
        let domain = two_owners(Domain::new(), [Call, Call]);
        assert_eq!([domain.count(0), domain.count(1)], [1, 1]);
    });
}

/// An owner whose queue has two callbacks that it may run, and that are not reported. Their grace period is over.
fn two_free(domain: &Domain) -> Own {
    let own = domain.register();
    for _ in 0..2 {
        let _ = domain.push(own, Free, null());
    }
    // Assigns a cookie to the callbacks; their grace period ends at once.
    domain.flush(own);
    own
}

#[test]
fn owner_and_worker_exclude_each_other() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = two_free(&domain);
        domain.run(|domain| {
            domain.defer(own, Call);
            domain.flush(own);
        });
        assert_eq!(domain.count(0), 3);
    });
}

/// Refutes: parked-after-time
#[test]
fn domain_parked_for_want_of_a_thread_is_resumed() {
    check(0, 1, move || {
        let domain = Domain::that_parks();
        // The first two may come before the domain is parked.
        domain.0.is_timed.store(3, Relaxed);
        let own = domain.register();
        domain.run(|domain| domain.defer(own, Call));
        assert_eq!(domain.count(0), 1, "a callback was forgotten");
    });
}

/// Nothing but time ends it.
/// Refutes: parked-domain-not-resumed
#[test]
fn callbacks_of_a_domain_that_waits_its_turn_run_when_it_is_resumed() {
    check(0, 1, || {
        let domain = two_owners(Domain::that_waits_its_turn(), [Call, Call]);
        assert_eq!([domain.count(0), domain.count(1)], [1, 1], "a callback was forgotten");
    });
}

/// Refutes: parked-domain-counts-as-worker
#[test]
fn barrier_leaves_a_domain_that_waits_its_turn_to_be_resumed() {
    check(0, 1, || {
        let domain = Domain::that_waits_its_turn();
        domain.0.is_timed.store(0, Relaxed);
        let own = domain.register();
        let resume = move |domain: &Domain| {
            while own.queue.completed() == 0 {
                domain.time_is_up();
                thread::yield_now();
            }
        };
        domain.race(resume, move |domain| {
            domain.defer(own, Call);
            domain.barrier().unwrap();
            assert_eq!(domain.count(0), 1);
        });
    });
}

/// Refutes: parked-domain-not-woken
#[test]
fn second_callback_gets_a_worker_for_a_parked_domain() {
    check(0, 1, || {
        let domain = Domain::that_parks();
        let own = domain.register();
        domain.run(|domain| (0..2).for_each(|_| domain.defer(own, Call)));
        assert_eq!(domain.count(0), 2, "a callback was forgotten");
    });
}

/// The callback may come while the domain is being parked, and is found when it is resumed.
fn push_while_parking(domain: fn() -> Domain) {
    check(0, 1, move || {
        let domain = domain();
        // The first two may come before the domain is parked.
        domain.0.is_timed.store(3, Relaxed);
        let domain = two_owners(domain, [Call, Call]);
        assert_eq!([domain.count(0), domain.count(1)], [1, 1], "a callback was forgotten");
    });
}

#[test]
fn callback_is_found_whenever_the_domain_is_parked() {
    push_while_parking(Domain::that_parks);
}

/// Refutes: idle-domain-left-alone
#[test]
fn callback_is_found_if_pushes_leave_the_domain_parked() {
    push_while_parking(Domain::that_stays_parked);
}

#[test]
fn later_pushes_do_not_postpone_the_task_of_a_parked_domain() {
    check(0, 0, || {
        let domain = Domain::that_parks();
        domain.0.refused.store(100, Relaxed);
        set_now(0);
        domain.callbacks().notify(&domain);
        let due = *domain.0.parked.lock().unwrap();
        assert!(due.is_some(), "the domain is parked");
        set_now(1000);
        domain.callbacks().notify(&domain);
        assert_eq!(*domain.0.parked.lock().unwrap(), due);
    });
}

#[test]
fn callbacks_left_without_a_worker_run_in_the_caller_unless_the_fence_is_denied() {
    for is_denied in [0, 1] {
        check(0, 0, move || {
            let domain = Domain::that_refuses(100);
            domain.0.denied.store(is_denied, Relaxed);
            let own = domain.register();
            (0..2).for_each(|_| _ = domain.push(own, Call, null()));
            domain.callbacks().run_left(&domain);
            assert_eq!(own.queue.completed(), if is_denied == 0 { 2 } else { 0 });
            assert!(domain.callbacks().state.has_no_worker(false));
        });
    }
}

/// Refutes: freed-without-notify
#[test]
fn throttled_caller_wakes_when_another_owner_reclaims() {
    check(0, 1, || {
        let domain = Domain::with_limit(2);
        let own = two_free(&domain);
        // The worker has other things to do.
        domain.0.refused.store(ABSENT, Relaxed);
        let caller = domain.register();
        let call = |domain: &Domain| {
            let _ = domain.push(caller, Call, null());
            domain.flush(caller);
        };
        domain.race_owners(call, move |domain| domain.flush(own));
        assert_eq!(domain.count(0), 2);
    });
}

/// A domain with a callback for its worker, above its limit by what an owner has run and not reported.
fn not_reported() -> Domain {
    let domain = Domain::new();
    let _ = domain.push(domain.register(), Call, null());
    domain.callbacks().backlog.reported.push(Amount { count: 0, unknown: 0, bytes: 1 });
    domain.callbacks().set_limits(Limits { bytes: 0, ..Limits::default() });
    domain
}

/// Refutes: idle-without-notify
#[test]
fn throttled_caller_goes_on_when_the_worker_finds_nothing() {
    check(0, 1, || {
        let domain = not_reported();
        domain.run(|domain| assert!(domain.callbacks().throttle_above_limit(None, domain)));
        assert_eq!(domain.count(0), 1);
    });
}

/// Refutes: grace-period-inside-section
#[test]
fn caller_inside_a_section_leads_no_grace_period() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        interruptible(0, || {
            domain.0.state.enter(own);
            let old = domain.0.state.published.swap(boxed(8));
            let _ = domain.push(own, Free, old);
            for _ in 0..2 {
                domain.flush(own);
            }
            look_later(old);
            domain.0.state.leave(own);
        });
    });
}

#[test]
fn throttled_caller_waits_until_the_backlog_shrinks() {
    check(0, 1, || {
        let domain = Domain::with_limit(1);
        let own = domain.register();
        domain.run(|domain| [Call, Free].into_iter().for_each(|kind| domain.defer(own, kind)));
        assert_eq!(domain.count(0), 2);
    });
}

#[test]
fn failed_grace_period_lets_a_throttled_caller_go() {
    check(0, 1, || {
        let domain = Domain::with_limit(0);
        let own = domain.register();
        domain.0.denied.store(1, Relaxed);
        let _ = domain.push(own, Call, null());
        domain.callbacks().report(own.queue);
        assert!(domain.callbacks().throttle_above_limit(None, &domain));
        domain.0.denied.store(0, Relaxed);
        // A round that was under way may fail still.
        while domain.barrier().is_err() {}
        domain.join();
    });
}

/// Refutes: announced-by-store, count-not-raised, notified-by-store, one-waiter-woken, sleep-without-comparing,
/// waiter-not-announced
#[test]
fn waiters_with_different_conditions_are_woken() {
    check(0, 2, || {
        let shared = Arc::new((EventCount::new(), AtomicU64::new(0)));
        let notify = |(events, reached): &(EventCount, AtomicU64)| {
            for mark in [1, 2] {
                reached.store(mark, Relaxed);
                events.notify_all();
            }
        };
        race_all(&shared, notify, 2, |(events, reached), index| {
            let (mark, timeout) = [(1, None), (2, Some(Duration::from_secs(1)))][index];
            assert!(events.wait_until(timeout, || reached.load(Relaxed) >= mark));
        });
    });
}
