//! Domains: what the engine, the readers and deferred reclamation are put together to.

pub mod api;
pub mod defer;
pub mod define;
pub mod fork;
pub mod futures;
pub mod options;
pub mod static_domain;
pub mod stats;
pub mod thread;
