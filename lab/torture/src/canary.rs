//! A thread that measures how long threads wait for a CPU: limits of waits are scaled by it.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::common::sleep;
use super::stillness::this_thread;

/// The canary sleeps, then works, again and again: little, so that it does not disturb.
const SLEEP: Duration = Duration::from_millis(5);
const WORK: Duration = Duration::from_micros(100);

/// The longest wait for a CPU of late, in microseconds; it halves in about half a minute.
static LATE: AtomicU64 = AtomicU64::new(0);
static THREAD: AtomicU64 = AtomicU64::new(0);

/// Starts the thread, for as long as the process lives. It calls `begin` first, which may lower its priority.
pub(super) fn start(begin: fn()) -> anyhow::Result<()> {
    let sing = move || {
        THREAD.store(this_thread(), Relaxed);
        begin();
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

/// Returns the time after which a wait or a writer that has not moved has lost its wake-up, if other threads run
/// ([`stillness`](super::stillness) finds it where none does). Shorter if steps can be broken; longer where threads
/// wait for CPUs.
pub(super) fn wait_limit() -> Duration {
    let base = if cfg!(stillpoint_mutants) { Duration::from_secs(2) } else { Duration::from_secs(30) };
    base + 4 * late()
}

/// Returns `true` if that is the thread.
pub(super) fn is(thread: u64) -> bool {
    THREAD.load(Relaxed) == thread
}
