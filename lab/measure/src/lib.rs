//! The library beside its peers, and in running processes: a demo, `top`, and with the feature `bench` the benches
//! and the report.
#![allow(missing_docs, missing_debug_implementations, reason = "for programs of this repository only")]

#[cfg(feature = "bench")]
pub mod bench;
pub mod demo;
#[cfg(feature = "bench")]
pub mod peers;
#[cfg(feature = "bench")]
pub mod report;
pub mod top;
