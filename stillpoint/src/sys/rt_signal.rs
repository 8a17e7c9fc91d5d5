//! A real-time signal that the library sends to single threads.

use core::ffi::c_int;
use core::{mem, ptr};
use std::io;

/// Installs `handler` for a real-time signal that has no handler yet. Returns the signal, or `None` if there is no such
/// signal or the system call is denied.
///
/// # Safety
///
/// `handler` must be async-signal-safe.
pub unsafe fn claim(handler: extern "C" fn(c_int)) -> Option<c_int> {
    // Starts from the top, because programs that use real-time signals by number start at SIGRTMIN.
    for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
        // SAFETY: sigaction is plain data, for which zero is a value.
        let mut old: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: only asks for the present action, into a place that outlives the call.
        let is_known = unsafe { libc::sigaction(signal, ptr::null(), &mut old) == 0 };
        // SAFETY: the caller's contract.
        if is_known && old.sa_sigaction == libc::SIG_DFL && unsafe { install(signal, handler) } {
            return Some(signal);
        }
    }
    None
}

/// Installs `handler` for `signal`. Returns `false` if the system call is denied.
///
/// # Safety
///
/// `handler` must be async-signal-safe.
pub unsafe fn install(signal: c_int, handler: extern "C" fn(c_int)) -> bool {
    // SAFETY: sigaction is plain data, for which zero is a value.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    new.sa_sigaction = handler as *const () as libc::sighandler_t;
    new.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the action is initialized, and the caller vouches for the handler.
    unsafe { libc::sigaction(signal, &new, ptr::null_mut()) == 0 }
}

/// Unblocks `signal` in the calling thread.
pub fn unblock(signal: c_int) {
    // SAFETY: a signal set is plain data, initialized by sigemptyset before use; all calls only touch the local set and
    // the thread's own mask.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
    }
}

/// Sends `signal` to the thread `tid` of this process.
pub fn send(tid: i32, signal: c_int) -> io::Result<()> {
    // SAFETY: plain system calls; the process handles the signal.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
