//! Threads of the library.

use core::ffi::{CStr, c_void};
#[cfg(not(miri))]
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::{mem, ptr};
#[cfg(not(miri))]
use std::sync::Mutex;

#[cfg(not(miri))]
use super::boxes::try_box;
use super::scheduling::{self, CALLING, Cpus};
pub use super::signal_mask::block_signals;
#[cfg(not(miri))]
use super::stack;

/// What a thread begins with.
#[cfg(not(miri))]
struct Start {
    name: &'static CStr,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    /// Locked while the starting thread uses the handle. See [`begin`].
    handle_in_use: Mutex<()>,
    /// The threads that use this: the starting and the started one.
    users: AtomicU32,
}

#[cfg(not(miri))]
impl Start {
    /// A thread no longer uses it. The last one frees it.
    ///
    /// # Safety
    ///
    /// `this` is of a box, and the caller one of its users.
    unsafe fn leave(this: *mut Self) {
        // SAFETY: the caller's contract.
        // AcqRel: what the other thread did with it comes before it is freed; pairs with itself.
        if unsafe { &*this }.users.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: no other thread uses it.
            drop(unsafe { Box::from_raw(this) });
        }
    }
}

/// The main function of a thread.
#[cfg(not(miri))]
extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    let this = start.cast::<Start>();
    // SAFETY: `spawn` made the pointer of a box, for this thread too.
    let start = unsafe { &*this };
    set_name(start.name);
    let result = (start.main)(start.argument);
    // The kernel's id of a thread that has ended is 0 in glibc and musl, which means the calling thread: the starting
    // one would change its own CPUs.
    drop(start.handle_in_use.lock());
    // SAFETY: as above.
    unsafe { Start::leave(this) };
    result
}

/// Starts a detached thread that runs `main` with `argument`, and has 15 bytes at most of `name`. `main` must not
/// unwind. Returns `false` if the thread cannot be started.
///
/// It has the CPUs and the policy that [`scheduling`] describes. Unlike `std::thread`, this holds no lock of the
/// standard library while the thread starts or ends. A fork at such a moment would leave the child without threads.
#[must_use]
#[cfg(not(miri))]
pub fn spawn(
    name: &'static CStr,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> bool {
    let start = Start { name, main, argument, handle_in_use: Mutex::new(()), users: AtomicU32::new(2) };
    let Ok(start) = try_box(start) else { return false };
    let this = Box::into_raw(start);
    // SAFETY: this thread is one of its users.
    let start = unsafe { &*this };
    // Nothing under the lock panics.
    let in_use = start.handle_in_use.lock();
    // glibc starts no thread if the kernel refuses the policy, or if there is no room for the stack.
    let policies = if scheduling::may_be_inherited() { [false].as_slice() } else { &[true, false] };
    let sizes = [stack::size(), stack::LEAST];
    let of_policy = |is_normal| sizes.iter().find_map(|&size| create(begin, this.cast(), is_normal, size));
    let thread = policies.iter().find_map(|&is_normal| of_policy(is_normal));
    let Some(thread) = thread else {
        drop(in_use);
        // SAFETY: comes from a box, and no thread has it.
        drop(unsafe { Box::from_raw(this) });
        return false;
    };
    // SAFETY: joinable, and detached only here. It does not end before the lock is released.
    unsafe {
        scheduling::spread(thread);
        libc::pthread_detach(thread);
        drop(in_use);
        Start::leave(this);
    }
    true
}

/// Starts a joinable thread with a stack of this size. It inherits the policy, or it has `SCHED_OTHER` if
/// `is_normal`.
#[cfg(not(miri))]
fn create(
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    is_normal: bool,
    stack: usize,
) -> Option<libc::pthread_t> {
    // SAFETY: attributes are plain data, initialized by pthread_attr_init before use and destroyed after it; all
    // places outlive the calls.
    unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        if libc::pthread_attr_init(&mut attributes) != 0 {
            return None;
        }
        let mut thread = mem::zeroed();
        let started = libc::pthread_attr_setstacksize(&mut attributes, stack) == 0
            && (!is_normal || scheduling::choose_normal(&mut attributes))
            && libc::pthread_create(&mut thread, &attributes, start, argument) == 0;
        libc::pthread_attr_destroy(ptr::from_mut(&mut attributes));
        started.then_some(thread)
    }
}

