//! Random programs of locks and condition variables: see `stillpoint/tests/fuzz`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "what only the tests use")]

#[path = "../../../stillpoint/tests/fuzz/lock.rs"]
mod lock;
#[path = "../../../stillpoint/tests/fuzz/program.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| lock::fuzz(data));
