//! Threads of the library.

use core::ffi::{CStr, c_void};
use std::thread::Builder;

#[cfg(unix)]
pub use super::signal_mask::block_signals;

/// Starts a detached thread that runs `main` with `argument`. `main` must not unwind. Returns `false` if the thread
/// cannot be started.
#[must_use]
pub fn spawn(
    name: &'static CStr,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> bool {
    struct Argument(*mut c_void);
    // SAFETY: the caller gives it to the new thread.
    unsafe impl Send for Argument {}

    let start = |stack: Option<usize>| {
        let argument = Argument(argument);
        let run = move || {
            // The whole of it moves here.
            let Argument(argument) = { argument };
            main(argument);
        };
        let thread = Builder::new().name(name.to_string_lossy().into_owned());
        stack.into_iter().fold(thread, Builder::stack_size).spawn(run).is_ok()
    };
    // Elsewhere `std` knows what it is: `RUST_MIN_STACK`, or 2 MiB.
    #[cfg(all(unix, not(miri)))]
    return start(Some(super::stack::size())) || start(Some(super::stack::LEAST));
    #[cfg(not(all(unix, not(miri))))]
    start(None)
}

/// Returns `true`: see the function of Linux.
pub fn has_normal_policy() -> bool {
    true
}

/// Returns `false`: see the function of Linux.
pub fn is_bound() -> bool {
    false
}

/// Returns `None`: names are not known by number.
pub fn name(_tid: u32) -> Option<String> {
    None
}

/// Returns the id of the calling thread: the system's, of which 32 bits are kept, or where that is not known, the
/// number of the thread in this process.
#[allow(unreachable_code, clippy::needless_return, reason = "on systems whose ids are known")]
pub fn tid() -> i32 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: a plain call.
    return unsafe { libc::gettid() };
    #[cfg(target_os = "freebsd")]
    // SAFETY: a plain call.
    return unsafe { libc::pthread_getthreadid_np() };
    #[cfg(target_vendor = "apple")]
    {
        let mut id = 0;
        // SAFETY: asks for the calling thread, and `id` outlives the call.
        unsafe { libc::pthread_threadid_np(0, &mut id) };
        return id as i32;
    }
    #[cfg(windows)]
    // SAFETY: a plain call.
    return unsafe { windows_sys::Win32::System::Threading::GetCurrentThreadId() } as i32;
    super::numbers::own() as i32
}

/// There are no signals.
#[cfg(not(unix))]
pub struct SignalsBlocked;

/// Does nothing.
#[cfg(not(unix))]
pub fn block_signals() -> SignalsBlocked {
    SignalsBlocked
}

/// Returns how many CPUs the process may use.
pub fn process_cpus() -> u32 {
    super::numbers::cpus().try_into().unwrap_or(u32::MAX)
}

/// Returns `true` if so many threads are more than [`process_cpus`].
pub fn outnumber_cpus(threads: u32) -> bool {
    threads > process_cpus()
}

/// Not known: 0.
pub fn preemptions() -> u64 {
    0
}
