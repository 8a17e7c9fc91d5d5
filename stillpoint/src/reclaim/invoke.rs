//! Invokes callbacks and destructors, and reports their panics.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::io::Write;

use super::callback::{Callback, Panicked};
use super::domain::RawDomain;
use super::running::listed;

/// Callbacks and destructors that have panicked, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

/// Runs a callback of `domain`, which has this [`address`], and whose grace period has ended.
#[inline(always)]
pub(crate) fn run(domain: &dyn RawDomain, address: *const (), callback: Callback) {
    let is_free_only = callback.is_free_only();
    // SAFETY: the caller's contract.
    let run = || unsafe { callback.run() };
    // The threads of a model share what belongs to a thread here.
    let panicked = if is_free_only || cfg!(loom) { run() } else { listed(address, run) };
    if let Some(panicked) = panicked {
        report_panic(domain, panicked());
    }
}

/// Counts a panic, and writes to the standard error what its message does not say: which domain's callback it was.
#[cold]
pub(crate) fn report_panic(domain: &dyn RawDomain, Panicked { what, name }: Panicked) {
    PANICS.fetch_add(1, Relaxed);
    let site = domain.made_at().map_or(String::new(), |site| format!(", made at {site},"));
    let domain = domain.core().engine.domain();
    // Not `eprintln!`, which panics if it cannot write.
    let _ = writeln!(std::io::stderr(), "stillpoint: {what} in {domain}{site} has panicked: {name}");
}

/// Panics if `operation`, which waits for callbacks of `domain`, would wait for the calling thread.
#[cfg(not(loom))]
#[track_caller]
pub(crate) fn assert_may_wait_for_callbacks(
    domain: &dyn RawDomain,
    operation: impl core::fmt::Display + Copy,
) {
    super::domain::assert_may_wait(domain, operation);
    assert!(
        !super::running::is_of(super::domain::address(domain)),
        "{operation} inside a callback of the same domain would wait for itself"
    );
}
