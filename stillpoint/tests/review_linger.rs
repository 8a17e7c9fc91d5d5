//! Review: the worker under callers of synchronize(), and over lazy entries.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use deadline::deadline;
use stillpoint::rcu::{Domain, Hints, Limits};

/// Callers of synchronize() keep grace periods running; a thread defers a callback now and then.
#[test]
fn callbacks_run_soon_beside_callers_of_synchronize() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    static WORST: AtomicU64 = AtomicU64::new(0);
    static RUN: AtomicU64 = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let (mut worst, mut queued) = (0, 0);
    thread::scope(|scope| {
        for _ in 0..2 {
            // Readers with sections of 2 ms.
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let _guard = Own::enter();
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    Own::synchronize();
                }
            });
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(6) {
            let called = Instant::now();
            Own::call(move || {
                WORST.fetch_max(called.elapsed().as_millis() as u64, Relaxed);
                RUN.fetch_add(1, Relaxed);
            });
            thread::sleep(Duration::from_micros(200));
        }
        let stats = Own::stats();
        queued = stats.queued;
        eprintln!("after 6 s: {} run, {stats}", RUN.load(Relaxed));
        // A barrier beside them, and beside one that goes on calling.
        let begin = Instant::now();
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                Own::call(|| ());
                thread::sleep(Duration::from_micros(200));
            }
        });
        let b = Instant::now();
        Own::barrier();
        eprintln!("barrier took {:?}", b.elapsed());
        let _ = begin;
        stop.store(true, Relaxed);
        worst = WORST.load(Relaxed);
    });
    assert!(worst < 500 && queued < 3000, "a callback waited for {worst} ms; {queued} queued after 6 s");
}

/// The same without readers that hold anything up.
#[test]
fn callbacks_run_soon_beside_callers_of_synchronize_without_sections() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    static WORST: AtomicU64 = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                drop(Own::enter());
                while !stop.load(Relaxed) {
                    Own::synchronize();
                }
            });
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(4) {
            let called = Instant::now();
            Own::call(move || {
                WORST.fetch_max(called.elapsed().as_millis() as u64, Relaxed);
            });
            thread::sleep(Duration::from_micros(100));
        }
        eprintln!("{}", Own::stats());
        stop.store(true, Relaxed);
    });
    let worst = WORST.load(Relaxed);
    eprintln!("worst {worst} ms");
    assert!(worst < 500, "a callback waited for {worst} ms");
}

/// One reader is registered and idle; callbacks keep coming.
#[test]
fn rounds_are_a_millisecond_apart() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let stop = AtomicBool::new(false);
    let mut rate = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(Own::enter());
            while !stop.load(Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let begin = Instant::now();
        let before = Own::stats();
        while begin.elapsed() < Duration::from_secs(2) {
            Own::call(|| ());
            thread::sleep(Duration::from_micros(50));
        }
        let stats = Own::stats();
        rate = (stats.grace_periods - before.grace_periods) / 2;
        eprintln!("{rate} grace periods a second; {stats}");
        stop.store(true, Relaxed);
    });
    assert!(rate < 1100, "{rate} grace periods a second");
}

/// A local lazy entry whose owner runs it when the worker looks, and a barrier.
#[test]
fn barrier_over_lazy_local_entries_does_not_wait_for_them_to_be_due() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let stop = AtomicBool::new(false);
    let mut worst = Duration::ZERO;
    thread::scope(|scope| {
        scope.spawn(|| {
            let lazy = Hints::new().lazy();
            while !stop.load(Relaxed) {
                for _ in 0..640 {
                    Own::retire_with(Box::new([0_u64; 4]), lazy);
                }
                // Not again until the barrier has returned, or a while.
                thread::sleep(Duration::from_micros(300));
            }
        });
        let begin = Instant::now();
        let mut n = 0;
        while begin.elapsed() < Duration::from_secs(15) {
            let b = Instant::now();
            Own::barrier();
            n += 1;
            worst = worst.max(b.elapsed());
        }
        eprintln!("{n} barriers, worst {worst:?}");
        stop.store(true, Relaxed);
    });
    assert!(worst < Duration::from_secs(1), "{worst:?}");
}

/// A throttled thread with lazy local entries.
#[test]
fn throttled_thread_with_lazy_entries_does_not_lose_patience() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    Own::set_limits(Limits { count: 2048, bytes: 1 << 30 });
    let stop = AtomicBool::new(false);
    let mut worst = Duration::ZERO;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let _guard = Own::enter();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let lazy = Hints::new().lazy();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            let b = Instant::now();
            Own::retire_with(Box::new([0_u64; 4]), lazy);
            worst = worst.max(b.elapsed());
        }
        eprintln!("worst {worst:?}; {:?}", Own::stats());
        stop.store(true, Relaxed);
    });
    assert!(worst < Duration::from_secs(1), "{worst:?}");
}
