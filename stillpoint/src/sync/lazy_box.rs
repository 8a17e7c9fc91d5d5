//! A value on the heap that its first use makes.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use std::alloc::handle_alloc_error;

use super::try_box;

/// See the [module](self).
#[derive(Debug)]
pub struct LazyBox<T>(AtomicPtr<T>, PhantomData<T>);

impl<T> LazyBox<T> {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    /// Returns the value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: sees the value; pairs with the Release in `make_slow`.
        // SAFETY: set once, and freed by the destructor.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Returns the value, which `make` makes if there is none. It is made without a lock: of threads that race, all
    /// but one drop theirs.
    #[inline]
    pub fn get_or_make(&self, make: fn() -> T) -> &T {
        match self.get().or_else(|| self.make_slow(make)) {
            Some(value) => value,
            None => handle_alloc_error(Layout::new::<T>()),
        }
    }

    /// [`get_or_make`](Self::get_or_make), or `None` if there is no memory.
    #[cold]
    #[inline(never)]
    pub fn make_slow(&self, make: fn() -> T) -> Option<&T> {
        let fresh = Box::into_raw(try_box(make()).ok()?);
        // Release: publishes the value; pairs with the Acquire in `get`. Acquire: the value of a faster thread.
        match self.0.compare_exchange(ptr::null_mut(), fresh, Release, Acquire) {
            // SAFETY: as in `get`.
            Ok(_) => Some(unsafe { &*fresh }),
            Err(faster) => {
                // SAFETY: no other thread has it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as in `get`.
                Some(unsafe { &*faster })
            }
        }
    }
}

impl<T> Drop for LazyBox<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: made by a box, and no thread has a reference.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}
