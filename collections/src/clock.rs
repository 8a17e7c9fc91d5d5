//! The monotonic clock of Linux, in nanoseconds.

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use rustix::time::clock_gettime;

pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until a point in time, or until a signal comes.
pub fn sleep_until(time: u64) {
    let time = Timespec { tv_sec: (time / 1_000_000_000) as _, tv_nsec: (time % 1_000_000_000) as _ };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}
