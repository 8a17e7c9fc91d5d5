//! Models of the grace period where light fences are full ones: readers execute no fence when they leave or repin.
//! They have entered before their threads start, which orders the entry as a full fence does.

use stillpoint::sync::model::set_full_light_fence;
use support::domain::Domain;
use support::model::*;

/// Refutes: no-rescan-after-timeout, sleep-without-timeout
#[test]
fn leader_returns_although_a_wake_up_is_lost() {
    set_full_light_fence();
    check(0, 3, || {
        let domain = Domain::new();
        let reader = domain.entered();
        race(&domain, Domain::update, move |domain| {
            domain.look();
            domain.leave(reader);
        });
    });
}

/// The next leader relies on the count that the last one has left.
#[test]
fn second_grace_period_finds_no_request() {
    set_full_light_fence();
    check(0, 2, || {
        let domain = Domain::new();
        let (first, second) = (domain.entered(), domain.entered());
        let update_twice = |domain: &Domain| {
            domain.update();
            domain.update();
        };
        race(&domain, update_twice, move |domain| {
            domain.leave(first);
            domain.look();
            domain.leave(second);
        });
    });
}

/// Refutes: Reader::repin:Acquire
#[test]
fn repin_sees_what_was_unpublished() {
    set_full_light_fence();
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.entered();
        race(&domain, Domain::update, move |domain| {
            domain.repin(reader);
            domain.look();
            domain.leave(reader);
        });
    });
}
