//! Runs a function when a thread ends.
//!
//! This is a `pthread_key_create(3)` destructor. glibc runs it after all Rust and C++ thread-local destructors, so
//! these may still use what the function cleans up. If a later destructor arms it again, the C library runs it again.
//!
//! Keys are never deleted, because other threads may be about to use them, even at the end of the process. The
//! destructors stay mapped (see [`super::pin`]).

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::pin::is_pinned;

/// A function that runs at the end of each thread that arms it.
#[derive(Debug)]
pub struct AtThreadExit {
    run: unsafe extern "C" fn(*mut c_void),
    /// The key plus 1; 0 while there is none. There is no lock, which a fork in another thread could leave locked.
    key: AtomicU64,
}

impl AtThreadExit {
    /// `run` gets the pointer of [`arm`](Self::arm). It must not unwind.
    pub const fn new(run: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self { run, key: AtomicU64::new(0) }
    }

    /// Has the function called with `pointer`, which is not null, when the calling thread ends. Replaces an earlier
    /// pointer of this thread. Returns `false` if the C library has no key or no memory left, or if this code cannot
    /// be kept mapped.
    ///
    /// # Safety
    ///
    /// The function must be sound to call with `pointer` on this thread, whenever it ends.
    #[must_use]
    pub unsafe fn arm(&self, pointer: *mut c_void) -> bool {
        // SAFETY: the key was created, and is never deleted.
        self.key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, pointer) } == 0)
    }

    /// Creates the key for [`arm`](Self::arm). The C library allocates no memory for its lowest keys, which it gives
    /// out first.
    pub fn prepare(&self) {
        self.key();
    }

    fn key(&self) -> Option<libc::pthread_key_t> {
        // Acquire, here and below: the key has been created; pairs with the Release below.
        let stored = self.key.load(Acquire);
        if stored != 0 {
            return Some((stored - 1) as _);
        }
        if !is_pinned() {
            return None;
        }
        let mut fresh = 0;
        // SAFETY: `fresh` outlives the call; the caller of `arm` vouches for the function.
        if unsafe { libc::pthread_key_create(&mut fresh, Some(self.run)) } != 0 {
            return None;
        }
        match self.key.compare_exchange(0, fresh as u64 + 1, Release, Acquire) {
            Ok(_) => Some(fresh),
            Err(stored) => {
                // Another thread was faster. SAFETY: no other thread knows this key.
                unsafe { libc::pthread_key_delete(fresh) };
                Some((stored - 1) as _)
            }
        }
    }
}

/// Calls `$f` with a variable of the calling thread, which begins as `$new`, and exists as long as the thread: see
/// `portable/`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_thread_variable {
    ($type:ty = $new:expr, late = $late:expr, end = $end:expr, $f:ident) => {{
        ::std::thread_local! {
            static VARIABLE: $type = const { $new };
        }
        /// Not generic: one copy for all that is done with the variable.
        #[inline(always)]
        fn variable() -> *const $type {
            // Not `with`, which is inlined in other crates by link-time optimization only. It does not fail, as there
            // is no destructor.
            match VARIABLE.try_with(::core::ptr::from_ref) {
                ::core::result::Result::Ok(variable) => variable,
                ::core::result::Result::Err(_) => ::core::unreachable!(),
            }
        }
        // SAFETY: it is there as long as the thread.
        $f(unsafe { &*variable() })
    }};
}
