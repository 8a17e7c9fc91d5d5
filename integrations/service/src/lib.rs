//! A HTTP service on tokio and hyper, whose shared data is in stillpoint, and the same service on other crates.
//!
//! The service has a configuration that is replaced while it runs, sessions, a counter and a histogram of its requests.
//! `data` says what it does with them, `on_stillpoint` and `on_others` do it, and `http` serves either of them.
//! The programs: `service`, the service by itself; `load`, which measures both; `polls`, what a poll of a task costs.
#![cfg(feature = "service")]

pub mod client;
pub mod cpu;
pub mod data;
pub mod http;
pub mod on_others;
pub mod on_stillpoint;
