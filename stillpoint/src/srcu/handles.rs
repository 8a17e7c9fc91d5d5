//! The count of the handles of a sleepable domain, after the last of which its memory is freed: see
//! [`super::domain`].

#[cfg(any(loom, feature = "statistics-page"))]
use crate::sync::step;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct Handles(AtomicU64);

impl Handles {
    const_unless_loom! {
        /// One handle.
        pub fn new() -> Self {
            Self(AtomicU64::new(1))
        }
    }

    /// Counts a handle, made from an existing one, or by the thread that has dropped the last.
    pub fn add(&self) {
        // Relaxed: the new handle reaches another thread only by what orders.
        let handles = self.0.fetch_add(1, Relaxed);
        assert!(handles < u64::MAX / 2, "too many handles of a domain");
    }

    /// Counts a handle for a thread that has none. Returns `false` if there is none any more: the domain is about to
    /// be freed.
    #[cfg(any(loom, feature = "statistics-page"))]
    #[must_use]
    pub fn try_add(&self) -> bool {
        let mut handles = self.0.load(Relaxed);
        loop {
            step!(
                "freed-domain-referenced",
                if handles == 0 {
                    return false;
                }
            );
            // Relaxed: the list in which the thread has found the domain orders its state, and the handle keeps it.
            match self.0.compare_exchange(handles, handles + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => handles = now,
            }
        }
    }

    /// Returns `true` for the last handle.
    #[must_use]
    pub fn drop_one(&self) -> bool {
        // Release, Acquire: use through the other handles happens before what follows the last; pairs with itself.
        self.0.fetch_sub(1, AcqRel) == 1
    }
}
