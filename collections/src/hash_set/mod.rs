//! A hash set whose lookups write nothing shared and never wait: a [`HashMap`](crate::HashMap) of keys only.

mod convert;
mod pinned;
mod set;

pub use pinned::Pinned;
pub use set::{HashSet, IntoIter, Iter};
