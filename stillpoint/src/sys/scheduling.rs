//! How the library's threads are scheduled: as the program, not as the thread that happens to start them.
//!
//! A new thread inherits all of this from the thread that starts it: for a worker, from the first thread that defers
//! something. That may be a real-time thread which polls on a CPU of its own, while the worker serves all threads.
//!
//! | | a thread of the library has | if the kernel refuses |
//! |---|---|---|
//! | policy | `SCHED_OTHER`, or that of a program in the background | inherits it |
//! | CPUs | as the main thread; if that is bound to one, those with which the program was loaded | inherits them |
//! | nice value | as the main thread (a lower value takes a privilege) | inherits it |
//!
//! A program is in the background if its main thread has `SCHED_BATCH` or `SCHED_IDLE`, and so has the starting one.
//!
//! The starting thread sets policy and CPUs. The new thread could not do so itself if the starting one kept its CPU
//! busy with a real-time priority.
//!
//! What is right already is not set. So where threads are scheduled alike, the kernel is only asked, which filters of
//! system calls allow more often. And the kernel still gives the thread the CPUs that a cpuset gains later, which
//! it does not do for a thread that has chosen its CPUs.

use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::process;

use super::{checked, init_array};

/// The calling thread, for the kernel.
pub const CALLING: u32 = 0;

/// Kernels are not built for more CPUs.
const WORDS: usize = 8192 / 64;

/// A set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus([u64; WORDS]);

/// The CPUs of the main thread when this code was loaded; none if they are not known. Relaxed: does not change later.
static AT_LOAD: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

init_array!(remember_cpus());

fn remember_cpus() {
    // SAFETY: takes nothing.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // The thread that loads a library later may be any.
    if thread != c_long::from(process::id()) {
        return;
    }
    if let Some(Cpus(cpus)) = Cpus::of(CALLING) {
        AT_LOAD.iter().zip(&cpus).for_each(|(word, cpus)| word.store(*cpus, Relaxed));
    }
}

/// Returns the CPUs of the main thread when this code was loaded, if they are known.
pub fn cpus_at_load() -> Option<Cpus> {
    let mut cpus = Cpus([0; WORDS]);
    cpus.0.iter_mut().zip(&AT_LOAD).for_each(|(cpus, word)| *cpus = word.load(Relaxed));
    (cpus.count() != 0).then_some(cpus)
}

impl Cpus {
    /// Returns the CPUs of a thread.
    pub fn of(thread: u32) -> Option<Self> {
        let mut cpus = Self([0; WORDS]);
        let (size, start) = (size_of_val(&cpus.0), cpus.0.as_mut_ptr());
        // SAFETY: the kernel writes at most as many bytes.
        checked(|| unsafe { libc::syscall(libc::SYS_sched_getaffinity, thread, size, start) }).ok()?;
        Some(cpus)
    }

    pub fn count(&self) -> u32 {
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
    let Some(main) = Cpus::of(process::id()) else { return };
    let inherited = Cpus::of(CALLING);
    let at_load = if main.count() == 1 { cpus_at_load() } else { None };
    // SAFETY: the caller's contract.
    let has = |cpus: &Cpus| inherited.as_ref() == Some(cpus) || unsafe { cpus.bind(thread) };
    // Those at load may all have been taken away since.
    let _ = at_load.as_ref().is_some_and(has) || has(&main);
}

/// Returns the policy of a thread, if it is known. The C library's function is not used: musl's only returns an
/// error.
pub fn policy(thread: u32) -> Option<c_int> {
    // SAFETY: no pointers.
    checked(|| unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) })
        .ok()
        .map(|policy| policy as c_int)
}

/// Returns `true` if threads of the library may inherit the policy of the calling thread, or if that is unknown.
pub fn may_be_inherited() -> bool {
    policy(CALLING).is_none_or(|own| match own {
        libc::SCHED_OTHER => true,
        libc::SCHED_BATCH | libc::SCHED_IDLE => policy(process::id()) == Some(own),
        _ => false,
    })
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
    // By the kernel's scale, from 1 to 40.
    let priority = |thread: u32| {
        // SAFETY: no pointers.
        checked(|| unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread) })
    };
    let (main, own) = (priority(process::id()), priority(CALLING));
    let Ok(nice) = main.map(|main| 20 - main) else { return };
    if own != main {
        // SAFETY: no pointers.
        let _ =
            checked(|| unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, CALLING, nice) });
    }
}
