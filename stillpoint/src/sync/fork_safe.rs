//! State that the child of a `fork` replaces.
//!
//! The child has a copy of all memory, but only the thread that forked. A lock that another thread held stays locked
//! there, and what it guards may be half changed. The child neither uses nor drops such state, but overwrites it.

use core::cell::UnsafeCell;

/// A value that the child of a `fork` overwrites.
#[derive(Debug)]
pub struct ForkSafe<T>(UnsafeCell<T>);

// SAFETY: lends `&T` to several threads (`T: Sync`), and replaces the value from whichever thread forked (`T: Send`).
unsafe impl<T: Send + Sync> Sync for ForkSafe<T> {}

impl<T> ForkSafe<T> {
    /// Creates it.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> &T {
        // SAFETY: the value changes in `overwrite` only, whose caller guarantees that this reference is not used
        // again.
        unsafe { &*self.0.get() }
    }

    /// Replaces the value. The old one is not dropped.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and does not use references from an
    /// earlier [`get`](Self::get) again.
    pub unsafe fn overwrite(&self, value: T) {
        // SAFETY: the caller's contract.
        unsafe { self.0.get().write(value) };
    }
}
