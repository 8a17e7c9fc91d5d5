//! Reference counts of a sleepable domain: see the table in [`super::domain`].

use std::time::Duration;

use crate::sync::{AtomicU64, EventCount, Ordering::*, const_unless_loom, step};

/// See the [module](self).
#[derive(Debug)]
pub struct HandleCounts {
    handles: AtomicU64,
    /// Tasks of the library, and one for all handles.
    internal_refs: AtomicU64,
    /// Threads sleep here until there is no handle.
    no_handles: EventCount,
}

impl HandleCounts {
    const_unless_loom! {
        /// The counts of one handle.
        pub fn new() -> Self {
            Self { handles: AtomicU64::new(1), internal_refs: AtomicU64::new(1), no_handles: EventCount::new() }
        }
    }

    /// Counts a handle, made from an existing one.
    pub fn add_handle(&self) {
        // Relaxed: the new handle reaches another thread only by what orders.
        let handles = self.handles.fetch_add(1, Relaxed);
        assert!(handles < u64::MAX / 2, "too many handles of a domain");
    }

    /// Returns `true` for the last handle. The caller must then call [`notify_no_handles`](Self::notify_no_handles) and
    /// drop the internal reference of all handles.
    #[must_use]
    pub fn drop_handle(&self) -> bool {
        // Release, Acquire: use through the other handles happens before what follows the last; pairs with itself.
        self.handles.fetch_sub(1, AcqRel) == 1
    }

    /// Wakes the threads that wait for the last handle.
    pub fn notify_no_handles(&self) {
        step!("last-handle-without-notify", self.no_handles.notify_all());
    }

    /// Returns the number of handles.
    pub fn handles(&self) -> u64 {
        // Acquire: if there are none, sees what was done through the handles; pairs with the Release in `drop_handle`.
        self.handles.load(Acquire)
    }

    /// Blocks until there are no handles, or for `limit`. Returns `true` if there are none.
    pub fn wait_for_no_handles(&self, limit: Option<Duration>) -> bool {
        self.no_handles.wait_until(limit, || self.handles() == 0)
    }

    /// Counts an internal reference, made from an existing handle or reference.
    pub fn add_internal_ref(&self) {
        // Relaxed: the caller's handle or reference keeps the domain.
        self.internal_refs.fetch_add(1, Relaxed);
    }

    /// Counts an internal reference for a thread that has none. Returns `false` if there is no reference any more: the
    /// domain is about to be freed.
    #[cfg(any(loom, feature = "statistics-page"))]
    #[must_use]
    pub fn try_add_internal_ref(&self) -> bool {
        let mut references = self.internal_refs.load(Relaxed);
        loop {
            step!(
                "freed-domain-referenced",
                if references == 0 {
                    return false;
                }
            );
            // Relaxed: the list in which the thread has found the domain orders its state, and the reference keeps it.
            match self.internal_refs.compare_exchange(references, references + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => references = now,
            }
        }
    }

    /// Returns `true` for the last reference, which must then free the memory.
    #[must_use]
    pub fn drop_internal_ref(&self) -> bool {
        // Release, Acquire: use through the other references happens before the end; pairs with itself.
        self.internal_refs.fetch_sub(1, AcqRel) == 1
    }
}
