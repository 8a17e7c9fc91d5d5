//! What the types of pointers share: words with tags.

use std::fmt;
use std::ptr;

use crate::pointable::Pointable;

/// [`Owned`](crate::Owned) or [`Shared`](crate::Shared): what an [`Atomic`](crate::Atomic) can store.
pub trait Pointer<T: ?Sized + Pointable> {
    /// Returns the address with the tag.
    fn into_usize(self) -> usize;

    /// Returns the pointer.
    ///
    /// # Safety
    ///
    /// `data` comes from [`into_usize`](Self::into_usize) of the same type, and is not used again.
    unsafe fn from_usize(data: usize) -> Self;
}

/// Returns the bits of an address that a tag may use.
#[inline(always)]
pub(crate) const fn tag_mask<T: ?Sized + Pointable>() -> usize {
    T::ALIGN - 1
}

#[inline(always)]
pub(crate) fn with_tag<T: ?Sized + Pointable>(data: usize, tag: usize) -> usize {
    data & !tag_mask::<T>() | tag & tag_mask::<T>()
}

/// Returns the address of `raw` if it is aligned.
///
/// # Panics
///
/// If it is not.
#[inline]
#[track_caller]
pub(crate) fn aligned<T>(raw: *const T) -> usize {
    assert!(raw.is_aligned(), "the pointer is not aligned");
    raw.expose_provenance()
}

/// Formats a pointer as the type `name`.
pub(crate) fn format<T: ?Sized + Pointable>(
    name: &str,
    data: usize,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (raw, tag) = (ptr::without_provenance::<()>(with_tag::<T>(data, 0)), data & tag_mask::<T>());
    f.debug_struct(name).field("raw", &raw).field("tag", &tag).finish()
}
