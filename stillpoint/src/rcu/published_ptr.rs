//! The pointer that readers load and writers replace, with its orderings. [`super::Rcu`] owns what it points to.

use crate::sync::{AtomicPtr, Ordering::*, const_unless_loom};

/// A pointer to a published value.
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
        // Acquire: the value is initialized; pairs with the Release in `swap` and `compare_exchange`.
        self.0.load(Acquire)
    }

    /// Publishes `new`, and returns the previous pointer.
    pub fn swap(&self, new: *mut T) -> *mut T {
        // Release: publishes the value; pairs with the Acquire in `load`. Acquire: the caller may change the old value;
        // pairs with the Release here, by the writer that published it.
        self.0.swap(new, AcqRel)
    }

    /// Publishes `new` if the pointer is `seen`, which it returns then. Returns the pointer as an error if not.
    #[inline]
    pub fn compare_exchange(&self, seen: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        // Release: as in `swap`. Acquire: the caller sees what the writer of `seen` did before, also if `seen` was
        // stored again after the caller loaded it. Acquire of a failure: as in `load`.
        self.0.compare_exchange(seen, new, AcqRel, Acquire)
    }

    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> *mut T {
        *self.0.get_mut()
    }
}
