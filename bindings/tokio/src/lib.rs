//! The [`stillpoint`] library in [tokio](https://docs.rs/tokio) runtimes.
//!
//! The library needs no runtime, and its futures work in any: grace periods, replaced values, the end of a domain.
//! What they are, and which calls block, is in the
//! [guide](https://docs.rs/stillpoint/latest/stillpoint/guide/async_code/). This crate adds what depends on the
//! runtime: by [`BuilderExt::hint_idle_on_park`] grace periods skip the worker threads that have nothing to do; by
//! [`BuilderExt::never_block_above_limits`] no change blocks a thread of the runtime.
//!
//! ```
//! use stillpoint::Domain as _;
//! use stillpoint::rcu::{self, Rcu};
//! use stillpoint_tokio::BuilderExt as _;
//!
//! let runtime = tokio::runtime::Builder::new_multi_thread()
//!     .hint_idle_on_park()
//!     .never_block_above_limits()
//!     .build()?;
//! runtime.block_on(async {
//!     let limit = Rcu::new(10);
//!     assert_eq!(*limit.read(), 10); // a section without `.await`, as in a thread
//!     assert_eq!(limit.replace(20).await, 10); // no reader uses the 10 any more
//!     drop(limit.replace(30)); // or the library drops the 20
//!     rcu::Global.barrier_async().await; // and has dropped it now
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Tasks that never yield
//!
//! A task that does not return to the runtime keeps its thread from running other tasks, but grace periods do not
//! wait for it: they wait for open sections. Those of [`qsbr`](stillpoint::qsbr) would wait for it, as for each
//! thread that is in a poll. So this crate has no readers of `qsbr`, which would save a few nanoseconds in a poll
//! (`docs/measurements.md`).
//!
//! If the task does not return inside a section, a [stall report](stillpoint::rcu#stalls) names its worker thread:
//!
//! ```text
//! stillpoint: grace period 7 of stillpoint::rcu::Global has waited 10.0s for thread 812 (tokio-runtime-w), which registered at src/routes.rs:31:9
//! ```
//!
//! The stack of the thread shows the task (`eu-stack -1 -p 812`). `docs/operations.md` says what to do.

mod park;

pub use park::BuilderExt;
