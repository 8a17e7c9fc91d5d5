//! How the library's threads are scheduled: as the program, not as the thread that happens to start them.
//!
//! A new thread inherits all of this from the thread that starts it: for a worker, from the first thread that defers
//! something. That may be a real-time thread which polls on a CPU of its own, while the worker serves all threads.
//!
//! | | a thread of the library has | if the kernel refuses |
//! |---|---|---|
//! | policy | `SCHED_OTHER` | inherits it |
//! | CPUs | as the main thread; if that is bound to one, those with which the program was loaded | inherits them |
//! | nice value | as the main thread (a lower value takes a privilege) | inherits it |
//!
//! The starting thread sets policy and CPUs. The new thread could not do so itself if the starting one kept its CPU
//! busy with a real-time priority.
//!
//! What is right already is not set. So where threads are scheduled alike, the kernel is only asked, which filters of
//! system calls allow more often. And the kernel still gives the thread the CPUs that a cpuset gains later, which
//! it does not do for a thread that has chosen its CPUs.

use core::ffi::c_int;
use std::sync::OnceLock;

use rustix::process::{Pid, getpid, getpriority_process, setpriority_process};
use rustix::thread::gettid;

use super::init_array;

/// Kernels are not built for more CPUs.
const WORDS: usize = 8192 / 64;

/// A set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus([u64; WORDS]);

/// The CPUs of the main thread when this code was loaded.
static AT_LOAD: OnceLock<Cpus> = OnceLock::new();

init_array!(remember_cpus());

fn remember_cpus() {
    // The thread that loads a library later may be any.
    if gettid() != getpid() {
        return;
    }
    if let Some(cpus) = Cpus::of(None) {
        let _ = AT_LOAD.set(cpus);
    }
}

/// Returns the number of CPUs of the main thread when this code was loaded, if that is known.
pub fn cpus_at_load() -> Option<u32> {
    AT_LOAD.get().map(Cpus::count)
}

impl Cpus {
    /// Returns the CPUs of a thread of this process, or of the calling one.
    pub fn of(thread: Option<Pid>) -> Option<Self> {
        let mut cpus = Self([0; WORDS]);
        // SAFETY: the kernel writes at most as many bytes.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                thread.map_or(0, Pid::as_raw_pid),
                size_of_val(&cpus.0),
                cpus.0.as_mut_ptr(),
            )
        };
        (result > 0).then_some(cpus)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Binds `thread` to these CPUs. Returns `false` if the kernel refuses.
    ///
    /// # Safety
    ///
    /// The thread has not ended, nor been joined or detached.
    unsafe fn bind(&self, thread: libc::pthread_t) -> bool {
        // SAFETY: the caller's contract; the C library reads as many bytes.
        unsafe { libc::pthread_setaffinity_np(thread, size_of_val(&self.0), self.0.as_ptr().cast()) == 0 }
    }
}

/// Gives a new thread, which the calling thread has started, the CPUs of the program.
///
/// # Safety
///
/// The thread has not ended, nor been joined or detached.
pub unsafe fn spread(thread: libc::pthread_t) {
    // A main thread that has ended is still known to the kernel.
    let Some(main) = Cpus::of(Some(getpid())) else { return };
    let inherited = Cpus::of(None);
    let at_load = if main.count() == 1 { AT_LOAD.get() } else { None };
    // Those at load may all have been taken away since.
    for cpus in at_load.into_iter().chain([&main]) {
        // SAFETY: the caller's contract.
        if inherited.as_ref() == Some(cpus) || unsafe { cpus.bind(thread) } {
            return;
        }
    }
}

/// Returns `true` if the calling thread has the policy `SCHED_OTHER`, or if that is unknown.
pub fn is_normal() -> bool {
    // SAFETY: no pointers. The C library's function is not used: musl's only returns an error.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    policy < 0 || policy == libc::c_long::from(libc::SCHED_OTHER)
}

/// Has threads that are started with these attributes get the policy `SCHED_OTHER`. Returns `false` on errors.
///
/// # Safety
///
/// The attributes are initialized.
pub unsafe fn choose_normal(attributes: &mut libc::pthread_attr_t) -> bool {
    /// Of glibc and of musl.
    const PTHREAD_EXPLICIT_SCHED: c_int = 1;
    // SAFETY: the caller's contract; parameters are plain data, and outlive the call.
    unsafe {
        let parameters: libc::sched_param = core::mem::zeroed();
        libc::pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED) == 0
            && libc::pthread_attr_setschedpolicy(attributes, libc::SCHED_OTHER) == 0
            && libc::pthread_attr_setschedparam(attributes, &parameters) == 0
    }
}

/// Gives the calling thread the nice value of the main thread, if the kernel allows that.
pub fn take_nice_of_main() {
    if cfg!(miri) {
        return;
    }
    let Ok(nice) = getpriority_process(Some(getpid())) else { return };
    if getpriority_process(None) != Ok(nice) {
        let _ = setpriority_process(None, nice);
    }
}
