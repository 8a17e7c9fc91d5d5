//! The modules of [`crate::lock`] that the model checker sees.

pub mod condvar;
pub mod events;
pub mod local;
mod outside;
pub mod policy;
mod queue;
pub mod raw;
pub mod table;
pub mod word;
