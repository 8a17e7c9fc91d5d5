//! Domains that are values.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::hazard::{self, Domain, HazardPointer};
use stillpoint::rcu::{Atomic, DeferOptions, Limits, Owned, Rcu, Shared};
use stillpoint::{Domain as _, srcu};
use support::deadline::deadline;
use support::tracked::Tracked;
use support::until::until;

/// A hazard pointer protects a node that is retired; then the last handle is dropped, after the domain has looked at it or
/// before.
#[test]
fn hazard_pointer_may_outlive_the_domain() {
    for has_looked in [true, false] {
        static DROPS: AtomicUsize = AtomicUsize::new(0);
        let _running = deadline();
        DROPS.store(0, Relaxed);
        let domain = Domain::new();
        let first: Atomic<Tracked, Domain> = Atomic::new(Owned::new(Tracked(&DROPS)));
        let mut pointer = HazardPointer::new();
        let node = pointer.protect(&first);
        first.store(Shared::null());
        // SAFETY: no pointer leads to it any more.
        unsafe { domain.retire_shared(node, DeferOptions::new()) };
        domain.retire(Box::new(Tracked(&DROPS)));
        if has_looked {
            domain.barrier();
            assert_eq!(domain.stats().queued, 0);
        }
        drop(domain);
        until(|| DROPS.load(Acquire) == 1);
        hazard::barrier();
        assert_eq!(node.as_ref().unwrap().0.load(Acquire), 1, "it is protected");
        pointer.reset();
        hazard::barrier();
        until(|| DROPS.load(Acquire) == 2);
    }
}

#[test]
fn domain_has_sections_and_limits_of_its_own() {
    const WRITES: i32 = if cfg!(miri) { 500 } else { 10_000 };
    const MOST: u64 = if cfg!(miri) { 400 } else { 2000 };
    let _running = deadline();
    let (domain, other) = (Domain::new(), Domain::new());
    domain.set_limits(Limits { count: 100, bytes: 1 << 20 });
    assert_ne!(domain, other);
    assert_eq!(domain, domain.clone());
    let value = Rcu::new_in(0, domain.clone());
    let section = domain.enter();
    let seen = value.load(&section);
    thread::scope(|s| {
        s.spawn(|| {
            value.replace(1);
            other.barrier();
            assert_eq!((domain.stats().queued, other.stats().queued), (1, 0));
        });
    });
    assert_eq!(*seen, 0);
    drop(section);
    // Writers wait at the limit, but not for long, as they might be inside: the worker needs a CPU meanwhile.
    until(|| {
        let queued = (0..WRITES).map(|number| {
            value.replace(number);
            domain.stats().queued
        });
        queued.max() < Some(MOST)
    });
    domain.barrier();
    assert_eq!(domain.stats().queued, 0);
}

#[test]
#[should_panic(expected = "another srcu::Domain")]
fn section_of_another_domain_is_refused() {
    let (domain, other) = (Domain::new(), srcu::Domain::new());
    let value = Rcu::new_in(0, domain);
    value.load(&other.enter());
}

/// The first barrier finds the value protected, so another domain keeps it.
#[test]
fn barrier_frees_what_was_protected_before() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let domain = Domain::new();
    let value = Rcu::new_in(Tracked(&DROPS), domain.clone());
    let mut pointer = HazardPointer::new();
    let seen = pointer.protect(&value);
    value.replace(Tracked(&DROPS));
    domain.barrier();
    assert_eq!(seen.0.load(Acquire), 0);
    pointer.reset();
    domain.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
    // So does its future.
    let seen = pointer.protect(&value);
    value.replace(Tracked(&DROPS));
    await_barrier(&domain);
    assert_eq!(seen.0.load(Acquire), 1);
    pointer.reset();
    await_barrier(&domain);
    assert_eq!(DROPS.load(Acquire), 2);
}

fn await_barrier(domain: &Domain) {
    let mut barrier = pin!(domain.barrier_async());
    until(|| barrier.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// Nothing else is retired, nor is there a barrier.
#[test]
fn value_that_another_domain_keeps_is_freed_soon() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    // The worker that keeps it has a lazy callback, and looks much later.
    hazard::Global.call_with(|| (), DeferOptions::new().lazy());
    let value = Rcu::new_in(Tracked(&DROPS), Domain::new());
    let mut pointer = HazardPointer::new();
    pointer.protect(&value);
    value.replace(Tracked(&DROPS));
    value.domain().synchronize();
    until(|| hazard::stats().protected > 0);
    pointer.reset();
    let begin = Instant::now();
    until(|| DROPS.load(Acquire) == 1);
    assert!(begin.elapsed() < Duration::from_secs(8) || cfg!(miri), "it was not looked at soon");
}

/// One thread replaces values, others read them and check that they are whole.
#[test]
fn values_are_whole_while_they_are_protected() {
    let _running = deadline();
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let value = Rcu::new_in([0_u64; 8], Domain::new());
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut pointer = HazardPointer::new();
                for _ in 0..rounds {
                    let seen = pointer.protect(&value);
                    assert!(seen.iter().all(|word| *word == seen[0]));
                }
            });
        }
        (0..rounds).for_each(|number| drop(value.replace([number; 8])));
    });
}

/// In the child, what the parent's domain handed over stays, and the domain works.
#[test]
#[cfg(not(stillpoint_portable))]
#[cfg_attr(miri, ignore = "no forks")]
fn child_of_a_fork_has_the_domain() {
    use support::fork;

    if !fork::is_alone(child_of_a_fork_has_the_domain) {
        return;
    }
    let value = Rcu::new_in(1, Domain::new());
    let mut pointer = HazardPointer::new();
    let seen = pointer.protect(&value);
    value.replace(2);
    value.domain().barrier();
    assert_eq!(hazard::stats().protected, 1);
    fork::in_child(|| {
        assert_eq!(*seen, 1);
        let mut second = HazardPointer::new();
        let current = second.protect(&value);
        value.replace(3);
        value.domain().barrier();
        hazard::barrier();
        assert_eq!((*current, hazard::stats().protected), (2, 1));
    });
    assert_eq!(*seen, 1);
}
