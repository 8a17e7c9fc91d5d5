//! `membarrier(2)` of FreeBSD, from 14.1 on.
//!
//! The C library of older releases lacks the function, and their kernels end a process that calls a system call that
//! they do not know. So the function is looked up, and nothing is called if it is missing.
//!
//! The kernel interrupts the CPUs on which the address space is active. So a thread must pass a full barrier when the
//! kernel switches to it, as on Linux. On x86-64 it does: the CPU enters and leaves that set by locked instructions.
//! The manual does not promise it for other processors.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::io;

use super::Reason;

pub const EXISTS: bool = true;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` of `sys/membarrier.h`.
const PRIVATE_EXPEDITED: c_int = 0x08;
/// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`.
const REGISTER_PRIVATE_EXPEDITED: c_int = 0x10;

type Membarrier = unsafe extern "C" fn(c_int, c_uint, c_int) -> c_int;

/// The function of the C library; null until it has been found.
static MEMBARRIER: AtomicPtr<libc::c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Registers the process, and makes one call. After *any* error the fence is not available. Returns the reason, in
/// either case.
pub fn register() -> Result<Reason, Reason> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"membarrier".as_ptr()) };
    // Relaxed: functions do not change, and threads that call it have seen the choice of the backend.
    MEMBARRIER.store(found, Relaxed);
    for command in [REGISTER_PRIVATE_EXPEDITED, PRIVATE_EXPEDITED] {
        call(command)?;
    }
    Ok(Reason("membarrier(PRIVATE_EXPEDITED) works", 0))
}

fn call(command: c_int) -> Result<(), Reason> {
    let found = MEMBARRIER.load(Relaxed);
    if found.is_null() {
        return Err(Reason("the C library has no membarrier, which came with FreeBSD 14.1", 0));
    }
    // SAFETY: the C library's function of this name has this type, and takes any command.
    let result = unsafe { core::mem::transmute::<*mut libc::c_void, Membarrier>(found)(command, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        let error = io::Error::last_os_error().raw_os_error();
        Err(Reason("membarrier(PRIVATE_EXPEDITED) failed", error.unwrap_or(0)))
    }
}

/// Executes a full fence on every running thread of the process.
pub fn execute() {
    if let Err(error) = call(PRIVATE_EXPEDITED) {
        panic!(
            "the fence, which worked when the backend was chosen, fails now: {error}; set STILLPOINT_FENCE=seqcst"
        );
    }
}

/// Returns `false`: there is no such fence.
pub fn execute_quietly() -> bool {
    false
}
