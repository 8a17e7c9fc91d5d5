//! Signals that a thread does not take.

use core::{mem, ptr};

/// All signals are blocked in the calling thread until this is dropped there. It has the mask until then.
pub struct SignalsBlocked(libc::sigset_t);

/// Blocks all signals. Threads that are started meanwhile inherit the mask.
pub fn block_signals() -> SignalsBlocked {
    // SAFETY: a signal set is plain data, initialized by sigfillset before use; all calls only touch the local sets
    // and the thread's own mask.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        let mut old: libc::sigset_t = mem::zeroed();
        // In Miri there are no signals.
        if !cfg!(miri) {
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        }
        SignalsBlocked(old)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if !cfg!(miri) {
            // SAFETY: a valid signal set.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
        }
    }
}
