//! Counted callbacks.

use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};

/// Returns a counter, and a closure that increments it.
pub fn counter() -> (&'static AtomicUsize, impl Fn() + Copy + Send + 'static) {
    let count: &'static AtomicUsize = Box::leak(Box::default());
    (count, move || _ = count.fetch_add(1, AcqRel))
}
