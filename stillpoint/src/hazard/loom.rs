//! Hazard pointers under loom, for models of programs' own structures. See `rcu/loom.rs`.

#[path = "pointer.rs"]
mod pointer;

pub use pointer::{HazardPointer, Protected, Source};

crate::rcu::modelled_domain!(Hazards, HazardPointer);
