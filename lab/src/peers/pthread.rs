//! The C library's mutexes.

use std::cell::UnsafeCell;
use std::mem;

use super::Lock;

/// The C library's mutex, of the default kind or another. Boxed, as it must not move.
pub(crate) struct Pthread<const KIND: libc::c_int> {
    lock: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<u64>,
}

// SAFETY: a thread touches the value only while it holds the lock, which is made for several threads.
unsafe impl<const KIND: libc::c_int> Sync for Pthread<KIND> {}

impl<const KIND: libc::c_int> Lock for Pthread<KIND> {
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
        Self { lock, value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        // SAFETY: the mutex is initialized, and does not move.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
        result
    }
}
