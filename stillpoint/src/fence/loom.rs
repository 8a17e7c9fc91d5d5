//! The fence under loom: the exact model of `membarrier(2)` (see `sync/model.rs`).

use crate::sync::model::interrupt_all;
pub use crate::sync::model::light_is_compiler_fence;

/// Nothing, as on the machine with `membarrier`.
pub fn light() {}

/// Nothing, as on the machine.
pub fn light_compiler_only() {}

/// A process-wide fence.
pub fn heavy() {
    interrupt_all();
}

/// Every model has a fast path that is not fenced.
pub const FAST_PATH_IS_FENCED: bool = false;

pub fn fast_path_suffices() -> bool {
    light_is_compiler_fence()
}

pub fn light_is_full_fence() -> bool {
    !light_is_compiler_fence()
}
