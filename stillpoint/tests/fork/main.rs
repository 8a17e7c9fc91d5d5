//! Children of forks. Each test forks in a process of its own.
#![cfg(not(loom))]

mod qsbr;
mod rcu;
mod srcu;
mod stall;
