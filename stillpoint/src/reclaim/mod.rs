//! What every domain has, and deferred reclamation: callbacks, the queues in which they wait for a grace period, and
//! the worker that invokes them.

pub mod amount;
pub mod backlog;
pub mod callback;
pub mod domain;
pub mod hazards;
pub mod limited;
pub mod owner;
pub mod poller;
pub mod pool;
pub mod queue;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod worker;
