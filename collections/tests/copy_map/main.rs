//! Tests of the map of plain pairs through its public API.
#![cfg(not(loom))]

mod api;
mod fuzz;
#[path = "../hash_map/hashers.rs"]
mod hashers;
mod reentrancy;
