//! Shared pointers whose clones are counted on each CPU.
//!
//! An [`ArcOwner`] has the initial reference of the [count](super::count), and each [`Arc`] has one. When the owner
//! is dropped, or wants the value back, it kills the count. The thread that then finds zero, the last `Arc` or the
//! owner itself, drops the value and frees the block; or, if the count keeps the value for the [`IntoInner`] of the
//! owner, it wakes that. The invariants are in [`super::arc_inner`].

use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use super::arc_inner::{Inner, count, found, own};
use super::count::{Killed, denied};
use super::into_inner::IntoInner;

/// The owner of a value that is shared by [`Arc`]s: it makes them, and may have the value back when they are gone.
///
/// Dereferences to the value. Its functions are associated ones, as those of [`std::sync::Arc`], because methods
/// would hide those of the value.
///
/// **Keep the owner for as long as clones are made often.** Dropping it, or [`into_inner`](Self::into_inner), *kills*
/// the count ([`RefCount::kill`](super::RefCount::kill)): the clones that are left, and their clones, are counted as
/// those of [`std::sync::Arc`] are, and the last one drops the value.
///
/// ```
/// use stillpoint::percpu::{Arc, ArcOwner};
///
/// let owner = ArcOwner::new(vec![1, 2, 3]);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         let state: Arc<Vec<i32>> = ArcOwner::share(&owner);
///         scope.spawn(move || {
///             for _ in 0..1000 {
///                 let request = state.clone(); // changes a word of this CPU
///                 assert_eq!(request.len(), 3);
///             }
///         });
///     }
/// });
/// // Waits until all clones are gone.
/// let value: Vec<i32> = ArcOwner::into_inner(owner).wait();
/// assert_eq!(value, [1, 2, 3]);
/// ```
///
/// # Panics
///
/// Dropping it panics if the destructor of the value does. If the kernel denies `membarrier(2)` then, although it
/// allowed it before, the value is leaked.
pub struct ArcOwner<T> {
    inner: NonNull<Inner<T>>,
    /// It may drop a value.
    value: PhantomData<T>,
}

/// A shared pointer, as [`std::sync::Arc`] is one, whose clones are counted on each CPU. An [`ArcOwner`] makes the
/// first.
///
/// Clone and drop change a word of the current CPU, until the owner is dropped or wants the value back. Those of
/// `std` change one word in all threads, whose cache line moves from CPU to CPU each time. For what is cloned and
/// dropped all the time: state that each request, task or connection holds on to.
///
/// Besides the value and some words on the heap it takes eight bytes for each CPU that the process runs on: see
/// [`RefCount`](super::RefCount#memory). There are no pointers to slices or trait objects, as Rust has no stable way
/// to convert to them; `Arc<Box<dyn Trait>>` works. There is no `strong_count` and no `get_mut`: while the owner is
/// there, no thread knows the count.
///
/// # Panics
///
/// Dropping the last one, after the owner, panics if the destructor of the value does.
pub struct Arc<T> {
    inner: NonNull<Inner<T>>,
    /// It may drop a value.
    value: PhantomData<T>,
}

impl<T> ArcOwner<T> {
    /// Moves the value to the heap.
    pub fn new(value: T) -> Self {
        Self { inner: Inner::new(value), value: PhantomData }
    }

    /// Returns a pointer to the value.
    #[inline]
    pub fn share(this: &Self) -> Arc<T> {
        // SAFETY: the owner has a reference.
        unsafe { share(this.inner) }
    }

    /// Waits for all clones to be gone, and gives the value back: [`IntoInner::wait`] blocks, and [`IntoInner`] is a
    /// future.
    ///
    /// Kills the count at once. Until all clones are gone, others can be made of them. If the result is dropped, the
    /// last clone drops the value.
    ///
    /// # Panics
    ///
    /// If the kernel denies `membarrier(2)` now, although it allowed it before. The value is leaked.
    #[track_caller]
    pub fn into_inner(this: Self) -> IntoInner<T> {
        let inner = ManuallyDrop::new(this).inner;
        // SAFETY: the initial reference is there.
        if unsafe { count(inner) }.kill(true) == Killed::Denied {
            denied();
        }
        IntoInner::new(inner)
    }
}

impl<T> Drop for ArcOwner<T> {
    fn drop(&mut self) {
        // SAFETY: the initial reference is there, which the kill puts.
        if let Killed::Zero(_) = unsafe { count(self.inner) }.kill(false) {
            // SAFETY: this thread has found zero, and the value is not kept.
            drop(unsafe { own(self.inner) });
        }
    }
}

impl<T> Arc<T> {
    /// Returns `true` if both point to the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.inner == other.inner
    }
}

impl<T> Clone for Arc<T> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: `self` is a reference.
        unsafe { share(self.inner) }
    }
}

impl<T> Drop for Arc<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` is the reference that is put.
        if let Some(zero) = unsafe { count(self.inner) }.put() {
            // SAFETY: this thread has found zero.
            unsafe { found(zero, self.inner) };
        }
    }
}

/// # Safety
///
/// There is a reference.
#[inline(always)]
unsafe fn share<T>(inner: NonNull<Inner<T>>) -> Arc<T> {
    // SAFETY: the caller's contract.
    unsafe { count(inner) }.get();
    Arc { inner, value: PhantomData }
}

/// What an owner and an `Arc` have in common.
macro_rules! pointer {
    ($name:ident) => {
        // SAFETY: lends `&T` and makes `Arc`s in any thread, and the last reference drops the value wherever it is.
        unsafe impl<T: Send + Sync> Send for $name<T> {}
        // SAFETY: as above.
        unsafe impl<T: Send + Sync> Sync for $name<T> {}
        impl<T: RefUnwindSafe> UnwindSafe for $name<T> {}
        impl<T: RefUnwindSafe> RefUnwindSafe for $name<T> {}

        impl<T> Deref for $name<T> {
            type Target = T;

            #[inline(always)]
            fn deref(&self) -> &T {
                // SAFETY: the value is there, as a reference is (1).
                unsafe { &(*self.inner.as_ptr()).value }
            }
        }

        impl<T> AsRef<T> for $name<T> {
            fn as_ref(&self) -> &T {
                self
            }
        }

        impl<T> Borrow<T> for $name<T> {
            fn borrow(&self) -> &T {
                self
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: fmt::Display> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

pointer!(ArcOwner);
pointer!(Arc);

impl<T: Default> Default for ArcOwner<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for ArcOwner<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
