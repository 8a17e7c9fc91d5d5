//! Domains: what the engine, the readers and deferred reclamation are put together to.

pub mod api;
pub mod define;
#[cfg(feature = "epoch")]
pub mod due;
#[cfg(feature = "epoch")]
pub mod entry;
pub mod static_domain;
pub mod thread;
