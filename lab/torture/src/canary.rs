//! A thread that measures how long threads wait for a CPU: limits of waits are scaled by it.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::common::sleep;
use super::faults::set_idle_priority;
use super::stillness::this_thread;

/// The canary sleeps, then works, again and again: little, so that it does not disturb.
const SLEEP: Duration = Duration::from_millis(5);
const WORK: Duration = Duration::from_micros(100);

/// The longest wait for a CPU of late, in microseconds; it halves in about half a minute.
static LATE: AtomicU64 = AtomicU64::new(0);
static THREAD: AtomicU64 = AtomicU64::new(0);

/// Starts the thread, for as long as the process lives; with the lowest priority if `idle`, as some threads have.
pub(super) fn start(idle: bool) -> anyhow::Result<()> {
    let sing = move || {
        THREAD.store(this_thread(), Relaxed);
        if idle {
            set_idle_priority();
        }
        loop {
            let begin = Instant::now();
            sleep(SLEEP);
            let working = Instant::now();
            while working.elapsed() < WORK {
                hint::spin_loop();
            }
            let late = begin.elapsed().saturating_sub(SLEEP + WORK).as_micros() as u64;
            let before = LATE.load(Relaxed);
            LATE.store(late.max(before - before.div_ceil(8192)), Relaxed);
        }
    };
    thread::Builder::new().spawn(sing).context("cannot start another thread")?;
    Ok(())
}

/// Returns the longest wait for a CPU of late.
pub(super) fn late() -> Duration {
    Duration::from_micros(LATE.load(Relaxed))
}

/// Returns `true` if that is the thread.
pub(super) fn is(thread: u64) -> bool {
    THREAD.load(Relaxed) == thread
}
