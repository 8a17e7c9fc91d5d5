//! A shared library with this crate stays mapped after `dlclose`: the C library, the kernel and workers still point
//! into it.

use std::env;
use std::ffi::{CStr, CString, c_void};

use support::fork;
use support::prelude::*;

/// Returns the path of the example `unloaded`.
fn library() -> CString {
    let test = env::current_exe().expect("the test knows its file");
    let profile = test.ancestors().nth(2).expect("it lies in a directory of the profile");
    let path = profile.join("examples").join("libunloaded.so");
    assert!(path.exists(), "{} is not built: cargo build --example unloaded", path.display());
    CString::new(path.into_os_string().into_encoded_bytes()).expect("a path without zeros")
}

fn open(path: &CStr) -> *mut c_void {
    // SAFETY: the library's initialization is sound.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "the library cannot be loaded");
    handle
}

fn is_loaded(path: &CStr) -> bool {
    // SAFETY: opens only what is loaded already.
    !unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) }.is_null()
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded and the name a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!found.is_null());
    found
}

#[test]
#[ignore = "needs the example `unloaded`: see ci/percpu.sh"]
fn closed_library_stays_mapped_while_threads_use_it() {
    alone!(in each variant);
    const THREADS: u64 = 4;
    let path = library();
    for _ in 0..10 {
        let (used, closed) = (Barrier::new(THREADS as usize + 1), Barrier::new(THREADS as usize + 1));
        let handle = open(&path);
        // SAFETY: the library defines them so.
        let (add, read, sum) = unsafe {
            (
                mem::transmute::<*mut c_void, extern "C" fn(u64)>(symbol(handle, c"unloaded_add")),
                mem::transmute::<*mut c_void, extern "C" fn()>(symbol(handle, c"unloaded_read")),
                mem::transmute::<*mut c_void, extern "C" fn() -> u64>(symbol(handle, c"unloaded_sum")),
            )
        };
        let before = sum();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    read();
                    add(10_000);
                    used.wait();
                    closed.wait();
                    // The kernel reads the thread's rseq area when it preempts the thread.
                    (0..200).for_each(|_| thread::yield_now());
                });
            }
            used.wait();
            assert!(sum() - before >= THREADS * 10_000);
            // SAFETY: this program calls no function of the library any more.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
            // Runs the library's fork handlers.
            fork::in_child(|| ());
            closed.wait();
        });
    }
    assert!(is_loaded(&path));
}
