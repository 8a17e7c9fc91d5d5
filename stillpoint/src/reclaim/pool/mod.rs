//! Threads of the library: [`state`] decides what they do, and [`threads`] has them do it.

#[cfg(loom)]
mod model;
#[cfg_attr(loom, expect(missing_debug_implementations, reason = "tasks are closures"))]
pub mod state;
#[cfg(not(loom))]
mod threads;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use threads::*;
