//! The C library's mutexes.

use std::cell::UnsafeCell;
use std::mem;

use super::{Around, RawLock};

/// The C library's mutex, of the default kind or another, around a number.
pub type Pthread<const KIND: libc::c_int> = Around<Raw<KIND>>;

/// The mutex by itself. Boxed, as it must not move.
pub struct Raw<const KIND: libc::c_int>(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a mutex is made for several threads.
unsafe impl<const KIND: libc::c_int> Sync for Raw<KIND> {}

impl<const KIND: libc::c_int> RawLock for Raw<KIND> {
    const NAME: &'static str =
        if KIND == libc::PTHREAD_MUTEX_DEFAULT { "pthread" } else { "pthread-adaptive" };

    fn new() -> Self {
        let lock = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        if KIND != libc::PTHREAD_MUTEX_DEFAULT {
            // SAFETY: attributes are plain data, initialized before use; the mutex is not in use yet.
            unsafe {
                let mut attributes: libc::pthread_mutexattr_t = mem::zeroed();
                libc::pthread_mutexattr_init(&mut attributes);
                libc::pthread_mutexattr_settype(&mut attributes, KIND);
                libc::pthread_mutex_init(lock.get(), &attributes);
                libc::pthread_mutexattr_destroy(&mut attributes);
            }
        }
        Self(lock)
    }

    #[inline]
    fn lock(&self) {
        // SAFETY: the mutex is initialized, and does not move.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: as above; the caller's contract.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}
