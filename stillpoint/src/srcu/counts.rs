//! What keeps a sleepable domain: the counts of the table in [`super::domain`], as of an `Arc` and its weak references.

use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct Counts {
    handles: AtomicU64,
    /// Jobs, and one for all handles.
    internal_refs: AtomicU64,
}

impl Counts {
    const_unless_loom! {
        /// Those of one handle.
        pub fn new() -> Self {
            Self { handles: AtomicU64::new(1), internal_refs: AtomicU64::new(1) }
        }
    }

    /// Another handle, made of one that there is.
    pub fn add_handle(&self) {
        // Relaxed: a thread gets the new handle by something that orders.
        let handles = self.handles.fetch_add(1, Relaxed);
        assert!(handles < u64::MAX / 2, "too many handles of a domain");
    }

    /// One handle less. True for the last, which must [`release`](Self::release) for all.
    #[must_use]
    pub fn drop_handle(&self) -> bool {
        // Release, Acquire: what was done through the other handles comes before what follows the last. Partner: itself.
        self.handles.fetch_sub(1, AcqRel) == 1
    }

    /// Another keeper, made by a handle or a keeper that there is.
    pub fn add_internal_ref(&self) {
        // Relaxed: the caller's handle, or job, keeps the domain meanwhile.
        self.internal_refs.fetch_add(1, Relaxed);
    }

    /// One keeper less. True for the last, which frees the memory.
    #[must_use]
    pub fn drop_internal_ref(&self) -> bool {
        // Release: what this keeper did comes before the end. Acquire: what all others did. Partner: itself.
        self.internal_refs.fetch_sub(1, AcqRel) == 1
    }
}
