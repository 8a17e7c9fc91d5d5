//! Tests of `hazard` through its public API.
#![cfg(not(loom))]

#[cfg(not(stillpoint_portable))]
mod fork;
mod list;
mod pointers;
mod reclaim;
#[cfg(not(stillpoint_portable))]
mod signals;
mod stress;
mod threads;
