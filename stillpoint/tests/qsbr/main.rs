//! Tests of `qsbr` through its public API. Each test has a domain of its own.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod handle;
