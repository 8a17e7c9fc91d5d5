//! Tests of `qsbr` through its public API. Each test has a domain of its own.
#![cfg(not(loom))]

mod drop;
mod handle;
