//! Signals that a thread does not take.

use core::{mem, ptr};

/// Calls `f` with all signals blocked in the calling thread. Threads that `f` starts inherit the mask.
pub fn with_all_blocked<R>(f: impl FnOnce() -> R) -> R {
    if cfg!(miri) {
        return f(); // There are no signals.
    }
    let old = block_all();
    let result = f();
    restore(&old);
    result
}

/// Returns the mask until now.
#[cold]
fn block_all() -> libc::sigset_t {
    // SAFETY: a signal set is plain data, initialized by sigfillset before use; all calls only touch the local sets
    // and the thread's own mask.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        let mut old: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    }
}

#[cold]
fn restore(old: &libc::sigset_t) {
    // SAFETY: a valid signal set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, ptr::null_mut()) };
}
