//! Domains: what the engine, the readers and deferred reclamation are put together to.

pub mod api;
#[cfg(feature = "epoch")]
pub mod due;
#[cfg(feature = "epoch")]
pub mod entry;
#[cfg(stillpoint_portable)]
pub mod freed_state;
pub mod static_domain;
pub mod stats;
