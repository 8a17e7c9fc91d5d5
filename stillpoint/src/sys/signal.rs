//! A real-time signal of our own, sent to single threads.

use core::ffi::c_int;
use core::{mem, ptr};
use std::io;

/// Installs `handler` for a real-time signal that has no handler yet, and says which. Nothing if there is none, or it is denied.
///
/// # Safety
///
/// `handler` must be async-signal-safe.
pub unsafe fn claim(handler: extern "C" fn(c_int)) -> Option<c_int> {
    // From the top: programs that use real-time signals by number start at SIGRTMIN.
    for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
        // SAFETY: sigaction is plain data, for which zero is a value.
        let mut old: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: only asks for the present action, into a place that outlives the call.
        if unsafe { libc::sigaction(signal, ptr::null(), &mut old) } != 0 || old.sa_sigaction != libc::SIG_DFL
        {
            continue;
        }
        // SAFETY: the caller's contract.
        if unsafe { install(signal, handler) } {
            return Some(signal);
        }
    }
    None
}

/// Installs `handler` for `signal`. False if that is denied.
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

/// Lets the calling thread receive `signal`.
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

/// Calls `f` with all signals blocked in the calling thread, for threads that it starts.
pub fn with_all_blocked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: a signal set is plain data, initialized by sigfillset before use; all calls only touch the local sets and the
    // thread's own mask.
    let old = unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        let mut old: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = f();
    // SAFETY: `old` was written by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut()) };
    result
}

/// Sends `signal` to thread `tid` of this process.
pub fn send(tid: i32, signal: c_int) -> io::Result<()> {
    // SAFETY: plain system calls; the process handles the signal.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls a function before `main`, or when a shared library with this crate is loaded.
macro_rules! before_main {
    ($function:ident($($argument:expr)?)) => {
        const _: () = {
            extern "C" fn call() {
                let _ = $function($($argument)?);
            }
            #[used]
            // SAFETY: the section is an array of such functions, which the C library calls.
            #[unsafe(link_section = ".init_array")]
            static CALLED: extern "C" fn() = call;
        };
    };
}
pub(crate) use before_main;

/// The calling thread's id.
pub fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
