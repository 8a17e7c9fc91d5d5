//! Running something when a thread ends.
//!
//! A `pthread_key_create(3)` destructor, not a Rust thread-local with `Drop`: glibc runs it after all Rust (and C++)
//! thread-local destructors, so these may still use what is cleaned up here. A destructor that comes later yet may set the
//! key again; the C library then makes another round.

use core::ffi::c_void;
use std::sync::OnceLock;

/// A function to run at the end of each thread that asks for it.
#[derive(Debug)]
pub struct AtThreadExit {
    run: unsafe extern "C" fn(*mut c_void),
    key: OnceLock<Option<libc::pthread_key_t>>,
}

impl AtThreadExit {
    /// `run` gets the pointer given to [`arm`](Self::arm). It must not unwind.
    pub const fn new(run: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self { run, key: OnceLock::new() }
    }

    /// Runs the function with `pointer` when the calling thread ends, in place of an earlier pointer of this thread.
    /// False when the C library has no key or no memory left.
    ///
    /// # Safety
    ///
    /// The function must be sound to call with `pointer` on this thread, whenever it ends.
    #[must_use]
    pub unsafe fn arm(&self, pointer: *mut c_void) -> bool {
        let key = self.key.get_or_init(|| {
            let mut key = 0;
            // SAFETY: `key` outlives the call; the caller of `arm` vouches for the function.
            let error = unsafe { libc::pthread_key_create(&mut key, Some(self.run)) };
            (error == 0).then_some(key)
        });
        // SAFETY: the key was created and is never deleted.
        key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, pointer) } == 0)
    }
}
