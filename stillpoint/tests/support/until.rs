//! Polls for the effects of other threads.

use std::thread;

/// Polls until `condition` holds.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}
