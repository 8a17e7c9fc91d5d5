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
}

impl fmt::Display for BackendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendReason::NotNeeded => f.write_str("it needs nothing"),
            BackendReason::NoMemory => f.write_str("no memory to prepare for a fork"),
            BackendReason::Works => f.write_str(heavy_fence::WORKS),
            BackendReason::Unavailable(reason) => reason.fmt(f),
        }
    }
}
