//! Signal handlers of tests, and threads that are interrupted.

use std::ffi::c_int;
use std::os::unix::thread::JoinHandleExt as _;
use std::thread::JoinHandle;
use std::{io, mem, ptr};

use crate::until::until;

/// Installs an async-signal-safe handler for a low real-time signal, which the library would choose last, and returns
/// the signal.
pub fn install(offset: c_int, handler: extern "C" fn(c_int)) -> c_int {
    let signal = libc::SIGRTMIN() + offset;
    // SAFETY: a signal action is plain data, for which zero is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is initialized, and the caller's handler is async-signal-safe.
    let failed = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    signal
}

/// Sends `signal` to a thread, which may have ended.
pub fn send<T>(signal: c_int, thread: &JoinHandle<T>) {
    // A number for `std`, and in some C libraries a pointer.
    #[allow(clippy::unnecessary_cast, reason = "not on all systems")]
    let thread = thread.as_pthread_t() as usize as libc::pthread_t;
    // The queue of all processes of the user may be full for a while.
    until(|| {
        // SAFETY: the handle, not joined yet, keeps the thread's name valid.
        let error = unsafe { libc::pthread_kill(thread, signal) };
        assert!([0, libc::EAGAIN, libc::ESRCH].contains(&error), "{}", io::Error::from_raw_os_error(error));
        error != libc::EAGAIN
    });
}
