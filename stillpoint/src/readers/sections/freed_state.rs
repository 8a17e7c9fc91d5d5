//! Threads whose thread-local variables are freed before they end, as on targets where these are keys (Android,
//! `windows-gnu`). Their next section finds a new `ThreadState` (or `ThreadSlots`), which knows of no reader, and so does
//! the `exit` that was armed with it. The thread then takes back its reader by the pointer that is armed.
//!
//! *What is armed in a thread is its reader, and has not been released*: the reader is released only after `exit` has
//! begun, which is not armed any more then, and threads whose `exit` has begun do not arm again.

use core::ffi::c_void;

use super::reader::Reader;

/// Returns the reader that is armed in the calling thread, which knows of none.
pub fn armed_reader(armed: *mut c_void) -> Option<&'static Reader> {
    // SAFETY: null, or a reader, as the callers arm; readers are never freed.
    let reader: &'static Reader = unsafe { armed.cast::<Reader>().as_ref() }?;
    // The child of a fork has the variables of a thread that it does not have, and a fiber may have come from another
    // thread, with what that has armed.
    reader.belongs_to(crate::sys::thread::tid().unsigned_abs()).then_some(reader)
}
