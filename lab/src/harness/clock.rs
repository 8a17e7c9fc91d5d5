//! The clock that runs only while the calling thread does.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // The clock starts at zero with the thread, so neither part is negative.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
