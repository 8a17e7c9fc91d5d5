//! How much garbage may wait before threads are throttled, and for how long.
//!
//! A thread is throttled when it is about to pin, and holds no guard. It goes on after [`TIMEOUT`] at the latest, and from
//! then on after [`SHORT_TIMEOUT`], until a function has run: the thread that keeps the others' functions from running may
//! wait for it.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use stillpoint::rcu::Limits;

const TIMEOUT: Duration = Duration::from_secs(1);
const SHORT_TIMEOUT: Duration = Duration::from_millis(1);

/// Reads the switch: `STILLPOINT_EPOCH_LIMIT=off`, or a number of MiB.
fn switch() -> Limits {
    match env::var("STILLPOINT_EPOCH_LIMIT").as_deref() {
        Err(_) | Ok("") => Limits::default(),
        Ok("off") => Limits { count: u64::MAX, bytes: u64::MAX },
        Ok(number) => match number.parse::<u64>() {
            Ok(mebibytes) => Limits { bytes: mebibytes.saturating_mul(1 << 20), ..Limits::default() },
            Err(_) => {
                eprintln!("stillpoint: STILLPOINT_EPOCH_LIMIT={number}: neither \"off\" nor a number of MiB");
                Limits::default()
            }
        },
    }
}

/// What waits in sealed bags. Relaxed, all: bounds need no order.
pub(crate) struct Backlog {
    limits: Limits,
    count: AtomicU64,
    bytes: AtomicU64,
    /// Functions that have run.
    run: AtomicU64,
    /// `run` when a throttled thread last went on in vain.
    run_at_timeout: AtomicU64,
}

impl Backlog {
    pub(crate) fn new() -> Self {
        let [count, bytes, run] = [const { AtomicU64::new(0) }; 3];
        Self { limits: switch(), count, bytes, run, run_at_timeout: AtomicU64::new(u64::MAX) }
    }

    pub(crate) fn add(&self, count: usize, bytes: usize) {
        self.count.fetch_add(count as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn remove(&self, count: usize, bytes: usize) {
        self.count.fetch_sub(count as u64, Relaxed);
        self.bytes.fetch_sub(bytes as u64, Relaxed);
        self.run.fetch_add(count as u64, Relaxed);
    }

    /// Returns the number of functions that have run.
    pub(crate) fn run(&self) -> u64 {
        self.run.load(Relaxed)
    }

    pub(crate) fn is_above_limit(&self) -> bool {
        self.count.load(Relaxed) > self.limits.count || self.bytes.load(Relaxed) > self.limits.bytes
    }

    /// Returns for how long a thread may be throttled now.
    pub(crate) fn timeout(&self) -> Duration {
        let has_run = self.run_at_timeout.load(Relaxed) != self.run.load(Relaxed);
        if has_run { TIMEOUT } else { SHORT_TIMEOUT }
    }

    pub(crate) fn timed_out(&self) {
        self.run_at_timeout.store(self.run.load(Relaxed), Relaxed);
    }
}
