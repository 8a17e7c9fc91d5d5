//! A shared library that threads have used is closed while they go on, and end.
//!
//! It stays where it is: the C library, the kernel and workers still point into it.
#![cfg(not(loom))]

#[allow(dead_code, reason = "one way to start a child is enough here")]
#[path = "support/backends.rs"]
mod backends;
#[path = "support/child.rs"]
mod child;
#[path = "support/deadline.rs"]
mod deadline;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "support/rseq.rs"]
mod rseq;
#[path = "support/ways.rs"]
mod ways;

use std::env;
use std::ffi::{CStr, CString, c_void};
use std::sync::Barrier;
use std::thread;

use backends::BACKENDS;
use deadline::deadline;
use ways::in_every_way;

/// Where cargo puts the example `unloaded`.
fn library() -> CString {
    let test = env::current_exe().expect("the test knows its file");
    let profile = test.ancestors().nth(2).expect("it lies in a directory of the profile");
    let path = profile.join("examples").join("libunloaded.so");
    assert!(path.exists(), "{} is not built: cargo build --example unloaded", path.display());
    CString::new(path.into_os_string().into_encoded_bytes()).expect("a path without zeros")
}

fn open(path: &CStr) -> *mut c_void {
    // SAFETY: the library's initialization does nothing that could go wrong.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "the library cannot be loaded");
    handle
}

fn is_loaded(path: &CStr) -> bool {
    // SAFETY: only asks.
    !unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) }.is_null()
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded and the name a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!found.is_null());
    found
}

/// Nothing of the library is called at a fork.
fn fork_once() {
    // SAFETY: the child ends at once.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(0) },
        child => {
            let mut status = 0;
            // SAFETY: waits for our own child, into a place that outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        }
    }
}

#[test]
#[ignore = "needs the example `unloaded`: see ci/percpu.sh"]
fn a_library_is_unloaded_while_threads_that_used_it_go_on() {
    if !in_every_way("a_library_is_unloaded_while_threads_that_used_it_go_on") {
        return;
    }
    let _running = deadline();
    let path = library();
    for _ in 0..30 {
        const THREADS: u64 = 4;
        let meet = Barrier::new(THREADS as usize + 1);
        let handle = open(&path);
        // SAFETY: the library defines them so.
        let (add, sum) = unsafe {
            (
                std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(symbol(handle, c"unloaded_add")),
                std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(symbol(handle, c"unloaded_sum")),
            )
        };
        let before = sum();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    add(10_000);
                    meet.wait();
                    // It is unloaded.
                    meet.wait();
                    assert!(matches!(rseq::current_section(), Some(0) | None), "points into the library");
                    // The kernel looks at the thread's area when it is preempted.
                    for _ in 0..200 {
                        thread::yield_now();
                    }
                });
            }
            meet.wait();
            assert_eq!(sum() - before, THREADS * 10_000);
            // SAFETY: nobody uses what is in it any more.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
            fork_once();
            meet.wait();
        });
    }
    assert!(is_loaded(&path));
}

#[test]
#[ignore = "needs the example `unloaded`: see ci/percpu.sh"]
fn readers_end_after_their_library_was_closed() {
    if child::variant().is_none() {
        for backend in BACKENDS {
            child::run("readers_end_after_their_library_was_closed", backend, Some(backend));
        }
        return;
    }
    let _running = deadline();
    let path = library();
    for _ in 0..3 {
        const THREADS: usize = 4;
        let handle = open(&path);
        // SAFETY: the library defines it so.
        let read =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol(handle, c"unloaded_read")) };
        let (used, closed) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    read();
                    used.wait();
                    closed.wait();
                });
            }
            used.wait();
            // SAFETY: this program uses nothing of it any more.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
            fork_once();
            closed.wait();
        });
    }
    assert!(is_loaded(&path));
}
