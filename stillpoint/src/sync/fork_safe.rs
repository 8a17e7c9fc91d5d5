//! State of threads that the child of a `fork` does not have.
//!
//! The child has a copy of all memory, but only the thread that forked. Locks that other threads held stay locked in it,
//! and what they guard may be half changed. Such state is neither used nor dropped there, but written over.

use core::cell::UnsafeCell;

/// A value that the child of a fork replaces.
#[derive(Debug)]
pub struct ForkSafe<T>(UnsafeCell<T>);

// SAFETY: lends `&T` to several threads (`T: Sync`), and replaces the value from whichever thread forked (`T: Send`).
unsafe impl<T: Send + Sync> Sync for ForkSafe<T> {}

impl<T> ForkSafe<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[inline(always)]
    pub fn get(&self) -> &T {
        // SAFETY: the value changes in `overwrite` only, whose caller vouches that nobody uses this reference then.
        unsafe { &*self.0.get() }
    }

    /// Replaces the value without a look at the old one, which is not dropped.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and uses no reference from an earlier
    /// [`get`](Self::get) again.
    pub unsafe fn overwrite(&self, value: T) {
        // SAFETY: the caller's contract; the place is as good as uninitialized.
        unsafe { self.0.get().write(value) };
    }
}
