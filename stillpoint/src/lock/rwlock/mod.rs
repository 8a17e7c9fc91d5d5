//! The reader-writer lock: its gate, its readers, its writers, and the types made of them.

#[cfg(not(loom))]
pub mod api;
pub mod gate;
mod opening;
pub mod reader;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod writer;
