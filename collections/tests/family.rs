//! Series of metrics by labels: none is made twice, none is lost, and their number is bounded.

#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use stillpoint::percpu::{Counter, Histogram};
use stillpoint::rcu;
use stillpoint_collections::Family;

fn get(family: &Family<u64, Counter>, labels: u64) -> Option<u64> {
    family.get(&labels, &rcu::enter()).map(|count| count.get())
}

#[test]
fn racing_threads_count_in_one_series() {
    const THREADS: usize = 4;
    for _ in 0..if cfg!(miri) { 2 } else { 100 } {
        let (family, start) = (Family::<u64, Counter>::default(), Barrier::new(THREADS));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for labels in 0..10 {
                        family.get_or_create(&labels, &rcu::enter()).inc();
                        family.get_or_create_owned(&labels).inc();
                    }
                });
            }
        });
        assert_eq!(family.len(), 10);
        assert!(family.iter(&rcu::enter()).all(|(_, count)| count.get() == 2 * THREADS as u64));
    }
}

#[test]
fn racing_threads_create_no_more_series_than_the_limit() {
    const OVERFLOW: u64 = u64::MAX;
    for _ in 0..if cfg!(miri) { 2 } else { 100 } {
        let (family, start) = (Family::<u64, Counter>::default().with_limit(5, OVERFLOW), Barrier::new(3));
        thread::scope(|scope| {
            for thread in 0..3 {
                let (family, start) = (&family, &start);
                scope.spawn(move || {
                    start.wait();
                    for labels in 0..20 {
                        family.get_or_create(&(labels * (thread % 2 + 1)), &rcu::enter()).inc();
                    }
                });
            }
        });
        assert_eq!(family.len(), 6);
        let all: u64 = family.iter(&rcu::enter()).map(|(_, count)| count.get()).sum();
        assert_eq!(all, 60);
    }
}

#[test]
fn removed_series_leave_their_places() {
    let family = Family::<u64, Counter>::default().with_limit(2, 99);
    for round in 0..10 {
        for labels in [round, round + 1000, round + 2000] {
            family.get_or_create(&labels, &rcu::enter()).inc();
        }
        assert_eq!((family.len(), get(&family, round + 2000)), (3, None));
        // That of the overflow has no place below the limit.
        assert_eq!((get(&family, 99), family.remove(&99), family.remove(&99)), (Some(1), true, false));
        let handle = family.get_or_create_owned(&round);
        assert!(family.remove(&round) && family.remove(&(round + 1000)) && family.is_empty());
        handle.inc();
        assert_eq!((handle.get(), get(&family, round)), (2, None));
    }
}

#[test]
fn constructor_that_panics_or_uses_the_family_leaves_the_place() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let fails = AtomicBool::new(true);
    let make = || {
        assert!(!fails.load(Relaxed), "not yet");
        MADE.fetch_add(1, Relaxed);
        Counter::<u64>::new()
    };
    let family = Family::new_with_constructor(make).with_limit(1, 0);
    for _ in 0..3 {
        assert!(catch_unwind(AssertUnwindSafe(|| family.get_or_create_owned(&1))).is_err());
    }
    fails.store(false, Relaxed);
    family.get_or_create_owned(&1).inc();
    family.get_or_create_owned(&2).inc();
    assert_eq!((family.len(), MADE.load(Relaxed)), (2, 2));
    assert!(family.get(&1, &rcu::enter()).is_some_and(|count| count.get() == 1));
}

#[test]
fn series_may_be_histograms() {
    let family = Family::<&str, Histogram>::default();
    (1..=100).for_each(|value| family.get_or_create(&"a", &rcu::enter()).record(value));
    let guard = rcu::enter();
    let seen = family.get("a", &guard).expect("it is there").snapshot();
    assert_eq!((seen.count(), seen.mean()), (100, Some(50.5)));
}
