//! Tests of `hazard` through its public API.
#![cfg(not(loom))]

mod domains;
#[cfg(not(stillpoint_portable))]
mod fork;
mod pointers;
mod reclaim;
#[cfg(not(stillpoint_portable))]
mod signals;
mod stress;
mod structures;
mod threads;
