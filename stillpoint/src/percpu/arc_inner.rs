//! The block that an [`ArcOwner`](super::ArcOwner) and its [`Arc`](super::Arc)s share: the count, and the value.
//!
//! # Invariant
//!
//! The block is there while the count is not zero. Then it belongs to the [`IntoInner`](super::IntoInner) that the
//! count keeps the value for, or else to the thread that finds zero.

use core::ptr::NonNull;

use super::count::{Count, FoundZero};
use super::zero;

/// See the [module](self).
#[repr(C)]
pub struct Inner<T> {
    /// First: its address is that of the block.
    count: Count,
    pub value: T,
}

impl<T> Inner<T> {
    /// Moves a value to the heap, with the initial reference.
    pub fn new(value: T) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self { count: Count::new(), value })))
    }
}

/// Returns the count of a block. No reference to the block as a whole, as the thread that finds zero takes the value.
///
/// # Safety
///
/// The block is there for as long as the result.
#[inline(always)]
pub unsafe fn count<'a, T>(inner: NonNull<Inner<T>>) -> &'a Count {
    // SAFETY: the caller's contract.
    unsafe { &(*inner.as_ptr()).count }
}

/// Does what follows zero.
///
/// # Safety
///
/// The caller has found zero.
#[cold]
#[inline(never)]
pub unsafe fn found<T>(zero: FoundZero, inner: NonNull<Inner<T>>) {
    if zero.is_kept {
        // The block may be gone: only the address of the count is used.
        zero::found(zero, inner.as_ptr().cast_const().cast());
    } else {
        // SAFETY: the block belongs to this thread.
        drop(unsafe { own(inner) });
    }
}

/// Takes back the block, with the value. Where it is dropped the value is, too.
///
/// # Safety
///
/// The block belongs to the caller.
pub unsafe fn own<T>(inner: NonNull<Inner<T>>) -> Box<Inner<T>> {
    // SAFETY: made by a box; the caller's contract.
    unsafe { Box::from_raw(inner.as_ptr()) }
}
