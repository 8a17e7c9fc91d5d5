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
