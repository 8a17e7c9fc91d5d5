//! No critical sections: on other architectures each attempt fails. See [`super`].

use super::layout::{FAILED, Place, Pushed, Tally};

/// See [`super`].
pub unsafe fn add(_: Tally, _: u64) -> bool {
    false
}

/// See [`super`].
pub unsafe fn push(_: Place, _: u64) -> Pushed {
    Pushed::Failed
}

/// See [`super`].
pub unsafe fn pop(_: Place) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn push_batch(_: Place, _: *const u64, _: usize) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn pop_batch(_: Place, _: *mut u64, _: usize) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn compare_and_store(_: Place, _: u64, _: u64) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn record(_: Place, _: *const u64, _: usize) -> Pushed {
    Pushed::Failed
}
