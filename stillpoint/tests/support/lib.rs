//! What the tests of the library share.
#![allow(missing_docs, missing_debug_implementations, reason = "for tests only")]

#[cfg(not(loom))]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
pub mod asleep;
#[cfg(not(loom))]
pub mod callbacks;
pub mod child;
pub mod counting;
pub mod deadline;
#[cfg(loom)]
pub mod domain;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod fork;
pub mod futures;
#[cfg(loom)]
pub mod model;
#[cfg(not(loom))]
pub mod owner;
pub mod panics;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod rseq;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod signals;
pub mod store_buffer;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod threads;
pub mod time_limit;
pub mod tracked;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(loom)))]
pub mod traps;
pub mod until;
pub mod variants;
#[cfg(not(loom))]
pub mod waiting;

/// The backends of the fence that the calling package's build of the library has.
#[macro_export]
macro_rules! backends {
    () => {
        ["membarrier", "seqcst"]
    };
}
