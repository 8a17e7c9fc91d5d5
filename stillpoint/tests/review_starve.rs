//! Review: ripe callbacks starve while callers of synchronize() keep grace periods running.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use deadline::deadline;
use stillpoint::rcu::Domain;

#[test]
fn ripe_callbacks_run_while_grace_periods_follow_each_other() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    static WORST: AtomicU64 = AtomicU64::new(0);
    static RUN: AtomicU64 = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let mut most = 0;
    let mut barrier = Duration::ZERO;
    thread::scope(|scope| {
        for _ in 0..6 {
            // Sections of 2 ms, so that most grace periods sleep.
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let _guard = Own::enter();
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    Own::synchronize();
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let called = Instant::now();
                Own::call(move || {
                    WORST.fetch_max(called.elapsed().as_millis() as u64, Relaxed);
                    RUN.fetch_add(1, Relaxed);
                });
                thread::sleep(Duration::from_micros(100));
            }
        });
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(8) {
            most = most.max(Own::stats().queued);
            thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{}", Own::stats());
        for _ in 0..5 {
            let begin = Instant::now();
            Own::barrier();
            barrier = barrier.max(begin.elapsed());
        }
        stop.store(true, Relaxed);
    });
    let worst = WORST.load(Relaxed);
    eprintln!("worst {worst} ms, at most {most} queued, {} run, barrier {barrier:?}", RUN.load(Relaxed));
    assert!(worst < 300, "a callback waited for {worst} ms");
}
