//! Absolute times of the C library's clocks.

use core::time::Duration;

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, clockid_t, timespec};

/// The end of a wait.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    clock: clockid_t,
    /// Nanoseconds; what lies before the clock's beginning is 0.
    at: u128,
}

impl Until {
    /// Returns `None` if the time is not valid, or no wait can end by this clock.
    pub fn new(clock: clockid_t, at: &timespec) -> Option<Self> {
        let is_valid = is_supported(clock) && (0..1_000_000_000).contains(&at.tv_nsec);
        is_valid.then(|| Self { clock, at: nanoseconds(at) })
    }

    /// Returns how long it is until then. Returns `None` if the time is over.
    pub fn left(self) -> Option<Duration> {
        let left = self.at.checked_sub(now(self.clock)).filter(|&left| left != 0)?;
        Some(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

/// Returns `true` if waits can end by this clock.
pub fn is_supported(clock: clockid_t) -> bool {
    matches!(clock, CLOCK_REALTIME | CLOCK_MONOTONIC)
}

/// Returns the reading of the monotonic clock after this time.
pub fn reading_after(left: Duration) -> u64 {
    u64::try_from(now(CLOCK_MONOTONIC) + left.as_nanos()).unwrap_or(u64::MAX)
}

fn now(clock: clockid_t) -> u128 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call, which cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    nanoseconds(&now)
}

fn nanoseconds(time: &timespec) -> u128 {
    u64::try_from(time.tv_sec).map_or(0, |seconds| u128::from(seconds) * 1_000_000_000 + time.tv_nsec as u128)
}
