//! Tests of `rcu` through its public API. Each test has domains of its own.
#![cfg(not(loom))]

mod atomic;
mod bounded;
mod bounded_threads;
mod callbacks;
mod cookie;
mod grace_period;
mod guard;
mod handles;
mod late_guard;
mod limits;
mod local;
mod own_destructors;
mod pointer;
mod reclaim;
mod signals;
mod threads;
mod unchecked;
mod use_after_free;
mod weights;
mod worker;

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;
