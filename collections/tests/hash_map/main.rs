//! Tests of the hash map through its public API.
#![cfg(not(loom))]

mod api;
mod bounded;
mod counted;
mod fuzz;
mod hashers;
mod reentrancy;
mod retain;
mod slow_closures;
mod torture;
