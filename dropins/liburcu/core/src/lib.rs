//! What the drop-in replacements of liburcu share. See `dropins/liburcu/README.md`.
//!
//! | module | contents |
//! |---|---|
//! | [`flavor`] | what differs among flavors, registration, `synchronize_rcu` |
//! | [`call_rcu`](mod@call_rcu), [`worker`], [`cpus`], [`cpu_table`] | `call_rcu`, worker threads |
//! | [`barrier`] | `rcu_barrier` |
//! | [`defer`] | `defer_rcu`, by a thread of its own |
//! | [`poll`] | polled grace periods, by the default worker |
//! | [`progress`] | what the threads of a flavor tell each other |
//! | [`fork`], [`hooks`], [`generation`](mod@generation) | before and after `fork` |
//! | [`lock`] | a lock and an event without memory |
//! | [`inlined`] | the readers, and how grace periods wait for them |
//! | [`data`], [`exports`](mod@exports) | macros that define data and functions under liburcu's names |
//!
//! The names of functions in the documentation are liburcu's without the prefix of a flavor.

#![cfg(target_arch = "x86_64")]
#![allow(missing_docs, reason = "liburcu's manual documents the functions")]
#![allow(clippy::new_without_default, reason = "all of them are statics")]
#![cfg_attr(loom, allow(dead_code, missing_debug_implementations))]

pub mod inlined;
mod sync;

/// Gives the items a condition, in the form in which rustfmt finds the files of modules.
macro_rules! cfg_if {
    (if #[cfg($condition:meta)] { $($item:item)* }) => {
        $(#[cfg($condition)] $item)*
    };
}

cfg_if! {
    // The models in `tests/loom_*.rs` have the readers only.
    if #[cfg(not(loom))] {
        pub mod barrier;
        pub mod call_rcu;
        pub mod cpu_table;
        pub mod cpus;
        pub mod data;
        pub mod defer;
        pub mod exports;
        pub mod flavor;
        pub mod fork;
        pub mod generation;
        pub mod hooks;
        pub mod lock;
        pub mod poll;
        pub mod progress;
        pub mod queue;
        pub mod report;
        pub mod worker;
            }
}
