//! Values that tell when they are dropped.

use std::sync::atomic::{AtomicUsize, Ordering::Release};

/// Counts its destruction in a counter that outlives it, so that readers may ask after it without touching the value.
#[derive(Debug)]
pub struct Tracked(pub &'static AtomicUsize);

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.fetch_add(1, Release);
    }
}
