//! Random programs of per-CPU containers: see `stillpoint/tests/fuzz`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "what only the tests use")]

#[path = "../../stillpoint/tests/fuzz/percpu.rs"]
mod percpu;
#[path = "../../stillpoint/tests/fuzz/program.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| percpu::fuzz(data));
