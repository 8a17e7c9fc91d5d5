//! The domains whose callbacks, or destructors of retired values, the calling thread runs: a list on its stack,
//! innermost first.
//!
//! There is more than one where a callback waits for callbacks of another domain that has no worker thread, and where
//! it defers so much in another domain that it runs some of that domain's callbacks.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::io::Write;

use super::callback::{Callback, Panicked};
use super::domain::{RawDomain, address};

/// Callbacks and destructors that have panicked, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

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

/// Runs a callback of `domain`, whose grace period has ended.
#[inline(always)]
pub(crate) fn run(domain: &impl RawDomain, callback: Callback) {
    let is_free_only = callback.is_free_only();
    // SAFETY: the caller's contract.
    let run = || unsafe { callback.run() };
    // The threads of a model share what belongs to a thread here.
    let panicked = if is_free_only || cfg!(loom) { run() } else { listed(address(domain), run) };
    if let Some(panicked) = panicked {
        report_panic(domain, panicked());
    }
}

/// Calls `f`, a callback of `domain`: an address that no other domain has until it returns.
fn listed<R>(domain: *const (), f: impl FnOnce() -> R) -> R {
    let running = Running { domain, outer: INNERMOST.get() };
    INNERMOST.set(&raw const running);
    f()
}

/// Counts a panic, and writes to the standard error what its message does not say: which domain's callback it was.
#[cold]
pub(crate) fn report_panic(domain: &impl RawDomain, Panicked { what, name }: Panicked) {
    PANICS.fetch_add(1, Relaxed);
    let site = domain.made_at().map_or(String::new(), |site| format!(", made at {site},"));
    let domain = domain.core().engine.domain();
    // Not `eprintln!`, which panics if it cannot write.
    let _ = writeln!(std::io::stderr(), "stillpoint: {what} in {domain}{site} has panicked: {name}");
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
    // SAFETY: what is listed lies on this thread's stack, in a call of `listed` that has not returned.
    while let Some(running) = unsafe { next.as_ref() } {
        if running.domain == domain {
            return true;
        }
        next = running.outer;
    }
    false
}

/// Panics if `operation`, which waits for callbacks of `domain`, would wait for the calling thread.
#[cfg(not(loom))]
#[track_caller]
pub(crate) fn assert_may_wait_for_callbacks(
    domain: &impl RawDomain,
    operation: impl core::fmt::Display + Copy,
) {
    super::domain::assert_may_wait(domain, operation);
    assert!(
        !is_of(address(domain)),
        "{operation} inside a callback of the same domain would wait for itself"
    );
}
