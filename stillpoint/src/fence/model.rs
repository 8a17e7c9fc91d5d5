//! What the models see of this folder.

pub mod shared;
