//! Forks, in processes of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io, mem, ptr};

use crate::time_limit::TIME_LIMIT;
use crate::{backends, child};

/// Returns `true` in a process that runs only `test`. The parent runs one for each backend, and returns `false`. A
/// process that hangs is killed. No thread of the standard library may start or end in it during a fork: the child
/// could not start threads.
pub fn is_alone<T: Fn() + Copy>(test: T) -> bool {
    if child::variant().is_none() {
        for backend in backends!() {
            child::run(test, backend, Some(backend));
        }
        return false;
    }
    set_deadline();
    true
}

/// Ends a child that must not return from its closure.
pub fn exit(right: bool) -> ! {
    // SAFETY: ends the child without the destructors of the parent's test.
    unsafe { libc::_exit(i32::from(!right)) }
}

/// Has the kernel kill this process if it hangs.
fn set_deadline() {
    // SAFETY: a signal set is plain data, initialized by sigfillset; the calls only touch it and the thread's own
    // mask.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &all, ptr::null_mut());
        libc::alarm((TIME_LIMIT.as_secs() * 5 / 6).max(1) as libc::c_uint);
    }
}

/// Forks. Returns 0 in the child.
pub fn fork() -> libc::pid_t {
    // SAFETY: glibc lets the child of a process with threads allocate and start threads; the rest is what is tested.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", io::Error::last_os_error());
    if pid == 0 {
        set_deadline();
    }
    pid
}

/// Waits until the child has exited, with 0.
pub fn await_child(pid: libc::pid_t) {
    let mut status = -1;
    // SAFETY: waits for our own child; `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child ends with 0, its wait status is {status:#x}");
}

/// Runs `child` in the child of a fork, and waits for its exit. `child` must not panic.
pub fn in_child(child: impl FnOnce()) {
    match fork() {
        0 => exit(catch_unwind(AssertUnwindSafe(child)).is_ok()),
        pid => await_child(pid),
    }
}
