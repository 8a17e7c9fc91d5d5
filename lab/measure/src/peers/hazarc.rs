//! hazarc: an `Arc` behind an atomic pointer.

use std::sync::Arc;

use hazarc::{ArcBorrow, AtomicArc};

use super::arc_swap::cached;
use super::{ReadSide, Stores, VALUE, read_side};

/// For short sections: `load()`.
pub struct Load(AtomicArc<u64>);

read_side!(
    Load,
    "hazarc",
    ArcBorrow<u64>,
    Self(AtomicArc::from(VALUE)),
    |this| this.0.load(),
    |_this, guard| ***guard
);

impl Stores for Load {
    fn store(&self, pointer: Arc<u64>) {
        self.0.store(pointer);
    }
}

/// With a `Cache` for each thread, "blazingly fast" by its documentation: a thread keeps the value until it reads
/// again.
pub struct Cached(AtomicArc<u64>);

cached!(
    Cached,
    "hazarc-cache",
    hazarc::Cache<&'a AtomicArc<u64>>,
    hazarc::Cache::new,
    Self(AtomicArc::from(VALUE))
);
