//! The reader-writer lock: its gate with the readers, its writers, and the types made of them.

#[cfg(not(loom))]
pub mod api;
pub mod gate;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod writer;
