//! Keeps this code mapped until the process ends.
//!
//! `dlclose(3)` of a shared library with this crate must not unmap code that is still in use. Threads run a
//! destructor of a `pthread_key_create(3)` key when they end, and workers sleep. The kernel may read the descriptor
//! of an rseq critical section after the section has ended. So the library marks itself as never unmapped
//! (`RTLD_NODELETE`) before it creates a key or a worker, or runs a critical section.
//!
//! It does so when it is loaded, because the lock creates its key then, and because signal handlers must not call
//! `dlopen(3)`.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::init_array;

static IS_PINNED: AtomicBool = AtomicBool::new(false);

init_array!(is_pinned());

/// Keeps this code mapped. Returns `false` if the dynamic linker has no memory for that: the next call tries again.
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

/// A static program is never unmapped, and the `dlclose` of musl does nothing. Miri has no dynamic linker.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"), not(miri))))]
fn mark() -> bool {
    true
}

/// Marks the library that contains this code. Returns `true` also if that is the program.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static"), not(miri)))]
fn mark() -> bool {
    use core::ffi::{CStr, c_char, c_int, c_void};
    use core::mem;
    use core::ptr::{self, NonNull};

    /// The beginning of glibc's public `struct link_map`.
    #[repr(C)]
    struct LinkMap {
        _base: usize,
        name: *const c_char,
        dynamic: *const [usize; 2],
    }

    const RTLD_DL_LINKMAP: c_int = 2;
    const DT_FLAGS_1: usize = 0x6fff_fffb;
    const DF_1_NODELETE: usize = 8;

    let mut map: *mut c_void = ptr::null_mut();
    // SAFETY: asks for the library of one of our own functions; both places outlive the call.
    let found = unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        libc::dladdr1(mark as *const c_void, &mut info, &mut map, RTLD_DL_LINKMAP)
    };
    let Some(map) = NonNull::new(map.cast::<LinkMap>()).filter(|_| found != 0) else {
        // The dynamic linker unmaps only what it knows.
        return true;
    };
    // SAFETY: glibc's map of a library that is loaded, as this code runs; the name is a C string, or null.
    let name = unsafe { map.as_ref().name };
    // SAFETY: as above.
    if name.is_null() || unsafe { CStr::from_ptr(name) }.is_empty() {
        // The program.
        return true;
    }
    // A library that was linked with `-z nodelete` has the mark. It may be linked with `-z initfirst`, too: then
    // `dlopen` would initialize the C library, without an environment.
    // SAFETY: glibc's map of a library has its dynamic section, whose last entry is zero.
    let mut entry = unsafe { map.as_ref().dynamic };
    loop {
        // SAFETY: as above; this entry is not behind the last one.
        match unsafe { *entry } {
            [0, _] => break,
            [DT_FLAGS_1, flags] if flags & DF_1_NODELETE != 0 => return true,
            // SAFETY: there is a next entry.
            _ => entry = unsafe { entry.add(1) },
        }
    }
    // SAFETY: the library is loaded under this name, so this runs no initializer. The handle is not closed.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    !handle.is_null()
}
