//! Signal masks, and what the C library calls before `main` and at a fork.

use core::{mem, ptr};

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

/// Calls a function before `main`, or when a shared library with this crate is loaded.
macro_rules! init_array {
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
pub(crate) use init_array;

/// The calling thread's id.
pub fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
