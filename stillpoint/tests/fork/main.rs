//! Children of forks. Each test forks in a process of its own.
// Elsewhere than on Linux the child of a fork may only `exec`.
#![cfg(not(any(loom, stillpoint_portable)))]

mod qsbr;
mod rcu;
mod srcu;
mod stall;
