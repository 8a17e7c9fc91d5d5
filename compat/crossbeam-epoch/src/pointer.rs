//! What the types of pointers share: words with tags.

use std::fmt;
use std::ptr;

use crate::pointable::Pointable;

/// [`Owned`](crate::Owned) or [`Shared`](crate::Shared): what an [`Atomic`](crate::Atomic) can store.
///
/// The functions with addresses are those of crossbeam-epoch. They expose the provenance of the pointer. This crate
/// uses the hidden ones, which have implementations by the others.
pub trait Pointer<T: ?Sized + Pointable> {
    /// Returns the address with the tag.
    fn into_usize(self) -> usize;

    /// Returns the pointer.
    ///
    /// # Safety
    ///
    /// `data` comes from [`into_usize`](Self::into_usize) of the same type, and is not used again.
    unsafe fn from_usize(data: usize) -> Self;

    /// [`into_usize`](Self::into_usize).
    #[doc(hidden)]
    #[inline]
    fn into_pointer(self) -> *mut ()
    where
        Self: Sized,
    {
        ptr::with_exposed_provenance_mut(self.into_usize())
    }

    /// [`from_usize`](Self::from_usize).
    ///
    /// # Safety
    ///
    /// As there.
    #[doc(hidden)]
    #[inline]
    unsafe fn from_pointer(pointer: *mut ()) -> Self
    where
        Self: Sized,
    {
        // SAFETY: the caller's contract.
        unsafe { Self::from_usize(pointer.expose_provenance()) }
    }
}

/// Returns the bits of an address that a tag may use.
#[inline(always)]
pub(crate) const fn tag_mask<T: ?Sized + Pointable>() -> usize {
    T::ALIGN - 1
}

#[inline(always)]
pub(crate) fn with_tag<T: ?Sized + Pointable>(pointer: *mut (), tag: usize) -> *mut () {
    pointer.map_addr(|address| address & !tag_mask::<T>() | tag & tag_mask::<T>())
}

/// Returns `raw` if it is aligned.
///
/// # Panics
///
/// If it is not.
#[inline]
#[track_caller]
pub(crate) fn aligned<T>(raw: *const T) -> *mut () {
    assert!(raw.is_aligned(), "the pointer is not aligned");
    raw.cast_mut().cast()
}

/// Formats a pointer as the type `name`.
pub(crate) fn format<T: ?Sized + Pointable>(
    name: &str,
    pointer: *mut (),
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (raw, tag) = (with_tag::<T>(pointer, 0), pointer.addr() & tag_mask::<T>());
    f.debug_struct(name).field("raw", &raw).field("tag", &tag).finish()
}
