//! The reasons for the choice of the backend.

use core::fmt;

use crate::sys::heavy_fence::{self, Unavailable};

/// The reason for the choice of the backend.
#[derive(Debug, Clone, Copy)]
pub(super) enum BackendReason {
    NotNeeded,
    NoMemory,
    Works,
    Unavailable(Unavailable),
    /// With the signal.
    SignalFree(i32),
    #[cfg_attr(any(stillpoint_portable, not(feature = "signal-fence")), expect(dead_code))]
    NoSignalFree,
    #[cfg_attr(all(not(stillpoint_portable), feature = "signal-fence"), expect(dead_code))]
    SignalNotBuilt,
}

impl fmt::Display for BackendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendReason::NotNeeded => f.write_str("it needs nothing"),
            BackendReason::NoMemory => f.write_str("no memory to prepare for a fork"),
            BackendReason::Works => f.write_str(heavy_fence::WORKS),
            BackendReason::Unavailable(reason) => reason.fmt(f),
            BackendReason::SignalFree(signal) => write!(f, "signal {signal} was free"),
            BackendReason::SignalNotBuilt => {
                f.write_str("the library is built without the feature signal-fence")
            }
            BackendReason::NoSignalFree => {
                f.write_str("no signal could be installed: every real-time signal has a handler already")
            }
        }
    }
}
