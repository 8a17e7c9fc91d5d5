//! Whether a thread has ended, whatever became of its id.
//!
//! A thread may end without its destructors: they make a few rounds only (`PTHREAD_DESTRUCTOR_ITERATIONS`), and `exit(2)` makes
//! none. Its id may then be that of another thread. But the kernel marks the robust mutexes that it held, before the id is
//! free. The mutex here is in memory that outlives the thread, and nothing is ever waited for.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// A robust mutex, which a thread holds for as long as it lives.
#[derive(Debug)]
pub struct HeldForLife(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex, which is used by calls of the C library only.
unsafe impl Sync for HeldForLife {}

impl HeldForLife {
    /// Makes one at `place`, of which no thread is the holder. False where the system has none.
    ///
    /// # Safety
    ///
    /// `place` is good for writes, and no thread uses what is there. The value stays in that place.
    #[must_use]
    pub unsafe fn make(place: *mut Self) -> bool {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialized before use, and destroyed after it; the place is the caller's contract.
        unsafe {
            if libc::pthread_mutexattr_init(attributes.as_mut_ptr()) != 0 {
                return false;
            }
            let made = libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST)
                == 0
                && libc::pthread_mutex_init(place.cast(), attributes.as_ptr()) == 0;
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
            made
        }
    }

    /// Makes the calling thread the holder. False if another one is.
    #[must_use]
    pub fn hold(&self) -> bool {
        // SAFETY: made by `make`.
        match unsafe { libc::pthread_mutex_trylock(self.0.get()) } {
            0 => true,
            // The holder has ended.
            // SAFETY: as above, and locked by the call.
            libc::EOWNERDEAD => unsafe { libc::pthread_mutex_consistent(self.0.get()) == 0 },
            _ => false,
        }
    }

    /// The calling thread, which is the holder, is it no longer.
    pub fn let_go(&self) {
        // SAFETY: made by `make`, and locked by this thread.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Whether no thread that lives is the holder.
    pub fn is_free(&self) -> bool {
        let held = self.hold();
        if held {
            self.let_go();
        }
        held
    }
}
