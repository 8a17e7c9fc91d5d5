//! The monotonic clock of other systems, in nanoseconds.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Returns the time since the first call. It is not 0.
pub fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// Sleeps until a point in time.
pub fn sleep_until(time: u64) {
    thread::sleep(Duration::from_nanos(time.saturating_sub(now())));
}
