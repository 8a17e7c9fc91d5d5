//! Guards that sleep, move between threads, and outlive them.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{mem, thread};

use stillpoint::Domain as _;
use stillpoint::rcu::{GracePeriod, Rcu};
use stillpoint::srcu::{Domain, Guard, OwnedGuard};
use support::deadline::deadline;
use support::panics::message;
use support::time_limit::repetitions;
use support::tracked::Tracked;
use support::until::until;
use tokio::runtime::{Builder, Runtime};

fn fresh() -> Tracked {
    Tracked(Box::leak(Box::default()))
}

/// Waits until a grace period of `domain` sleeps.
fn until_it_sleeps(domain: &Domain, before: u64) {
    while domain.stats().sleeps == before {
        thread::yield_now();
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_time().build().expect("a runtime")
}

#[test]
fn guards_and_domains_are_send_sync_and_small() {
    fn is<T: Send + Sync>() {}
    is::<Guard<'_>>();
    is::<OwnedGuard>();
    is::<Domain>();
    is::<Rcu<String, Domain>>();
    assert_eq!(size_of::<Guard<'_>>(), 2 * size_of::<usize>());
}

#[test]
fn tried_grace_period_is_blocked_by_guards_of_any_thread() {
    let _running = deadline();
    let domain = Domain::new();
    assert!(domain.try_synchronize());
    let guard = domain.enter();
    assert!(!domain.try_synchronize());
    let (before, writer) = (domain.stats().sleeps, domain.clone());
    let writer = thread::spawn(move || writer.synchronize());
    until_it_sleeps(&domain, before);
    assert!(!domain.try_synchronize());
    drop(guard);
    writer.join().expect("the grace period ends");
    assert!(domain.try_synchronize());
}

#[test]
fn grace_period_waits_for_a_guard_dropped_elsewhere() {
    static DOMAIN: Domain = Domain::new();
    let _running = deadline();
    let dropped = Arc::new(AtomicBool::new(false));
    let (guard, before) = (DOMAIN.enter(), DOMAIN.stats().sleeps);
    let writer = thread::spawn({
        let dropped = Arc::clone(&dropped);
        move || {
            DOMAIN.synchronize();
            assert!(dropped.load(Acquire));
        }
    });
    until_it_sleeps(&DOMAIN, before);
    thread::spawn(move || {
        dropped.store(true, Release);
        drop(guard);
    })
    .join()
    .expect("no panic");
    writer.join().expect("no panic");
}

#[test]
fn guard_outliving_its_thread_is_waited_for() {
    static DOMAIN: Domain = Domain::new();
    let _running = deadline();
    let guard = thread::spawn(|| DOMAIN.enter()).join().expect("no panic");
    let readers = GracePeriod::now_in(DOMAIN.clone());
    assert!(!readers.wait_timeout(Duration::from_millis(10)));
    thread::spawn(move || drop(guard)).join().expect("no panic");
    readers.wait();
}

#[test]
fn domain_does_not_wait_for_guards_of_another() {
    let _running = deadline();
    let domains: Vec<Domain> = (0..100).map(|_| Domain::new()).collect();
    let guards: Vec<_> = domains.iter().skip(1).map(Domain::enter).collect();
    domains[0].synchronize();
    drop(guards);
    domains.iter().for_each(Domain::synchronize);
}

#[test]
fn clones_are_handles_of_the_same_domain() {
    let _running = deadline();
    let domain = Domain::new();
    let number = Rcu::new_in(1, domain.clone());
    let other = domain.clone();
    let guard = other.enter();
    assert_eq!(*number.load(&guard), 1);
    let readers = GracePeriod::now_in(domain);
    assert!(!readers.wait_timeout(Duration::from_millis(10)));
    drop(guard);
    readers.wait();
}

#[test]
fn guard_of_another_domain_is_refused() {
    let (domain, other) = (Domain::new(), Domain::new());
    let number = Rcu::new_in(1, domain.clone());
    for (wrong, why) in [(&other, "another domain"), (&Domain::new(), "an unused domain")] {
        let refused = catch_unwind(AssertUnwindSafe(|| *number.load(&wrong.enter())));
        let panic = refused.expect_err(why);
        assert!(message(&*panic).contains("another srcu::Domain"), "{}", message(&*panic));
    }
    let refused = catch_unwind(AssertUnwindSafe(|| drop(number.update_with(&other.enter(), |old| old + 1))));
    refused.expect_err("updates are refused as well");
    assert_eq!(*number.load(&domain.enter()), 1);
    // The guards have been dropped nevertheless.
    domain.synchronize();
    other.synchronize();
}

#[test]
fn moving_readers_never_see_a_dropped_value() {
    let _running = deadline();
    let domain = Domain::new();
    let value = &Rcu::new_in(fresh(), domain.clone());
    let domain = &domain;
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<(Guard<'_>, &Tracked)>(64);
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                let guard = domain.enter();
                let drops = value.load(&guard).0;
                assert_eq!(drops.load(Acquire), 0);
                drop(guard);
                // With its reference, which is not borrowed from it, so that the pair can be sent.
                let guard = Box::into_raw(Box::new(domain.enter()));
                // SAFETY: there is such a guard until the other thread drops it.
                let seen = value.load(unsafe { &*guard });
                assert_eq!(seen.0.load(Acquire), 0);
                // SAFETY: from a box; `seen` is not used once the guard is dropped.
                let guard = unsafe { *Box::from_raw(guard) };
                if sender.send((guard, seen)).is_err() {
                    break;
                }
            }
        });
        scope.spawn(move || {
            for (guard, seen) in receiver {
                assert_eq!(seen.0.load(Acquire), 0);
                drop(guard);
            }
        });
        for round in 0..repetitions(2000) {
            let old = value.replace(fresh());
            if round % 2 == 0 {
                let drops = old.0;
                drop(old.wait());
                assert_eq!(drops.load(Acquire), 1);
            }
        }
        stop.store(true, Relaxed);
    });
    domain.barrier();
    assert_eq!(domain.stats().readers, 0);
}

