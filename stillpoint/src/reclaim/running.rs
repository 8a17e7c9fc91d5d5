//! What code of the program the calling thread runs: callbacks and destructors of retired values, by domain, and
//! wakers. A list on its stack, innermost first.
//!
//! There is more than one where a callback waits for callbacks of another domain that has no worker thread, and where
//! it defers so much in another domain that it runs some of that domain's callbacks. Wakers are listed for no domain:
//! a thread that calls them is no domain's worker.

use core::cell::Cell;
use core::ptr;
use core::task::Waker;

use crate::sync::block_on;

thread_local! {
    /// The head of the list.
    static INNERMOST: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// A callback that runs on this thread, or wakers.
struct Running {
    /// The address of its domain; null for wakers.
    domain: *const (),
    outer: *const Running,
}

/// Calls wakers.
pub(super) fn wake_all(wakers: Vec<Waker>) {
    let call = || block_on::wake_all(wakers);
    // The threads of a model share what belongs to a thread here.
    if cfg!(loom) { call() } else { listed(ptr::null(), call) }
}

/// Calls `f`, a callback of `domain`: an address that no other domain has until it returns.
pub(super) fn listed<R>(domain: *const (), f: impl FnOnce() -> R) -> R {
    let running = Running { domain, outer: INNERMOST.get() };
    INNERMOST.set(&raw const running);
    f()
}

impl Drop for Running {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}

/// Returns `true` if the calling thread runs a callback of any domain, or wakers.
pub(crate) fn is_any() -> bool {
    !INNERMOST.get().is_null()
}

/// Returns `true` if the calling thread runs a callback of `domain`.
pub(crate) fn is_of(domain: *const ()) -> bool {
    let mut next = INNERMOST.get();
    // SAFETY: what is listed lies on this thread's stack, in a call of `listed` that has not returned.
    while let Some(running) = unsafe { next.as_ref() } {
        if running.domain == domain {
            return true;
        }
        next = running.outer;
    }
    false
}
