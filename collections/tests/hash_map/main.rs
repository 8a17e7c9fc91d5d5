//! Tests of the hash map through its public API.
#![cfg(not(loom))]

mod api;
mod bounded;
mod capacity;
mod churn;
mod counted;
mod exclusive;
mod features;
mod hashers;
mod reentrancy;
mod set;
mod slow_closures;
