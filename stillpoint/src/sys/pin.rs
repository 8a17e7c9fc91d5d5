//! Keeps this code mapped until the process ends.
//!
//! Threads run it when they end, through a destructor of a `pthread_key_create(3)` key. Workers sleep in it. The kernel may read the
//! descriptor of an rseq critical section after that is over. `dlclose(3)` of a shared library with this crate would unmap it under
//! all of them. So the library marks itself as one that is never unmapped (`RTLD_NODELETE`) before it creates a key or a worker, or
//! runs a critical section.
//!
//! It does so when it is loaded: the lock creates its key then, and `dlopen(3)` is not for signal handlers, in which a thread may first
//! need one. The mark fails only if the dynamic linker has no memory, and later calls try again.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::signal::init_array;

static IS_PINNED: AtomicBool = AtomicBool::new(false);

// If this fails, later calls try again.
init_array!(is_pinned());

/// Keeps this code mapped. Returns `false` if that cannot be done now.
#[must_use]
pub fn is_pinned() -> bool {
    // Relaxed: the dynamic linker has the mark, and keeps it.
    IS_PINNED.load(Relaxed) || pin()
}

#[cold]
fn pin() -> bool {
    let done = mark();
    if done {
        IS_PINNED.store(true, Relaxed);
    }
    done
}

/// A static program is never unmapped, and musl unmaps nothing: its `dlclose` does nothing.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
fn mark() -> bool {
    true
}

/// Marks the library that contains this code. Returns `true` also if that is the program.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
fn mark() -> bool {
    use core::ffi::{CStr, c_char, c_int, c_void};
    use core::mem;
    use core::ptr::{self, NonNull};

    /// The public part of glibc's `struct link_map`, up to what is needed here.
    #[repr(C)]
    struct LinkMap {
        _base: usize,
        name: *const c_char,
    }

    const RTLD_DL_LINKMAP: c_int = 2;

    let mut map: *mut c_void = ptr::null_mut();
    // SAFETY: asks for the library of one of our own functions; both places outlive the call.
    let found = unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        libc::dladdr1(mark as *const c_void, &mut info, &mut map, RTLD_DL_LINKMAP)
    };
    let Some(map) = NonNull::new(map.cast::<LinkMap>()).filter(|_| found != 0) else {
        // What the dynamic linker does not know, it does not unmap.
        return true;
    };
    // SAFETY: glibc's map of a library that is loaded, as this code runs; the name is a C string, or null.
    let name = unsafe { map.as_ref().name };
    // SAFETY: as above.
    if name.is_null() || unsafe { CStr::from_ptr(name) }.is_empty() {
        // The program.
        return true;
    }
    // SAFETY: the library is found by the name under which it is loaded, so this runs no initializer. The handle is not closed.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    !handle.is_null()
}
