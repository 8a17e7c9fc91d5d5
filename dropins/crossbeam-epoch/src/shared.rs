//! Pointers that a guard protects.

use std::cmp;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use crate::pointable::Pointable;
use crate::pointer::{Pointer, aligned, format, tag_mask, with_tag};

/// A pointer that is valid while a guard is borrowed: to a value or null, with a tag.
///
/// The bits of an address below the [alignment](Pointable::ALIGN) of its type are always zero, so they have room for
/// a number, the *tag*: to mark a node as deleted, for example. Pointers are equal, and ordered, by address and tag.
///
/// ```
/// use crossbeam_epoch::{self as epoch, Atomic};
/// use std::sync::atomic::Ordering::SeqCst;
///
/// let next = Atomic::new(7_u64);
/// let guard = &epoch::pin();
/// let before = next.fetch_or(1, SeqCst, guard);
/// let marked = next.load(SeqCst, guard);
/// assert!(before != marked && before.as_raw() == marked.as_raw());
/// # // SAFETY: no other thread has the pointer.
/// # drop(unsafe { next.into_owned() });
/// ```
pub struct Shared<'g, T: 'g + ?Sized + Pointable> {
    /// The address, with the tag.
    data: usize,
    _guard: PhantomData<(&'g (), *const T)>,
}

impl<'g, T> Shared<'g, T> {
    /// Returns the pointer without its tag.
    #[inline]
    pub fn as_raw(&self) -> *const T {
        ptr::with_exposed_provenance(self.untagged())
    }
}

impl<'g, T: ?Sized + Pointable> Shared<'g, T> {
    /// Creates a null pointer.
    pub const fn null() -> Self {
        Self::from_data(0)
    }

    #[inline(always)]
    pub(crate) const fn from_data(data: usize) -> Self {
        Self { data, _guard: PhantomData }
    }

    #[inline]
    pub(crate) fn untagged(&self) -> usize {
        with_tag::<T>(self.data, 0)
    }

    /// Returns `true` if the pointer is null, whatever its tag.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.untagged() == 0
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// The pointer is valid and not null. Its value was written before the load: the pointer was stored with Release
    /// and loaded with Acquire, for example.
    #[inline]
    pub unsafe fn deref(&self) -> &'g T {
        // SAFETY: the caller's contract.
        unsafe { T::deref(self.untagged()) }
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// As for [`deref`](Self::deref), and no thread uses the value otherwise.
    #[inline]
    pub unsafe fn deref_mut(&mut self) -> &'g mut T {
        // SAFETY: the caller's contract.
        unsafe { T::deref_mut(self.untagged()) }
    }

    /// Returns the value, or `None` if the pointer is null.
    ///
    /// # Safety
    ///
    /// As for [`deref`](Self::deref), unless it is null.
    #[inline]
    pub unsafe fn as_ref(&self) -> Option<&'g T> {
        // SAFETY: the caller's contract.
        (!self.is_null()).then(|| unsafe { self.deref() })
    }

    /// Returns the tag.
    #[inline]
    pub fn tag(&self) -> usize {
        self.data & tag_mask::<T>()
    }

    /// Returns the pointer with another tag. Bits of `tag` that there is no room for are ignored.
    #[inline]
    #[must_use]
    pub fn with_tag(&self, tag: usize) -> Self {
        Self::from_data(with_tag::<T>(self.data, tag))
    }
}

impl<T: ?Sized + Pointable> Pointer<T> for Shared<'_, T> {
    #[inline]
    fn into_usize(self) -> usize {
        self.data
    }

    #[inline]
    unsafe fn from_usize(data: usize) -> Self {
        Self::from_data(data)
    }
}

impl<T> From<*const T> for Shared<'_, T> {
    /// # Panics
    ///
    /// If the pointer is not aligned.
    #[track_caller]
    fn from(raw: *const T) -> Self {
        Self::from_data(aligned(raw))
    }
}

impl<T: ?Sized + Pointable> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized + Pointable> Copy for Shared<'_, T> {}

impl<T: ?Sized + Pointable> Default for Shared<'_, T> {
    /// A null pointer.
    fn default() -> Self {
        Self::null()
    }
}

impl<T: ?Sized + Pointable> PartialEq for Shared<'_, T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl<T: ?Sized + Pointable> Eq for Shared<'_, T> {}

impl<T: ?Sized + Pointable> PartialOrd for Shared<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: ?Sized + Pointable> Ord for Shared<'_, T> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.data.cmp(&other.data)
    }
}

impl<T: ?Sized + Pointable> fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format::<T>("Shared", self.data, f)
    }
}

impl<T: ?Sized + Pointable> fmt::Pointer for Shared<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&ptr::without_provenance::<()>(self.untagged()), f)
    }
}
