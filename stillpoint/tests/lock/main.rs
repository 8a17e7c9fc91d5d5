//! Tests of the locks through their public API.
#![cfg(not(loom))]

mod condvar;
mod mutex;
mod rwlock;
