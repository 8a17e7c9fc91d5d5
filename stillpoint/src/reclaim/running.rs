//! The domains whose callbacks, or destructors of retired values, the calling thread runs: a list on its stack,
//! innermost first.
//!
//! There is more than one where a callback waits for callbacks of another domain that has no worker thread, and where
//! it defers so much in another domain that it runs some of that domain's callbacks.

use core::cell::Cell;
use core::ptr;

thread_local! {
    /// The head of the list.
    static INNERMOST: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// A callback that runs on this thread.
struct Running {
    /// The address of its domain.
    domain: *const (),
    outer: *const Running,
}

/// Runs `f`, a callback of `domain`: an address that no other domain has meanwhile.
pub(crate) fn run<R>(domain: *const (), f: impl FnOnce() -> R) -> R {
    let running = Running { domain, outer: INNERMOST.get() };
    INNERMOST.set(&raw const running);
    f()
}

impl Drop for Running {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}

/// Returns `true` if the calling thread runs a callback of any domain.
pub(crate) fn is_any() -> bool {
    !INNERMOST.get().is_null()
}

/// Returns `true` if the calling thread runs a callback of `domain`.
pub(crate) fn is_of(domain: *const ()) -> bool {
    let mut next = INNERMOST.get();
    // SAFETY: what is listed lies on this thread's stack, in a call of `run` that has not returned.
    while let Some(running) = unsafe { next.as_ref() } {
        if running.domain == domain {
            return true;
        }
        next = running.outer;
    }
    false
}
