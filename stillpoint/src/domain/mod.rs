//! Domains: what the engine, the readers and deferred reclamation are put together to.

pub mod api;
pub mod define;
pub mod static_domain;
pub mod thread;
