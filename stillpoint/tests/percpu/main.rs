//! Tests of per-CPU data through its public API.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod arc;
mod counters;
#[cfg(not(any(stillpoint_portable, miri)))]
mod memory;
mod pool;
mod ref_count;
// Elsewhere than on Linux a shared library with this crate must not be unloaded.
#[cfg(not(stillpoint_portable))]
mod unload;

/// Returns how often a race is repeated: `count` times, or fewer on slow machines.
fn races(count: usize) -> usize {
    let least = if cfg!(miri) { 4 } else { count / 10 };
    support::time_limit::repetitions(count).max(least)
}
