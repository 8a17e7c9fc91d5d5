//! CPU time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that all threads of the process have taken, in user space and in the kernel.
pub fn of_process() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("time is positive")
}
