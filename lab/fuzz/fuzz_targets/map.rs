//! Random programs of a hash map, beside the map of the standard library: see `collections/tests/hash_map/fuzz.rs`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "what only the tests use")]

#[path = "../../../collections/tests/hash_map/counted.rs"]
mod counted;
#[path = "../../../collections/tests/hash_map/fuzz.rs"]
mod fuzz;
#[path = "../../../collections/tests/hash_map/hashers.rs"]
mod hashers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fuzz(data));
