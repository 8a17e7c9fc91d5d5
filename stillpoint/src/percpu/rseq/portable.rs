//! Other architectures have no critical sections: every attempt fails. See [`super`].

use super::layout::{AreaRef, CounterRef, FAILED, Pushed};

/// See [`super`].
pub unsafe fn add(_: CounterRef, _: u64) -> bool {
    false
}

/// See [`super`].
pub unsafe fn push(_: AreaRef, _: u64) -> Pushed {
    Pushed::Failed
}

/// See [`super`].
pub unsafe fn pop(_: AreaRef) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn push_batch(_: AreaRef, _: *const u64, _: usize) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn pop_batch(_: AreaRef, _: *mut u64, _: usize) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn compare_and_store(_: AreaRef, _: u64, _: u64) -> u64 {
    FAILED
}

/// See [`super`].
pub unsafe fn record(_: AreaRef, _: *const u64, _: usize) -> Pushed {
    Pushed::Failed
}
