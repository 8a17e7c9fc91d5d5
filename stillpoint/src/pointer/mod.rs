//! Pointers of one word to values in boxes: with a tag, as [`crate::rcu::Atomic`] stores them, or to values that may
//! be unsized, as [`crate::rcu::Rcu`] does.

#[cfg(loom)]
pub(crate) mod nodes;
pub mod owned;
pub mod shared;
pub mod thin;
