//! Threads of the library's own.
//!
//! Not `std::thread`: there each thread that starts or ends holds a lock of the standard library for a moment. The child of a
//! fork at such a moment can start no such thread.

use core::ffi::{CStr, c_void};
use core::{mem, ptr};

/// Stack of a thread in bytes, that of `std::thread`.
const STACK: usize = 2 << 20;

/// Starts a thread that runs `start` with `argument`, which must not unwind, and is never joined. False if that cannot be done.
#[must_use]
pub fn spawn(start: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> bool {
    // SAFETY: attributes are plain data, initialized by pthread_attr_init before use and destroyed after it; all places
    // outlive the calls.
    unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        if libc::pthread_attr_init(&mut attributes) != 0 {
            return false;
        }
        let mut thread = mem::zeroed();
        let started = libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED) == 0
            && libc::pthread_attr_setstacksize(&mut attributes, STACK) == 0
            && libc::pthread_create(&mut thread, &attributes, start, argument) == 0;
        libc::pthread_attr_destroy(ptr::from_mut(&mut attributes));
        started
    }
}

/// Names the calling thread, for people: 15 bytes at most.
pub fn set_name(name: &CStr) {
    // SAFETY: the kernel copies the name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}
