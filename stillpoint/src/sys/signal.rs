//! Signal masks, and what the C library calls before `main` and at a fork.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// Has a function called before `main`, or when a shared library with this crate is loaded.
///
/// For fork handlers: one that is registered while another thread is about to fork comes too late for that child.
macro_rules! before_main {
    ($function:path) => {
        const _: () = {
            #[used]
            // SAFETY: the section is an array of such functions, which the C library calls.
            #[unsafe(link_section = ".init_array")]
            static CALLED: extern "C" fn() = $function;
        };
    };
}
pub(crate) use before_main;

/// Runs `child` in the child of every later fork, before `fork` returns there. False if there is no memory for that.
#[must_use]
pub fn at_fork(child: unsafe extern "C" fn()) -> bool {
    // SAFETY: a function without arguments that lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 }
}

/// [`at_fork`], unless `is_armed`, which says that it has been done. Two callers at once may do it twice.
pub fn at_fork_once(is_armed: &AtomicBool, child: unsafe extern "C" fn()) {
    if !is_armed.load(Relaxed) && at_fork(child) {
        is_armed.store(true, Relaxed);
    }
}

/// As [`at_fork`], with functions for the thread that forks: before, and afterwards in the parent.
#[must_use]
pub fn around_fork(
    prepare: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> bool {
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) == 0 }
}

/// The calling thread's id.
pub fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
