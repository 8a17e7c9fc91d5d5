//! What the drop-in replacements of liburcu share. See `urcu/README.md`.
//!
//! | module | contents |
//! |---|---|
//! | [`flavor`] | what differs among flavors, registration, `synchronize_rcu` |
//! | [`workers`], [`worker`], [`cpus`] | `call_rcu`, worker threads |
//! | [`barrier`] | `rcu_barrier` |
//! | [`defer`] | `defer_rcu`, by a thread of its own |
//! | [`poll`] | polled grace periods, by the default worker |
//! | [`fork`] | hooks before and after `fork` |
//! | [`data`], [`exports`](mod@exports) | macros that define data and functions under liburcu's names |
//!
//! The names of functions in the documentation are liburcu's without the prefix of a flavor.

#![cfg(target_arch = "x86_64")]
#![allow(missing_docs, reason = "liburcu's manual documents the functions")]

pub mod barrier;
pub mod cpus;
pub mod data;
pub mod defer;
pub mod exports;
pub mod flavor;
pub mod fork;
pub mod poll;
pub mod queue;
pub mod report;
mod sync;
pub mod worker;
pub mod workers;
