//! In the child of a fork, only the forking thread keeps its handle.
#![cfg(not(loom))]

#[path = "support/child.rs"]
mod child;
#[path = "support/deadline.rs"]
mod deadline;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::{io, thread};

use deadline::deadline;
use stillpoint::Domain as _;
use stillpoint::qsbr;
use stillpoint::rcu::Rcu;

/// Forks. `child` returns `true` if it finds no error.
fn fork(child: impl FnOnce() -> bool) {
    // SAFETY: the child allocates, which glibc allows, and exits without destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: plain calls; a child that hangs is killed.
        unsafe {
            libc::alarm(50);
            libc::_exit(i32::from(!child()));
        }
    }
    let mut status = -1;
    // SAFETY: the place outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child finds an error");
}

#[test]
fn child_keeps_its_handle_and_waits_for_itself_only() {
    const TEST: &str = "child_keeps_its_handle_and_waits_for_itself_only";
    qsbr::domain! { struct Here; }
    static STOP: AtomicBool = AtomicBool::new(false);
    if child::variant().is_none() {
        return child::run(TEST, "fork", None);
    }
    let _running = deadline();
    let online = Barrier::new(3);
    let number = Rcu::new_in(1, Here);
    thread::scope(|scope| {
        // One thread never reports, one always does, and one writes.
        scope.spawn(|| {
            let handle = Here::register();
            online.wait();
            while !STOP.load(Acquire) {
                thread::yield_now();
            }
            drop(handle);
        });
        scope.spawn(|| {
            let mut handle = Here::register();
            online.wait();
            while !STOP.load(Acquire) {
                handle.quiescent();
            }
        });
        scope.spawn(|| Here.synchronize());
        let mut handle = Here::register();
        online.wait();
        for _ in 0..20 {
            fork(|| {
                handle.quiescent();
                let old = number.replace(2);
                let kept = *number.load(&handle) == 2 && Here::is_online();
                handle.synchronize();
                let old = handle.offline(|| old.wait());
                Here.retire(Box::new(5));
                handle.offline(|| Here.barrier());
                kept && old == 1 && Here.stats().queued == 0
            });
            handle.quiescent();
        }
        drop(handle);
        STOP.store(true, Release);
    });
}
