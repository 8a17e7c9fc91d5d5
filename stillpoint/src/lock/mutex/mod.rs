//! The queued lock: its word, its wait queue, and the mutex made of it.

#[cfg(not(loom))]
pub mod api;
pub mod polling;
pub mod queue;
pub mod raw;
#[cfg(all(test, not(any(loom, stillpoint_portable))))]
mod tests;
pub mod word;
