//! What the library offers to this package breaks no contract of the library, wherever it is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;

use stillpoint::rcu::{self, epoch};
use stillpoint::{EnterSection, srcu};
use support::deadline::deadline;

fn collecting_ends_no_grace_period<D: EnterSection>(domain: D) {
    let _running = deadline();
    let ran = Arc::new(AtomicUsize::new(0));
    let defer = || {
        let ran = Arc::clone(&ran);
        domain.call(move || _ = ran.fetch_add(1, Release));
    };
    let guard = domain.enter_section();
    defer();
    for _ in 0..100 {
        epoch::collect(&domain);
        epoch::run_ready(&domain);
        thread::yield_now();
    }
    assert_eq!(ran.load(Acquire), 0);
    drop(guard);
    // Callbacks that collect, too.
    let (clone, again) = (domain.clone(), Arc::clone(&ran));
    domain.call(move || {
        epoch::collect(&clone);
        epoch::run_ready(&clone);
        again.fetch_add(1, Release);
    });
    while ran.load(Acquire) != 2 {
        epoch::collect(&domain);
        epoch::run_ready(&domain);
    }
}

#[test]
fn collecting_inside_a_section_of_the_thread_ends_no_grace_period() {
    collecting_ends_no_grace_period(rcu::Global);
}

#[test]
fn collecting_inside_a_section_of_a_domain_that_is_a_value_ends_no_grace_period() {
    collecting_ends_no_grace_period(srcu::Domain::new());
}

#[test]
fn callback_that_collects_may_be_waited_for() {
    let _running = deadline();
    for _ in 0..20 {
        (0..100).for_each(|_| {
            rcu::call(|| {
                epoch::collect(&rcu::Global);
                epoch::run_ready(&rcu::Global);
            });
        });
        epoch::collect(&rcu::Global);
        epoch::run_ready(&rcu::Global);
        rcu::barrier();
    }
}
