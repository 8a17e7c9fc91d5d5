//! Threads of the library: [`state`] decides what they do, [`threads`] starts them, and [`timer`] has them work for
//! domains.

#[cfg(loom)]
mod model;
#[cfg_attr(loom, expect(missing_debug_implementations, reason = "tasks are closures"))]
pub mod state;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod timer;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use threads::*;
#[cfg(not(loom))]
pub use timer::*;
