//! The library beside its peers, and in running processes: a demo, `top`, and with the feature `bench` the benches, the report, and the comparison of
//! results.
#![allow(missing_docs, missing_debug_implementations, reason = "for programs of this repository only")]

#[cfg(feature = "bench")]
pub mod bench;
#[cfg(feature = "bench")]
pub mod compare;
pub mod demo;
#[cfg(feature = "bench")]
pub mod peers;
#[cfg(feature = "bench")]
pub mod report;
pub mod top;
