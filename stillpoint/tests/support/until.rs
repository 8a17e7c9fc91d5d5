//! Starts threads, and polls for the effects of others.

use std::thread;
use std::time::{Duration, Instant};

/// Polls until `condition` holds.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Repeats `attempt` until one takes less than `time`. For what must not wait as long by itself: a busy machine may
/// delay an attempt, while one that waits takes longer each time, and does not end before the test's deadline.
pub fn until_quick(time: Duration, mut attempt: impl FnMut()) {
    until(|| {
        let begin = Instant::now();
        attempt();
        begin.elapsed() < time
    });
}

/// Runs `body` in as many threads, which know their number. Returns when all have ended.
pub fn in_threads(count: usize, body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for thread in 0..count {
            let body = &body;
            scope.spawn(move || body(thread));
        }
    });
}
