#![cfg_attr(loom, allow(missing_docs, dead_code, missing_debug_implementations))]

//! Concurrent collections on the read-copy update of [`stillpoint`].
//!
//! [`HashMap`] is for tables that many threads read and some change. The [`hash_map`] module says how it works.
//! [`CopyMap`] is one of numbers and other plain pairs, which lookups copy: it takes less time and memory. [`Family`]
//! keeps the series of a metric by their labels.
//!
//! ```
//! use stillpoint::rcu;
//! use stillpoint_collections::HashMap;
//!
//! let ports = HashMap::new();
//! std::thread::scope(|scope| {
//!     for thread in 0..4 {
//!         let ports = &ports;
//!         scope.spawn(move || ports.insert(format!("eth{thread}"), thread, &rcu::enter()).is_none());
//!     }
//! });
//! let guard = rcu::enter();
//! assert_eq!(ports.get("eth2", &guard), Some(&2));
//! assert_eq!(ports.len(), 4);
//! ```

#[cfg(not(loom))]
mod attempts;
#[cfg(not(loom))]
pub mod copy_map;
#[cfg(not(loom))]
mod family;
#[cfg(not(loom))]
mod forward;
#[cfg(not(loom))]
mod free_list;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
pub mod hash_map;
#[cfg(not(loom))]
pub mod hash_set;
#[cfg(not(loom))]
mod memory;
#[cfg(all(feature = "serde", not(loom)))]
mod serde;
#[cfg(not(loom))]
mod sync;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod turn;

#[cfg(not(loom))]
pub use copy_map::CopyMap;
#[cfg(not(loom))]
pub use family::Family;
#[cfg(not(loom))]
pub use hash_map::HashMap;
#[cfg(not(loom))]
pub use hash_set::HashSet;

// The algorithm, for the models in `tests/loom_maps/`.
#[cfg(loom)]
pub mod model;
#[cfg(loom)]
pub mod sync;
#[cfg(loom)]
pub mod table;
