//! Tests of `srcu` through its public API.
#![cfg(not(loom))]

mod callbacks;
mod close;
mod flush;
mod guard;
mod lazy;
mod signals;