/// The same in Miri, which has no attributes of threads.
#[cfg(miri)]
pub fn spawn(_: &CStr, start: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> bool {
    let mut thread = 0;
    // SAFETY: `thread` outlives the calls.
    unsafe {
        libc::pthread_create(&mut thread, ptr::null(), start, argument) == 0
            && libc::pthread_detach(thread) == 0
    }
}

/// Names the calling thread: 15 bytes at most.
#[cfg(not(miri))]
fn set_name(name: &CStr) {
    // SAFETY: the kernel copies the name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Returns `true` if a yield lets other threads run for a short time: the calling thread has the normal scheduling
/// policy.
///
/// With a deadline, a yield lasts until the next period; with a real-time priority, until all others of the same
/// priority block.
pub fn has_normal_policy() -> bool {
    if cfg!(miri) {
        return true;
    }
    matches!(scheduling::policy(CALLING), Some(libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE))
}

/// Returns `true` if the calling thread may use one CPU only.
pub fn is_bound() -> bool {
    !cfg!(miri) && cpus() == 1
}

fn cpus() -> u32 {
    Cpus::of(CALLING).map_or(u32::MAX, |cpus| cpus.count().max(1))
}

/// Returns how many CPUs the process may use, at least 1: the main thread's when the program was loaded or, if that
/// is not known, those of the first thread that asks.
pub fn process_cpus() -> u32 {
    static CPUS: AtomicU32 = AtomicU32::new(if cfg!(miri) { 1 } else { 0 });
    // Relaxed: an estimate.
    match CPUS.load(Relaxed) {
        0 => {
            let cpus = scheduling::cpus_at_load().map_or_else(cpus, |cpus| cpus.count());
            CPUS.store(cpus, Relaxed);
            cpus
        }
        cpus => cpus,
    }
}

/// Returns `true` if so many threads are more than the CPUs that the calling thread may use, and more than
/// `process_cpus`: the caller alone may be bound.
pub fn outnumber_cpus(threads: u32) -> bool {
    !cfg!(miri) && threads > process_cpus() && threads > cpus()
}

/// Returns how often the calling thread has lost its CPU while it was runnable.
pub fn preemptions() -> u64 {
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: plain data.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_nivcsw.unsigned_abs()
}

/// Returns the kernel's name of a thread of this process. Returns `None` if it cannot be read.
pub fn name(tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// Returns the id of the calling thread.
pub fn tid() -> i32 {
    // SAFETY: takes nothing. The C library's function is younger than the oldest that is supported.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    extern "C" fn end_at_once(_: *mut c_void) -> *mut c_void {
        ptr::null_mut()
    }

    /// The started thread ends before the starting one continues: it has a better policy, and the same CPU.
    #[test]
    #[cfg_attr(miri, ignore = "no affinity")]
    fn starting_thread_stays_on_its_cpu_when_the_started_one_has_ended() {
        let check = || {
            let all = sched_getaffinity(None).expect("the affinity");
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("a CPU"));
            sched_setaffinity(None, &one).expect("an allowed CPU");
            // SAFETY: parameters are plain data, and outlive the call.
            let result = unsafe {
                let parameters: libc::sched_param = mem::zeroed();
                libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameters)
            };
            assert_eq!(result, 0, "a thread may become idle");
            for _ in 0..100 {
                assert!(spawn(c"ends at once", end_at_once, ptr::null_mut()));
                assert!(sched_getaffinity(None).expect("the affinity") == one);
            }
        };
        std::thread::spawn(check).join().expect("the thread");
    }
}
