//! The fence under loom: the exact model of `membarrier(2)` (see `sync/model.rs`).

use crate::sync::model::interrupt_all;
pub use crate::sync::model::light_is_compiler_fence;

/// Nothing, as on the machine with `membarrier`.
pub fn light() {}

/// Nothing: the interrupts of [`heavy`] model full fences too.
pub fn light_full() {}

/// Nothing, as on the machine.
pub fn light_compiler_only() {}

/// A process-wide fence.
pub fn heavy() {
    interrupt_all();
}

/// The kernel denies no model a fence.
pub fn try_heavy() {
    heavy();
}

/// Every model has a fast path that is not fenced.
pub const FAST_PATH_IS_FENCED: bool = false;

pub fn fast_path_suffices() -> bool {
    light_is_compiler_fence()
}

/// Threads that do not take the fast path begin their sections as with full fences.
pub fn light_is_full_fence() -> bool {
    true
}
