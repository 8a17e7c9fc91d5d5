//! Tests of the locks through their public API.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod condvar;
mod mutex;
mod rw_guards;
mod rwlock;
