//! Where a thread of the library cannot be started. The program's own `pthread_create` takes the place of the C
//! library's.
#![cfg(all(not(miri), target_os = "linux", target_env = "gnu"))]

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;

use crossbeam_epoch as epoch;
use support::deadline::deadline;

static IS_DENIED: AtomicBool = AtomicBool::new(false);
static RAN: AtomicUsize = AtomicUsize::new(0);

type Create = unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *mut c_void) -> c_int;

/// # Safety
///
/// As the C library's.
// SAFETY: the program links no other.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    main: *const c_void,
    argument: *mut c_void,
) -> c_int {
    if IS_DENIED.load(Acquire) {
        return libc::EAGAIN;
    }
    // SAFETY: the next function of this name has this type; the caller's contract.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        mem::transmute::<*mut c_void, Create>(next)(thread, attributes, main, argument)
    }
}

fn defer() {
    epoch::pin().defer(|| RAN.fetch_add(1, Release));
}

/// No thread flushes, or pins often enough to run functions itself.
#[test]
fn functions_run_after_a_failed_start_of_a_thread() {
    let _running = deadline();
    IS_DENIED.store(true, Release);
    defer();
    IS_DENIED.store(false, Release);
    while RAN.load(Acquire) == 0 {
        thread::spawn(defer).join().expect("it does not panic");
    }
}
