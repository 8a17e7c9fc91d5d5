//! Pointers of one word to values of any size: with a tag, as [`crate::rcu::Atomic`] stores them, or of an erased type,
//! as callbacks free them.

pub mod erased;
pub mod owned;
pub mod pointable;
pub mod shared;
pub mod thin;
