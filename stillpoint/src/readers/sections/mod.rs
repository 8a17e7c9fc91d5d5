//! The readers of [`crate::rcu`], which belong to threads, and enter and leave sections.
//!
//! [`scan`] is how a grace period waits for them, by a [`protocol`]; [`reader`] is what each does, [`registry`] where
//! it lies, and [`registration`] how a thread gets and returns it; [`used`] says which may have callbacks.
//! [`super::qsbr`] has another protocol for the same readers.

pub mod protocol;
pub mod reader;
pub mod registration;
pub mod registry;
pub mod scan;
#[cfg(feature = "section-locations")]
pub mod section_sites;
pub mod used;
