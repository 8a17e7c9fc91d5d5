//! Review: the worker naps over a queue that it has marked as wanted, and that has been given back, with lazy entries.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use deadline::deadline;
use stillpoint::rcu::{Domain, Hints};

struct Spins;
impl Drop for Spins {
    fn drop(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(30) {}
    }
}

#[test]
fn barrier_over_lazy_local_entries_does_not_wait_for_them_to_be_due() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    // Our queues come first; many others make the worker's look at all of them take its time.
    Own::register();
    let stop = AtomicBool::new(false);
    let mut worst = Duration::ZERO;
    let (ready, go) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            Own::register();
            ready.wait();
            go.wait();
            let hints = Hints::new().lazy().local();
            while !stop.load(Relaxed) {
                for _ in 0..256 {
                    Own::retire_with(Box::new(Spins), hints);
                }
                // No more until a barrier has seen to these.
                while Own::stats().queued != 0 && !stop.load(Relaxed) {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        });
        ready.wait();
        const MANY: usize = 1500;
        let all = Barrier::new(MANY);
        thread::scope(|scope| {
            for _ in 0..MANY {
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, || {
                        drop(Own::enter());
                        all.wait();
                    })
                    .unwrap();
            }
        });
        go.wait();
        let begin = Instant::now();
        let mut n = 0;
        while begin.elapsed() < Duration::from_secs(20) && worst < Duration::from_secs(5) {
            let b = Instant::now();
            Own::barrier();
            n += 1;
            worst = worst.max(b.elapsed());
        }
        eprintln!("{n} barriers, worst {worst:?}; {:?}", Own::stats());
        stop.store(true, Relaxed);
    });
    assert!(worst < Duration::from_secs(5), "{worst:?}");
}
