//! A HTTP service on tokio and hyper, whose shared data is in stillpoint.
//!
//! The service has a configuration that is replaced while it runs, sessions, and a counter of its requests. `data`
//! has them, `http` serves requests, and the program `service` is the service.
#![cfg(feature = "service")]

pub mod client;
pub mod data;
pub mod http;
