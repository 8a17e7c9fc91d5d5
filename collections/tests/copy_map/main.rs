//! Tests of the map of plain pairs through its public API.
#![cfg(not(loom))]

mod api;
mod domains;
mod reentrancy;
