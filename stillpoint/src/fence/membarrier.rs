//! The `membarrier(2)` backend.

use super::reason::BackendReason;
use crate::sys::{self, MembarrierCommand};

/// Registers the process, and makes one call. After *any* error the backend is not available.
pub(super) fn register() -> Result<(), BackendReason> {
    // Miri lacks the system call.
    if cfg!(miri) || !sys::membarrier_query().contains_command(MembarrierCommand::PrivateExpedited) {
        return Err(BackendReason::MembarrierMissing);
    }
    if !sys::has_barrier_in_switch() {
        return Err(BackendReason::NoBarrierInSwitch);
    }
    for command in [MembarrierCommand::RegisterPrivateExpedited, MembarrierCommand::PrivateExpedited] {
        sys::membarrier(command).map_err(|error| BackendReason::MembarrierFailed(command, error))?;
    }
    Ok(())
}

/// Executes a full fence on every running thread of the process.
pub(super) fn fence() {
    if let Err(error) = sys::membarrier(MembarrierCommand::PrivateExpedited) {
        panic!(
            "membarrier, which worked when the fence backend was chosen, fails now: {error}; \
             let seccomp filters allow it, install them before the first use, or set STILLPOINT_FENCE=seqcst"
        );
    }
}
