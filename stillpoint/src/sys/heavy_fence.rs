//! The heavy fence of the system: `membarrier(2)`.

use super::{Reason, has_barrier_in_switch, has_membarrier, membarrier};

/// Some systems of this kind have one.
pub const EXISTS: bool = true;

/// Registers the process, and makes one call. After *any* error the fence is not available. Returns the reason, in
/// either case.
pub fn register() -> Result<Reason, Reason> {
    if !has_membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        return Err(Reason("membarrier has no PRIVATE_EXPEDITED command here (old kernel, or denied)", 0));
    }
    if !has_barrier_in_switch() {
        let why = "membarrier needs a barrier in context switches, which riscv has from Linux 6.9 on (6.6: from 6.6.51 on)";
        return Err(Reason(why, 0));
    }
    for (failure, command) in [
        ("membarrier(REGISTER_PRIVATE_EXPEDITED) failed", libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
        ("membarrier(PRIVATE_EXPEDITED) failed", libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
    ] {
        membarrier(command, None).map_err(|error| Reason(failure, error))?;
    }
    Ok(Reason("membarrier(PRIVATE_EXPEDITED) works", 0))
}

/// Waits until every running thread of the process has executed a full fence, by itself: the kernel waits for a grace
/// period of its own. Returns `false` if it denies that.
pub fn execute_quietly() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL, None).is_ok()
}

/// Executes a full fence on every running thread of the process.
pub fn execute() {
    if let Err(error) = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, None) {
        panic!(
            "membarrier, which worked when the fence backend was chosen, fails now: {error}; \
             let seccomp filters allow it, install them before the first use, or set STILLPOINT_FENCE=seqcst"
        );
    }
}
