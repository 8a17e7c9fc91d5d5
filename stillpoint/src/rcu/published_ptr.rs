//! The pointer that readers load and writers replace, with its orderings. [`super::Rcu`] owns what it points to,
//! [`super::Atomic`] does not.

use crate::sync::{AtomicPtr, Ordering::*, const_unless_loom};

/// A pointer to a published value. Every load acquires what was published, and every change publishes.
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
        // Acquire: the value is initialized; pairs with the Release of each function below.
        self.0.load(Acquire)
    }

    #[inline(always)]
    pub fn store(&self, new: *mut T) {
        // Release: publishes the value; pairs with the Acquire of each other function.
        self.0.store(new, Release);
    }

    /// Publishes `new`, and returns the previous pointer.
    #[inline]
    pub fn swap(&self, new: *mut T) -> *mut T {
        // Release: publishes the value; pairs with the Acquire in `load`. Acquire: the caller may change the old
        // value; pairs with the Release here, by the writer that published it.
        self.0.swap(new, AcqRel)
    }

    /// Publishes `new` if the pointer is `seen`, which it returns then. Returns the pointer as an error if not.
    #[inline]
    pub fn compare_exchange(&self, seen: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        // Release: as in `swap`. Acquire: the caller sees what the writer of `seen` did before, also if `seen` was
        // stored again after the caller loaded it. Acquire of a failure: as in `load`.
        self.0.compare_exchange(seen, new, AcqRel, Acquire)
    }

    /// [`compare_exchange`](Self::compare_exchange) that may return `seen` as an error, too.
    #[inline]
    pub fn compare_exchange_weak(&self, seen: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        // As in `compare_exchange`.
        self.0.compare_exchange_weak(seen, new, AcqRel, Acquire)
    }

    /// Sets `bits` of the address, and returns the previous pointer.
    #[inline]
    pub fn fetch_or(&self, bits: usize) -> *mut T {
        // Release: publishes what the caller did before it set the bits; pairs with the Acquire in `load`. Acquire:
        // as in `load`.
        self.change(|address| address | bits)
    }

    /// Clears the bits of the address that are not in `bits`, and returns the previous pointer.
    #[inline]
    pub fn fetch_and(&self, bits: usize) -> *mut T {
        // As in `fetch_or`.
        self.change(|address| address & bits)
    }

    /// Changes the address by `f`, and returns the previous pointer. `AtomicPtr::fetch_or` is of Rust 1.91; a
    /// processor without an instruction that returns the old value repeats a compare-exchange for it as well.
    #[inline]
    fn change(&self, f: impl Fn(usize) -> usize) -> *mut T {
        // A model that begins with a load misses that another thread's load may come later.
        let mut seen = if cfg!(loom) { core::ptr::null_mut() } else { self.load() };
        while let Err(now) = self.compare_exchange_weak(seen, seen.map_addr(&f)) {
            seen = now;
        }
        seen
    }

    pub fn get_mut(&mut self) -> *mut T {
        *self.0.get_mut()
    }
}
