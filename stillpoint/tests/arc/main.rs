//! Tests of `arc` through its public API.
#![cfg(not(loom))]

mod counts;
mod deferred;
mod destructors;
#[cfg(not(stillpoint_portable))]
mod signals;
mod stress;
mod threads;
