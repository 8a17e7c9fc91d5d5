//! Tests of `arc` through its public API.
#![cfg(not(loom))]

mod counts;
mod deferred;
mod destructors;
mod sections;
mod signals;
mod stress;
mod threads;
