//! Pointers of one word: to a value of any size, with a tag. [`crate::rcu::Atomic`] stores them.

pub mod owned;
pub mod pointable;
pub mod shared;
