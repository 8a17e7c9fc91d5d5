//! Intervals: threads work until they are told to stop, and are watched until all have ended.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use harness::crew;
use harness::progress::Progress;

use super::canary;
use super::common::{Kind, fail, seeded, sleep};
use super::stillness::Stillness;

/// Time between two checks.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// Runs `threads` threads, each of which gets its number. For this long, calls `tick` again and again; then sets `stop`, and
/// ends the process if the threads do not end, with the words of `state`. Returns what they return.
pub(super) fn interval<T: Send>(
    (name, state): (&str, &dyn Fn() -> String),
    threads: usize,
    length: Duration,
    stop: &AtomicBool,
    body: impl Fn(usize) -> T + Sync,
    mut tick: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<T>> {
    stop.store(false, Relaxed);
    let begin = Instant::now();
    thread::scope(|scope| {
        let body = &body;
        let start = |number| crew::spawn(scope, seeded(move || body(number)));
        let threads = (0..threads).map(start).collect::<anyhow::Result<Vec<_>>>()?;
        while begin.elapsed() < length {
            tick()?;
        }
        stop.store(true, Relaxed);
        let mut stillness = Stillness::new();
        while !threads.iter().all(|thread| thread.is_finished()) {
            sleep(TICK / 10);
            let is_still = stillness.check(canary::is);
            if is_still || begin.elapsed() > length + canary::wait_limit() {
                let why = if is_still { "none runs" } else { "time is over" };
                fail(name, Kind::Hang, &format!("threads do not end, and {why}: {}", state()));
            }
        }
        threads.into_iter().map(crew::join).collect()
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
    interval((name, &String::new), threads, length, stop, body, || {
        sleep(TICK);
        Ok(())
    })
}

/// Calls `interval` with 0, 1, and so on, for some seconds. Returns how often.
pub(super) fn repeat(
    name: &str,
    seconds: f64,
    mut interval: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let total = Duration::from_secs_f64(seconds);
    let progress = Progress::new(&format!("torture {name}"), seconds.ceil() as usize, total);
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < total {
        interval(count)?;
        count += 1;
        progress.show(|| format!("interval {count}"));
        progress.reach(begin.elapsed().as_secs());
    }
    Ok(count)
}
