//! The heavy fence of the system: `membarrier(2)`.

use core::fmt;

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

use super::has_barrier_in_switch;

/// Some systems of this kind have one.
pub const EXISTS: bool = true;

/// What is said of it if it works.
pub const WORKS: &str = "membarrier(PRIVATE_EXPEDITED) works";

/// Why it is not available.
#[derive(Debug, Clone, Copy)]
pub enum Unavailable {
    Missing,
    NoBarrierInSwitch,
    /// With the command that failed.
    Failed(MembarrierCommand, Errno),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => {
                f.write_str("membarrier has no PRIVATE_EXPEDITED command here (old kernel, or denied)")
            }
            Self::NoBarrierInSwitch => f.write_str(
                "membarrier needs a barrier in context switches, which riscv has from Linux 6.9 on (6.6: from 6.6.51 on)",
            ),
            Self::Failed(command, error) => write!(f, "membarrier({command:?}) failed: {error}"),
        }
    }
}

/// Registers the process, and makes one call. After *any* error the fence is not available.
pub fn register() -> Result<(), Unavailable> {
    // Miri lacks the system call.
    if cfg!(miri) || !membarrier_query().contains_command(MembarrierCommand::PrivateExpedited) {
        return Err(Unavailable::Missing);
    }
    if !has_barrier_in_switch() {
        return Err(Unavailable::NoBarrierInSwitch);
    }
    for command in [MembarrierCommand::RegisterPrivateExpedited, MembarrierCommand::PrivateExpedited] {
        membarrier(command).map_err(|error| Unavailable::Failed(command, error))?;
    }
    Ok(())
}

/// Executes a full fence on every running thread of the process.
pub fn execute() {
    if let Err(error) = membarrier(MembarrierCommand::PrivateExpedited) {
        panic!(
            "membarrier, which worked when the fence backend was chosen, fails now: {error}; \
             let seccomp filters allow it, install them before the first use, or set STILLPOINT_FENCE=seqcst"
        );
    }
}
