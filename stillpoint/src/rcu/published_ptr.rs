//! The pointer that readers load and writers replace, with its orderings. What it points to is [`super::Rcu`]'s affair.

use crate::sync::{AtomicPtr, Ordering::*, const_unless_loom};

/// A pointer to something published.
#[derive(Debug)]
pub struct PublishedPtr<T>(AtomicPtr<T>);

impl<T> PublishedPtr<T> {
    const_unless_loom! {
        pub fn new(value: *mut T) -> Self {
            Self(AtomicPtr::new(value))
        }
    }

    #[inline(always)]
    pub fn load(&self) -> *mut T {
        // Acquire: the value is initialized; partner: the Release in `swap` and `compare_exchange`.
        self.0.load(Acquire)
    }

    /// Publishes `new`; the value that was published.
    pub fn swap(&self, new: *mut T) -> *mut T {
        // Release: partner is the Acquire in `load`. Acquire: the old value is initialized, as its new owner may change it;
        // partner is the Release here, of the writer who published it.
        self.0.swap(new, AcqRel)
    }

    /// Publishes `new` if `seen` is published still. False if not.
    pub fn compare_exchange(&self, seen: *mut T, new: *mut T) -> bool {
        // Release, Acquire: as in `swap`. Relaxed: after a failure the caller loads again.
        self.0.compare_exchange(seen, new, AcqRel, Relaxed).is_ok()
    }

    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> *mut T {
        *self.0.get_mut()
    }
}
