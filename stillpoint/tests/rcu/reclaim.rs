//! Retired values are dropped once, soon, whatever their destructors do.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::rcu::{Rcu, RcuDomain};
use support::deadline::deadline;
use support::time_limit::repetitions;
use support::tracked::Tracked;

/// Waits until `count` values have been dropped, without other activity.
fn await_drops(drops: &AtomicUsize, count: usize) {
    while drops.load(Acquire) < count {
        thread::yield_now();
    }
    assert_eq!(drops.load(Acquire), count);
}

#[test]
fn retired_value_is_dropped_without_further_activity() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    // One, then many, then one again: in every state of the worker.
    let mut count = 0;
    for more in [1, 10_000, 1, 1, 5000, 1] {
        for _ in 0..more {
            drop(value.replace(Tracked(&DROPS)));
        }
        count += more;
        await_drops(&DROPS, count);
    }
}

#[test]
fn value_retired_inside_a_section_is_dropped_after_it() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    // More than a thread may retire outside a section without bookkeeping.
    let count = repetitions(100_000);
    let _running = deadline();
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let guard = Own::enter();
    for _ in 0..count {
        drop(value.replace(Tracked(&DROPS)));
    }
    while Own.stats().sleeps == 0 {
        thread::yield_now();
    }
    assert_eq!(DROPS.load(Acquire), 0);
    drop(guard);
    await_drops(&DROPS, count);
}

#[test]
fn retired_value_outlives_the_section_of_its_reader() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let guard = Own::enter();
    thread::scope(|scope| {
        scope.spawn(|| drop(value.replace(Tracked(&DROPS))));
    });
    // The worker's grace period waits for this section.
    while Own.stats().sleeps == 0 {
        thread::yield_now();
    }
    assert_eq!(value.load(&guard).0.load(Acquire), 0);
    drop(guard);
    await_drops(&DROPS, 1);
}

#[test]
fn panicking_destructor_does_not_stop_others() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Panics(#[expect(dead_code, reason = "dropped")] Tracked);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a destructor failed");
        }
    }
    let _running = deadline();
    for _ in 0..10 {
        let (panics, fine) = (Rcu::new_in(None, Own), Rcu::new_in(Tracked(&DROPS), Own));
        drop(fine.replace(Tracked(Box::leak(Box::default()))));
        drop(panics.replace(Some(Panics(Tracked(&DROPS)))));
        drop(panics.replace(None));
    }
    await_drops(&DROPS, 20);
    // The worker is still running.
    drop(Rcu::new_in(Tracked(&DROPS), Own).replace(Tracked(Box::leak(Box::default()))));
    await_drops(&DROPS, 21);
}

#[test]
fn destructors_may_retire_read_and_wait() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Parent(usize);
    impl Drop for Parent {
        fn drop(&mut self) {
            let child = Rcu::new_in(None, Own);
            assert!(child.load(&Own::enter()).is_none());
            if let Some(left) = self.0.checked_sub(1) {
                drop(child.replace(Some(Parent(left))));
                drop(child.replace(None));
            }
            Own.synchronize();
            drop(child.replace(None).wait());
            DROPS.fetch_add(1, Release);
        }
    }
    let _running = deadline();
    drop(Rcu::new_in(Some(Parent(50)), Own).replace(None));
    await_drops(&DROPS, 51);
}

#[test]
fn long_chain_of_retirements_needs_no_deep_stack() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    const WIDTH: usize = 100_000;
    struct Crowd;
    impl Drop for Crowd {
        fn drop(&mut self) {
            let value = Rcu::new_in(Tracked(&DROPS), Own);
            for _ in 0..WIDTH {
                drop(value.replace(Tracked(&DROPS)));
            }
        }
    }
    let _running = deadline();
    drop(Rcu::new_in(Some(Crowd), Own).replace(None));
    await_drops(&DROPS, WIDTH + 1);
}

/// The number of existing values, and its peak.
#[derive(Default)]
struct Population {
    now: AtomicUsize,
    peak: AtomicUsize,
}

struct Member<const SIZE: usize>(&'static Population, [u8; SIZE]);

impl<const SIZE: usize> Member<SIZE> {
    fn new(of: &'static Population) -> Self {
        of.peak.fetch_max(of.now.fetch_add(1, Relaxed) + 1, Relaxed);
        Self(of, [0; SIZE])
    }
}

impl<const SIZE: usize> Drop for Member<SIZE> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

/// Retires `count` values of `SIZE` bytes beside a reader in long sections. Returns the peak number of values.
fn peak<D: RcuDomain, const SIZE: usize>(domain: D, count: usize) -> usize {
    let population: &'static Population = Box::leak(Box::default());
    let value = Rcu::new_in(Member::<SIZE>::new(population), domain);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let (_guard, begin) = (D::enter(), Instant::now());
                // Beside other load it may take long to yield.
                for _ in (0..1000).take_while(|_| begin.elapsed() < Duration::from_millis(20)) {
                    thread::yield_now();
                }
            }
        });
        for _ in 0..count {
            drop(value.replace(Member::new(population)));
        }
        stop.store(true, Relaxed);
    });
    while population.now.load(Relaxed) > 1 {
        thread::yield_now();
    }
    population.peak.load(Relaxed)
}

#[test]
fn backlog_count_is_bounded() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    // One full queue, and another one in the worker.
    let peak = peak::<_, 1>(Own, 1_000_000);
    assert!(peak <= 3 * 65_536, "{peak} values at a time");
}

#[test]
fn backlog_bytes_are_bounded() {
    stillpoint::domain! { struct Own; }
    const SIZE: usize = 32 << 10;
    let _running = deadline();
    let bytes = peak::<_, SIZE>(Own, 20_000) * SIZE;
    assert!(bytes <= 3 * (64 << 20), "{bytes} bytes at a time");
}

#[test]
fn writers_may_retire_concurrently() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let value = Rcu::new_in(Tracked(&DROPS), Own);
                for _ in 0..20_000 {
                    drop(value.replace(Tracked(&DROPS)));
                }
            });
        }
    });
    await_drops(&DROPS, 4 * 20_001);
}
