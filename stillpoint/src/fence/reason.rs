//! The reasons for the choice of the backend.

use core::fmt;

use crate::sys::{Errno, MembarrierCommand};

/// The reason for the choice of the backend.
#[derive(Debug, Clone, Copy)]
pub(super) enum BackendReason {
    NotNeeded,
    NoMemory,
    MembarrierWorks,
    MembarrierMissing,
    NoBarrierInSwitch,
    /// With the command that failed.
    MembarrierFailed(MembarrierCommand, Errno),
    /// With the signal.
    SignalFree(i32),
    #[cfg_attr(not(feature = "signal-fence"), expect(dead_code))]
    NoSignalFree,
    #[cfg_attr(feature = "signal-fence", expect(dead_code))]
    SignalNotBuilt,
}

impl fmt::Display for BackendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendReason::NotNeeded => f.write_str("it needs nothing"),
            BackendReason::NoMemory => f.write_str("no memory to prepare for a fork"),
            BackendReason::MembarrierWorks => f.write_str("membarrier(PRIVATE_EXPEDITED) works"),
            BackendReason::MembarrierMissing => {
                f.write_str("membarrier has no PRIVATE_EXPEDITED command here (old kernel, or denied)")
            }
            BackendReason::NoBarrierInSwitch => f.write_str(
                "membarrier needs a barrier in context switches, which riscv has from Linux 6.9 on (6.6: from 6.6.51 on)",
            ),
            BackendReason::MembarrierFailed(command, error) => write!(f, "membarrier({command:?}) failed: {error}"),
            BackendReason::SignalFree(signal) => write!(f, "signal {signal} was free"),
            BackendReason::SignalNotBuilt => f.write_str("the library is built without the feature signal-fence"),
            BackendReason::NoSignalFree => {
                f.write_str("no signal could be installed: every real-time signal has a handler already")
            }
        }
    }
}
