//! Detects that a thread has ended, even if its id is in use again.
//!
//! A thread may end without running its destructors: `exit(2)` runs none, and `pthread_exit(3)` makes only a few rounds
//! (`PTHREAD_DESTRUCTOR_ITERATIONS`). Its id may then be given to another thread. But before that, the kernel marks the
//! robust mutexes that the thread held. The mutex here is in memory that outlives the thread, and no thread blocks on
//! it.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// A robust mutex that a thread holds until it ends.
#[derive(Debug)]
pub struct HeldForLife(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only calls of the C library access the mutex.
unsafe impl Sync for HeldForLife {}

impl HeldForLife {
    /// Creates one at `place`, without an owner. Returns `false` if the system has no robust mutexes.
    ///
    /// # Safety
    ///
    /// `place` is valid for writes, and no other thread uses it. The value is not moved.
    #[must_use]
    pub unsafe fn make(place: *mut Self) -> bool {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialized before use, and destroyed after it. `place`: the caller's contract.
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

    /// Makes the calling thread the owner. Returns `false` if another live thread is the owner.
    #[must_use]
    pub fn hold(&self) -> bool {
        // SAFETY: made by `make`.
        match unsafe { libc::pthread_mutex_trylock(self.0.get()) } {
            0 => true,
            // The owner has ended.
            // SAFETY: as above, and locked by the call.
            libc::EOWNERDEAD => unsafe { libc::pthread_mutex_consistent(self.0.get()) == 0 },
            _ => false,
        }
    }

    /// Releases the mutex, which the calling thread owns.
    pub fn let_go(&self) {
        // SAFETY: made by `make`, and locked by this thread.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Returns `true` if no live thread is the owner.
    pub fn is_free(&self) -> bool {
        let held = self.hold();
        if held {
            self.let_go();
        }
        held
    }
}
