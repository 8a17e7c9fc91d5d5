//! Tests of `rcu` through its public API. Each test has domains of its own.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod atomic;
mod barriers;
mod blocking_wakers;
mod bounded_threads;
mod callbacks;
mod cookie;
mod elapse;
mod grace_period;
mod guard;
mod handles;
// Of destructors of the C library.
#[cfg(target_os = "linux")]
mod late_guard;
mod limits;
mod local;
mod own_destructors;
mod pointer;
// Elsewhere than on Linux signal handlers may not use the library.
#[cfg(not(stillpoint_portable))]
mod signals;
mod threads;
mod unchecked;
mod use_after_free;
mod weights;
mod worker;

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;
