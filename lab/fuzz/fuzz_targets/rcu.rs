//! Random programs of sections, grace periods and callbacks of `rcu`: see `stillpoint/tests/fuzz`.
#![no_main]
#![allow(dead_code, unused_imports, unused_macros, reason = "what only the tests use")]

#[path = "../../../stillpoint/tests/fuzz/gp_model.rs"]
mod gp_model;
#[path = "../../../stillpoint/tests/fuzz/grace.rs"]
mod grace;
#[path = "../../../stillpoint/tests/fuzz/grace_periods.rs"]
mod grace_periods;
#[path = "../../../stillpoint/tests/fuzz/program.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| grace_periods::fuzz_rcu(data));
