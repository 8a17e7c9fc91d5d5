//! Random programs of reader-writer locks: see `stillpoint/tests/fuzz`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "what only the tests use")]

#[path = "../../../stillpoint/tests/fuzz/lock.rs"]
mod lock;
#[path = "../../../stillpoint/tests/fuzz/rwlock.rs"]
mod rwlock;
#[path = "../../../stillpoint/tests/fuzz/program.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rwlock::fuzz(data));
