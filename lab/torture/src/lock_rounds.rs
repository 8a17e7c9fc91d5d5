//! Rounds of `torture lock` in which nothing makes up for a lost wake-up: few threads, each of which takes the lock
//! once, or waits for its turn, without signals, forks, low priorities, and mostly without timeouts.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use stillpoint::lock::MutexGuard;
use stillpoint::lock::lab::AllNodes;

use super::common::sleep;
use super::guarded::{CHANGED, Guarded, LOCK, NAME};
use super::intervals::{Watch, interval};

const THREADS: usize = 4;
/// Turns of each thread.
const TURNS: u64 = 50;

/// Runs rounds for this long. Returns how often the lock was taken for work.
pub(super) fn run(length: Duration) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let mut taken = 0;
    while begin.elapsed() < length {
        taken += match fastrand::u8(..4) {
            0 => round(2, take_turns)?,
            1 => {
                // Threads poll.
                let _nodes = AllNodes::alloc();
                round(THREADS, take)?
            }
            2 => round(THREADS, |thread| if thread == 0 { take_in_time() } else { take(thread) })?,
            _ => round(THREADS, take)?,
        };
    }
    Ok(taken)
}

/// Runs threads with these numbers. Returns the sum of what they return.
fn round(threads: usize, body: impl Fn(u64) -> u64 + Sync) -> anyhow::Result<u64> {
    LOCK.lock().turn = 0;
    let state = || format!("{LOCK:?}, {CHANGED:?}");
    let body = |number| body(number as u64);
    let (watch, stop) = (Watch::new(NAME, &state), AtomicBool::new(false));
    let taken = interval(&watch, threads, Duration::ZERO, &stop, body, |_| Ok(()))?;
    Ok(taken.into_iter().sum())
}

/// Takes the lock once, and keeps it for so long that the others sleep.
fn take(_thread: u64) -> u64 {
    hold(LOCK.lock())
}

fn take_in_time() -> u64 {
    LOCK.try_lock_for(Duration::from_micros(fastrand::u64(..1000))).map_or(0, hold)
}

fn hold(mut guard: MutexGuard<'_, Guarded>) -> u64 {
    guard.work();
    sleep(Duration::from_micros(fastrand::u64(..500)));
    if fastrand::u8(..8) == 0 {
        MutexGuard::unlock_fair(guard);
    }
    1
}

/// Two threads take turns, and tell each other.
fn take_turns(thread: u64) -> u64 {
    for turn in 0..TURNS {
        let mut guard = LOCK.lock();
        while guard.turn != 2 * turn + thread {
            CHANGED.wait(&mut guard);
        }
        guard.work();
        guard.turn += 1;
        if fastrand::bool() {
            CHANGED.notify_one();
        } else {
            drop(guard);
            CHANGED.notify_one();
        }
    }
    TURNS
}