#[test]
fn grace_periods_end_beside_new_sections() {
    const READERS: usize = 3;
    let _running = deadline();
    let domain = &Domain::new();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(move || {
                // At every moment a section is open.
                let mut guard = domain.enter();
                while !stop.load(Relaxed) {
                    let next = domain.enter();
                    drop(std::mem::replace(&mut guard, next));
                }
            });
        }
        (0..200).for_each(|_| domain.synchronize());
        stop.store(true, Relaxed);
    });
}

#[test]
fn repin_lets_grace_periods_end() {
    const READERS: usize = 3;
    let _running = deadline();
    let domain = &Domain::new();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for index in 0..READERS {
            scope.spawn(move || {
                let (mut guard, mut owned) = (domain.enter(), domain.enter_owned());
                while !stop.load(Relaxed) {
                    guard.repin();
                    owned.repin();
                    if index == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        (0..200).for_each(|_| domain.synchronize());
        stop.store(true, Relaxed);
    });
    assert_eq!(domain.stats().readers, 0);
}

#[test]
fn repinned_guard_protects_what_it_loads() {
    const WRITES: usize = 1000;
    let _running = deadline();
    let domain = Domain::new();
    let value = &Rcu::new_in(fresh(), domain.clone());
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut guard = domain.enter_owned();
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let seen = value.load(&guard);
                    assert_eq!(seen.0.load(Acquire), 0);
                    thread::yield_now();
                    assert_eq!(seen.0.load(Acquire), 0);
                    guard.repin();
                }
            });
        }
        for _ in 0..WRITES {
            let old = value.replace(fresh());
            let drops = old.0;
            drop(old.wait());
            assert_eq!(drops.load(Acquire), 1);
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn owned_guard_outlives_all_other_handles() {
    let _running = deadline();
    let domain = Domain::new();
    let value = Rcu::new_in(fresh(), domain.clone());
    let (guard, drops) = (domain.enter_owned(), value.load(&domain.enter()).0);
    domain.call(|| ());
    drop(value.replace(fresh()));
    drop((value, domain));
    thread::sleep(Duration::from_millis(5));
    assert_eq!(drops.load(Acquire), 0);
    thread::spawn(move || drop(guard)).join().expect("no panic");
    while drops.load(Acquire) == 0 {
        thread::yield_now();
    }
}

#[test]
fn handles_of_one_domain_are_equal() {
    let [one, other] = [Domain::new(), Domain::new()];
    // Unused.
    assert_eq!(one, one);
    assert_ne!(one, other);
    let clone = one.clone();
    assert_eq!(clone, one);
    assert_ne!(one, other);
    assert_ne!(other, clone);
    other.prepare();
    assert_ne!(one, other);
    let moved = other;
    assert_eq!(moved, moved.clone());
}

#[test]
fn hundred_thousand_guards_cost_at_most_two_wakeups() {
    let _running = deadline();
    let wakeups = || {
        let domain = &Domain::new();
        let guards: Vec<_> = (0..repetitions(100_000)).map(|_| domain.enter()).collect();
        assert_eq!(domain.stats().readers, guards.len() as u64);
        thread::scope(|scope| {
            let writer = scope.spawn(|| domain.synchronize());
            until_it_sleeps(domain, 0);
            // Begins later: the grace period does not wait for it, and it does not count down.
            let late = domain.enter();
            drop(domain.enter());
            drop(guards);
            writer.join().expect("no panic");
            drop(late);
        });
        let stats = domain.stats();
        assert_eq!((stats.readers, stats.sleeps), (0, 1), "{stats}");
        assert!(stats.wakeups <= 3, "{stats}");
        assert!(stats.heavy_fences <= 3, "{stats}");
        stats.wakeups
    };
    // Once more if the leader, which had counted its sleep, lost its CPU before it slept.
    until(|| wakeups() != 0);
}

#[test]
fn guard_is_held_over_await_across_threads() {
    const TASKS: usize = 20;
    const ROUNDS: usize = 100;
    static DOMAIN: Domain = Domain::new();
    let _running = deadline();
    let value = Arc::new(Rcu::new_in(fresh(), DOMAIN.clone()));
    let moved = Arc::new(AtomicUsize::new(0));
    let readers = (0..TASKS).map(|_| {
        let (value, moved) = (Arc::clone(&value), Arc::clone(&moved));
        async move {
            for _ in 0..ROUNDS {
                let guard = DOMAIN.enter();
                let seen = value.load(&guard);
                let before = thread::current().id();
                tokio::task::yield_now().await;
                moved.fetch_add(usize::from(thread::current().id() != before), Relaxed);
                assert_eq!(seen.0.load(Acquire), 0);
            }
        }
    });
    let writer = {
        let value = Arc::clone(&value);
        async move {
            for _ in 0..ROUNDS {
                let old = value.replace(fresh());
                GracePeriod::now_in(DOMAIN.clone()).await;
                drop(old);
            }
        }
    };
    let runtime = runtime();
    let readers: Vec<_> = readers.map(|reader| runtime.spawn(reader)).collect();
    let writer = runtime.spawn(writer);
    runtime.block_on(async {
        for reader in readers {
            reader.await.expect("no panic");
        }
        writer.await.expect("no panic");
    });
    DOMAIN.barrier();
    assert_eq!(DOMAIN.stats().readers, 0);
}

#[test]
fn dropped_task_ends_its_section() {
    let _running = deadline();
    let domain = Domain::new();
    let task = {
        let domain = domain.clone();
        async move {
            let _guard = domain.enter();
            std::future::pending::<()>().await;
        }
    };
    let runtime = runtime();
    runtime.block_on(async {
        let timeout = tokio::time::timeout(Duration::from_millis(1), task);
        timeout.await.expect_err("the task is pending");
    });
    domain.synchronize();
}

#[test]
fn pointer_debug_output_reads_in_its_own_section() {
    let domain = Domain::new();
    let number = Rcu::new_in(7, domain.clone());
    assert_eq!(format!("{number:?}"), "Rcu(7)");
    drop(number.update_with(&domain.enter(), |old| old + 1));
    assert_eq!(number.into_inner(), 8);
    domain.synchronize();
    assert!(format!("{domain:?}").contains(file!()));
}

#[test]
fn cookies_of_two_domains_do_not_compare() {
    let domains = [Domain::new(), Domain::new()];
    let [a, b] = domains.each_ref().map(|domain| GracePeriod::now_in(domain.clone()));
    assert_ne!(a, b);
    assert_eq!(a.partial_cmp(&b), None);
    let same = GracePeriod::now_in(domains[0].clone());
    assert_eq!(a, same);
    assert_eq!(HashSet::from([a.clone(), b.clone(), same]).len(), 2);
    domains[0].synchronize();
    let later = GracePeriod::now_in(domains[0].clone());
    assert!(a < later && a != later);
    // `b` has not elapsed with it.
    assert!(a.is_elapsed() && !b.is_elapsed());
}

#[test]
fn grace_period_after_one_that_failed_ends_beside_new_sections() {
    let _running = deadline();
    let domain = Domain::new();
    let old = domain.enter();
    // Tries a grace period, which the section blocks.
    domain.flush();
    let (mut section, has_ended) = (domain.enter(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            domain.synchronize();
            has_ended.store(true, Release);
        });
        while domain.stats().sleeps == 0 {
            thread::yield_now();
        }
        drop(old);
        // One is open at any time.
        while !has_ended.load(Acquire) {
            let next = domain.enter();
            drop(mem::replace(&mut section, next));
        }
    });
}
