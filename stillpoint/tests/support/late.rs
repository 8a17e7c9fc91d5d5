//! Destructors of the C library, which run in the order in which their keys are created: so later than those of the
//! thread-local variables that were used before.

use std::ffi::c_void;

/// Creates a key with this destructor.
pub fn key(destructor: unsafe extern "C" fn(*mut c_void)) -> libc::pthread_key_t {
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(destructor)) }, 0);
    key
}

/// Has the key's destructor run with `value` when the calling thread ends.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "no pointer is followed here")]
pub fn set(key: libc::pthread_key_t, value: *mut c_void) {
    // SAFETY: the key exists, and its destructor takes this value.
    assert_eq!(unsafe { libc::pthread_setspecific(key, value) }, 0);
}

/// Passes a value to the destructor, which gets it by [`taken`].
pub fn leave_to<T>(key: libc::pthread_key_t, value: T) {
    set(key, Box::into_raw(Box::new(value)).cast());
}

/// # Safety
///
/// `value` comes from [`leave_to`] of the same type, and is the destructor's argument, or was stored by it.
pub unsafe fn taken<T>(value: *mut c_void) -> T {
    // SAFETY: from a box. The destructor runs once, on the value's thread.
    *unsafe { Box::from_raw(value.cast()) }
}
