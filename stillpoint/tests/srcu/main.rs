//! Tests of `srcu` through its public API.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod callbacks;
mod guard;
// Elsewhere than on Linux signal handlers may not use the library.
#[cfg(not(stillpoint_portable))]
mod signals;
