//! The modules of [`crate::srcu`] that the model checker sees.

pub mod counts;
pub mod lines;
pub mod phases;
