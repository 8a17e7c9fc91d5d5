//! Tests of per-CPU data through its public API.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod arc;
mod counters;
mod pool;
mod ref_count;
