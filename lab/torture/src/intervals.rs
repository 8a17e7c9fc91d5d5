//! Intervals: threads work until they are told to stop, and are watched until all have ended.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use harness::crew;

use super::canary;
use super::common::{Kind, fail, fail_with, seeded, sleep};
use super::stillness::Stillness;

/// Time between two checks.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// What is known of the threads of an interval.
pub(super) struct Watch<'a> {
    pub(super) name: &'a str,
    /// Describes the state, if they do not end.
    pub(super) state: &'a dyn Fn() -> String,
    /// Threads that wait for the others: see [`Stillness`].
    pub(super) excused: &'a dyn Fn(u64) -> bool,
    /// How long a thread may sleep that nothing else wakes.
    pub(super) longest_timer: Duration,
}

impl<'a> Watch<'a> {
    pub(super) fn new(name: &'a str, state: &'a dyn Fn() -> String) -> Self {
        Self { name, state, excused: &canary::is, longest_timer: Duration::ZERO }
    }

    pub(super) fn stillness(&self) -> Stillness {
        Stillness::beside_timers(self.longest_timer)
    }

    /// Ends the process: the threads do not do `what` they should.
    pub(super) fn hang(&self, what: &str) -> ! {
        fail(self.name, Kind::Hang, &format!("{what}: {}", (self.state)()))
    }
}

/// Runs `threads` threads, each of which gets its number. For this long, calls `tick` again and again; then sets
/// `stop`, calls `tick` with `true`, and ends the process if the threads do not end. Returns what they return.
pub(super) fn interval<T: Send>(
    watch: &Watch<'_>,
    threads: usize,
    length: Duration,
    stop: &AtomicBool,
    body: impl Fn(usize) -> T + Sync,
    mut tick: impl FnMut(bool) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<T>> {
    stop.store(false, Relaxed);
    let begin = Instant::now();
    thread::scope(|scope| {
        let body = &body;
        let start = |number| crew::spawn(scope, seeded(move || body(number)));
        let threads = (0..threads).map(start).collect::<anyhow::Result<Vec<_>>>()?;
        // The threads may never end, so this does not wait for them.
        let mut tick = |ends| tick(ends).unwrap_or_else(|why| fail_with(watch.name, &why));
        while begin.elapsed() < length {
            tick(false);
        }
        stop.store(true, Relaxed);
        // The time that this process has had: not that in which it was stopped.
        let (mut stillness, mut waited) = (watch.stillness(), Duration::ZERO);
        while !threads.iter().all(|thread| thread.is_finished()) {
            let begin = Instant::now();
            sleep(TICK / 10);
            tick(true);
            if stillness.check(watch.excused) {
                watch.hang("threads do not end, and none runs");
            }
            waited += begin.elapsed().min(10 * TICK);
            if waited > canary::wait_limit() {
                watch.hang("threads do not end, and time is over");
            }
        }
        let panicked = |_| fail(watch.name, Kind::Panic, "a thread panicked; its message is above");
        Ok(threads.into_iter().map(|thread| crew::join(thread).unwrap_or_else(panicked)).collect())
    })
}

/// [`interval`] of threads that are only watched.
pub(super) fn quiet_interval<T: Send>(
    name: &str,
    threads: usize,
    length: Duration,
    stop: &AtomicBool,
    body: impl Fn(usize) -> T + Sync,
) -> anyhow::Result<Vec<T>> {
    interval(&Watch::new(name, &String::new), threads, length, stop, body, |ends| {
        if !ends {
            sleep(TICK);
        }
        Ok(())
    })
}

/// Calls `interval` with 0, 1, and so on, for some seconds. Returns how often.
pub(super) fn repeat(
    seconds: f64,
    mut interval: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let total = Duration::from_secs_f64(seconds);
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < total {
        interval(count)?;
        count += 1;
    }
    Ok(count)
}
