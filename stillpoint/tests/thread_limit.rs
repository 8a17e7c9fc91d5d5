//! What the library does where no thread can be started. The program's own `pthread_create` takes the place of the C
//! library's, in this process.
#![cfg(all(not(loom), not(miri), target_os = "linux", target_env = "gnu", not(stillpoint_portable)))]

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use stillpoint::Domain as _;

static IS_DENIED: AtomicBool = AtomicBool::new(false);
static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);

type Main = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Main, *mut c_void) -> c_int;

/// # Safety
///
/// As the C library's.
// SAFETY: the program links no other.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    if IS_DENIED.load(Acquire) {
        ATTEMPTS.fetch_add(1, Relaxed);
        return libc::EAGAIN;
    }
    // SAFETY: the next function of this name has this type; the caller's contract.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        mem::transmute::<*mut c_void, Create>(next)(thread, attributes, main, argument)
    }
}

#[test]
fn failed_start_of_a_thread_is_not_repeated_at_each_push() {
    const PUSHES: usize = 50_000;
    stillpoint::domain! { struct Own; }
    IS_DENIED.store(true, Release);
    (0..PUSHES).for_each(|value| Own.retire(Box::new(value.to_string())));
    let attempts = ATTEMPTS.load(Relaxed);
    assert!((1..PUSHES / 10).contains(&attempts), "{attempts} attempts");
    // The caller runs them.
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
    IS_DENIED.store(false, Release);
    // It is tried again, some time.
    let (sender, receiver) = std::sync::mpsc::channel();
    while receiver.try_recv().is_err() {
        let sender = sender.clone();
        Own.call(move || _ = sender.send(std::thread::current().id()));
    }
}
