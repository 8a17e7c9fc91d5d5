//! The modules of [`crate::rcu`] that the model checker sees.

pub mod engine;
pub mod published;
pub mod reader;
pub mod registry;
