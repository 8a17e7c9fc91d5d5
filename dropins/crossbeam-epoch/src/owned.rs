//! Pointers that own their value.

use std::borrow::{Borrow, BorrowMut};
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;

use crate::guard::Guard;
use crate::pointable::Pointable;
use crate::pointer::{Pointer, aligned, format, tag_mask, with_tag};
use crate::shared::Shared;

/// A value that no other thread has, or has yet: a `Box` of one word, with a [tag](Shared::tag).
///
/// ```
/// # use crossbeam_epoch::Owned;
/// let mut name = Owned::new(String::from("a"));
/// name.push('b');
/// assert_eq!(*name.into_box(), "ab");
/// ```
pub struct Owned<T: ?Sized + Pointable> {
    /// The address, which is not 0, with the tag.
    data: usize,
    _owns: PhantomData<Box<T>>,
}

impl<T> Owned<T> {
    /// Makes an owned pointer of a raw one.
    ///
    /// # Panics
    ///
    /// If it is not aligned.
    ///
    /// # Safety
    ///
    /// `raw` comes from a `Box` or an `Owned`, and is not used otherwise.
    #[track_caller]
    pub unsafe fn from_raw(raw: *mut T) -> Self {
        Self { data: aligned(raw), _owns: PhantomData }
    }

    /// Returns the value in its box. The tag is lost.
    pub fn into_box(self) -> Box<T> {
        let pointer = ptr::with_exposed_provenance_mut(mem::ManuallyDrop::new(self).untagged());
        // SAFETY: values that have a size are in boxes, and the destructor of `self` does not run.
        unsafe { Box::from_raw(pointer) }
    }

    /// Allocates `init`.
    #[inline]
    pub fn new(init: T) -> Self {
        Self::init(init)
    }
}

impl<T: ?Sized + Pointable> Owned<T> {
    /// Allocates a value, which may be unsized: see [`Pointable`].
    #[inline]
    pub fn init(init: T::Init) -> Self {
        // SAFETY: the implementations return aligned addresses.
        Self { data: unsafe { T::init(init) }, _owns: PhantomData }
    }

    /// Makes it a pointer that can be copied. The value leaks unless that is stored, destroyed, or made
    /// [owned](Shared::into_owned) again.
    #[inline]
    pub fn into_shared<'g>(self, _: &'g Guard) -> Shared<'g, T> {
        Shared::from_data(self.into_usize())
    }

    /// Returns the tag: see [`Shared::tag`].
    pub fn tag(&self) -> usize {
        self.data & tag_mask::<T>()
    }

    /// Returns the pointer with another tag: see [`Shared::with_tag`].
    #[must_use]
    pub fn with_tag(self, tag: usize) -> Self {
        Self { data: with_tag::<T>(self.into_usize(), tag), _owns: PhantomData }
    }

    #[inline]
    fn untagged(&self) -> usize {
        with_tag::<T>(self.data, 0)
    }
}

impl<T: ?Sized + Pointable> Shared<'_, T> {
    /// Takes the value.
    ///
    /// # Panics
    ///
    /// If the pointer is null, in debug builds.
    ///
    /// # Safety
    ///
    /// The pointer is valid and not null, and no other thread or pointer uses the value, now or later.
    pub unsafe fn into_owned(self) -> Owned<T> {
        // SAFETY: the caller's contract.
        unsafe { Owned::from_usize(self.into_usize()) }
    }

    /// Takes the value. Returns `None` if the pointer is null.
    ///
    /// # Safety
    ///
    /// As for [`into_owned`](Self::into_owned), unless it is null.
    pub unsafe fn try_into_owned(self) -> Option<Owned<T>> {
        // SAFETY: the caller's contract.
        (!self.is_null()).then(|| unsafe { self.into_owned() })
    }
}

impl<T: ?Sized + Pointable> Pointer<T> for Owned<T> {
    #[inline]
    fn into_usize(self) -> usize {
        mem::ManuallyDrop::new(self).data
    }

    /// # Panics
    ///
    /// If `data` is zero, in debug builds.
    #[inline]
    unsafe fn from_usize(data: usize) -> Self {
        debug_assert!(with_tag::<T>(data, 0) != 0, "an `Owned` of a null pointer");
        Self { data, _owns: PhantomData }
    }
}

impl<T: ?Sized + Pointable> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the value is this pointer's alone.
        unsafe { T::drop(self.untagged()) };
    }
}

impl<T: ?Sized + Pointable> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is this pointer's alone, which is borrowed.
        unsafe { T::deref(self.untagged()) }
    }
}

impl<T: ?Sized + Pointable> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, exclusively.
        unsafe { T::deref_mut(self.untagged()) }
    }
}

impl<T: ?Sized + Pointable> AsRef<T> for Owned<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized + Pointable> AsMut<T> for Owned<T> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: ?Sized + Pointable> Borrow<T> for Owned<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: ?Sized + Pointable> BorrowMut<T> for Owned<T> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: Clone> Clone for Owned<T> {
    /// Allocates a clone of the value, with the same tag.
    fn clone(&self) -> Self {
        Self::new(T::clone(self)).with_tag(self.tag())
    }
}

impl<T> From<T> for Owned<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> From<Box<T>> for Owned<T> {
    fn from(value: Box<T>) -> Self {
        // SAFETY: comes from a box.
        unsafe { Self::from_raw(Box::into_raw(value)) }
    }
}

impl<T: ?Sized + Pointable> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format::<T>("Owned", self.data, f)
    }
}
