//! How a process knows that it is the child of a fork, which does not run what its parent has deferred.

use std::sync::atomic::{AtomicU32, Ordering::*};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs between processes, from the first one that has called [`register`] on.
#[inline]
pub(crate) fn generation() -> u32 {
    // Relaxed: it changes while there is one thread.
    GENERATION.load(Relaxed)
}

/// Has each fork change [`generation`] in the child from now on.
#[cfg(all(unix, not(miri)))]
pub(crate) fn register() {
    use std::ffi::c_int;
    use std::sync::atomic::AtomicBool;

    type Handler = Option<extern "C" fn()>;

    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Relaxed);
    }

    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Acquire, Release: a thread that goes on knows that the handler is registered. Two threads may both do so; a
    // fork then counts twice.
    if !IS_REGISTERED.load(Acquire) {
        // SAFETY: a function that lives as long as the program. (Without memory for it, a child runs what is not its
        // own.)
        unsafe { pthread_atfork(None, None, Some(in_child)) };
        IS_REGISTERED.store(true, Release);
    }
}

#[cfg(not(all(unix, not(miri))))]
pub(crate) fn register() {}

/// Before `main`, or when the library is loaded: a handler that is registered while another thread forks comes too
/// late for that child. Before the constructors of the program, too, whose own handlers may then pin threads.
#[cfg(all(target_os = "linux", not(miri)))]
const _: () = {
    extern "C" fn call() {
        register();
    }
    #[used]
    // SAFETY: the section is an array of such functions, which the C library calls.
    #[unsafe(link_section = ".init_array.00099")]
    static CALLED: extern "C" fn() = call;
};
