//! Random programs of the maps, beside the map of the standard library: see `collections/tests/maps/fuzz.rs`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "what only the tests use")]

#[path = "../../../collections/tests/hash_map/counted.rs"]
mod counted;
#[path = "../../../collections/tests/maps/fuzz.rs"]
mod fuzz;
#[path = "../../../collections/tests/hash_map/hashers.rs"]
mod hashers;
#[path = "../../../collections/tests/maps/map.rs"]
mod map;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fuzz(data));
