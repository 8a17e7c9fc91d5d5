//! Values that record their drop.

use std::sync::atomic::{AtomicUsize, Ordering::Release};

/// Counts its drop in a counter that outlives it, which readers may check without touching the value.
#[derive(Debug)]
pub struct Tracked(pub &'static AtomicUsize);

impl Tracked {
    /// Returns a value with a counter of its own, which is leaked.
    pub fn leaked() -> Self {
        Self(Box::leak(Box::default()))
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.fetch_add(1, Release);
    }
}

/// Calls a function when it is dropped.
#[derive(Debug)]
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
