//! The C library's mutex.

use std::cell::UnsafeCell;

use super::{Around, RawLock};

/// The C library's mutex around a number.
pub type Pthread = Around<Raw>;

/// The mutex by itself. Boxed, as it must not move.
pub struct Raw(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a mutex is made for several threads.
unsafe impl Sync for Raw {}

impl RawLock for Raw {
    const NAME: &'static str = "pthread";

    fn new() -> Self {
        Self(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
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
