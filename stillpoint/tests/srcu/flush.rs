//! `flush` of an `srcu` domain: lazy callbacks of all threads run soon.

use std::sync::Barrier;
use std::sync::atomic::Ordering::*;
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::srcu::Domain;
use support::callbacks::{LAZY, counter};
use support::deadline::deadline;
use support::until::{until, until_quick};

#[test]
fn flush_ends_the_wait_of_lazy_callbacks_of_all_threads() {
    const THREADS: usize = 16;
    let _running = deadline();
    let domain = Domain::new();
    let (calls, call) = counter();
    let all = Barrier::new(THREADS);
    // By themselves they wait for ten seconds.
    until_quick(Duration::from_secs(8), || {
        calls.store(0, Relaxed);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    all.wait();
                    domain.call_with(call, LAZY);
                });
            }
        });
        domain.flush();
        until(|| calls.load(Acquire) == THREADS);
    });
}
