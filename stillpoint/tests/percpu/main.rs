//! Tests of per-CPU data through its public API.
#![cfg(not(loom))]

mod counters;
mod pool;
