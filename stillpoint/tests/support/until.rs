//! Waiting for what another thread does.

use std::thread;

/// Looks until `condition` holds.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}
