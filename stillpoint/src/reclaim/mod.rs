//! Deferred reclamation: callbacks, the queues in which they wait for a grace period, and the worker that invokes them.

pub mod activity;
pub mod backlog;
pub mod blocks;
pub mod callback;
pub mod domain;
#[cfg(not(loom))]
pub mod fork;
pub mod hazards;
#[cfg(not(loom))]
pub mod heap_bytes;
pub mod invoke;
#[cfg(not(loom))]
pub mod lazy_timer;
#[cfg(not(loom))]
pub mod library_waits;
#[cfg(not(loom))]
pub mod options;
pub mod poller;
#[cfg_attr(loom, expect(missing_debug_implementations, reason = "tasks are closures"))]
pub mod pool_state;
pub mod queue;
pub mod rounds;
pub mod running;
#[cfg(feature = "statistics-page")]
pub mod sample;
pub mod slice;
#[cfg(not(loom))]
pub mod stats;
pub mod striped;
pub mod worker;
#[cfg(not(loom))]
pub mod worker_pool;
pub mod worker_state;
