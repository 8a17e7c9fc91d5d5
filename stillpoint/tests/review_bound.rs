//! Review: bounds, and what a long local destructor costs.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use deadline::deadline;
use stillpoint::rcu::{Domain, Hints, Limits};

fn watch<D: Domain>(stop: &AtomicBool) -> (u64, u64) {
    let mut most = (0, 0);
    while !stop.load(Relaxed) {
        let stats = D::stats();
        most = (most.0.max(stats.queued), most.1.max(stats.queued_bytes));
        thread::sleep(Duration::from_micros(200));
    }
    most
}

/// Threads that come, retire less than makes them do their bookkeeping, and go.
#[test]
fn threads_that_retire_little_and_end_stay_within_the_limit() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    Own::set_limits(Limits { count: 1 << 20, bytes: 1 << 20 });
    let stop = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = Own::enter();
            thread::sleep(Duration::from_millis(1000));
            stop.store(true, Relaxed);
        });
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    thread::spawn(|| {
                        let _guard = Own::enter();
                        Own::retire_with(Box::new(0_u8), Hints::new().owning(60 << 10));
                    })
                    .join()
                    .unwrap();
                }
            });
        }
        watch::<Own>(&stop)
    });
    eprintln!("{most:?}, {:?}", Own::stats());
    assert!(most.1 < 2 << 20, "{most:?}");
}

/// 16 threads, in sections with repin, nested, and a slow reader.
#[test]
fn sixteen_threads_stay_within_the_limit() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    Own::set_limits(Limits { count: 4096, bytes: 1 << 30 });
    let stop = AtomicBool::new(false);
    static DONE: AtomicU64 = AtomicU64::new(0);
    struct Node(#[allow(dead_code)] String);
    impl Drop for Node {
        fn drop(&mut self) {
            DONE.fetch_add(1, Relaxed);
        }
    }
    let most = thread::scope(|scope| {
        let stop = &stop;
        for number in 0..16 {
            scope.spawn(move || {
                let hints =
                    [Hints::new(), Hints::new().local(), Hints::new().lazy(), Hints::new().lazy().local()]
                        [number % 4];
                while !stop.load(Relaxed) {
                    match number / 4 {
                        0 => {
                            let _outer = Own::enter();
                            let _inner = Own::enter();
                            Own::retire_with(Box::new(Node("x".into())), hints);
                        }
                        1 => {
                            let mut guard = Own::enter();
                            for _ in 0..1000 {
                                Own::retire_with(Box::new(Node("x".into())), hints);
                                guard.repin();
                            }
                        }
                        2 => {
                            let guard = Own::enter();
                            for _ in 0..32 {
                                Own::retire_with(Box::new(Node("x".into())), hints);
                            }
                            drop(guard);
                        }
                        _ => Own::retire_with(Box::new(Node("x".into())), hints),
                    }
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..8 {
                let _guard = Own::enter();
                thread::sleep(Duration::from_millis(300));
            }
            for _ in 0..8 {
                thread::sleep(Duration::from_millis(200));
            }
            stop.store(true, Relaxed);
        });
        watch::<Own>(stop)
    });
    eprintln!("{most:?}, {:?}", Own::stats());
    assert!(most.0 < 2 * 4096, "{most:?}");
}

/// A local destructor that retires many values, one after another.
#[test]
fn nested_retirements_of_a_local_destructor_do_not_wake_the_worker_each() {
    stillpoint::domain! { struct Own; }
    const COUNT: u32 = 50_000;
    static TIME: AtomicU64 = AtomicU64::new(0);
    static SWITCHES: AtomicU64 = AtomicU64::new(0);
    struct Tree;
    /// Voluntary context switches of the worker.
    fn switches() -> u64 {
        let mut sum = 0;
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
            if status.contains("stillpoint-rcu") {
                let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
                sum += line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
            }
        }
        sum
    }
    impl Drop for Tree {
        fn drop(&mut self) {
            let (before, begin) = (switches(), Instant::now());
            for _ in 0..COUNT {
                Own::retire(Box::new(0_u64));
            }
            TIME.store(begin.elapsed().as_nanos() as u64 / u64::from(COUNT), Release);
            SWITCHES.store(switches() - before, Release);
        }
    }
    let _running = deadline();
    Own::retire_with(Box::new(Tree), Hints::new().local());
    while TIME.load(Acquire) == 0 {
        Own::retire(Box::new(0_u64));
    }
    let (time, switches) = (TIME.load(Acquire), SWITCHES.load(Acquire));
    eprintln!("{time} ns for each retirement, {switches} switches of the worker");
    let begin = Instant::now();
    for _ in 0..COUNT {
        Own::retire(Box::new(0_u64));
    }
    eprintln!("outside: {} ns", begin.elapsed().as_nanos() as u64 / u64::from(COUNT));
    assert!(switches < 1000, "{switches} wake-ups of the worker");
}
