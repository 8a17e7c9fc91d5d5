//! The block that an [`ArcOwner`](super::ArcOwner) and its [`Arc`](super::Arc)s share: the count, and the value.
//!
//! # Invariants
//!
//! 1. The value is there while the count is not zero. Then it belongs to the [`IntoInner`](super::IntoInner) that the
//!    count keeps it for, or else to the thread that finds zero.
//! 2. The block is there while `weak` is not zero. That counts the [`Weak`](super::Weak)s, and 1 for all references
//!    together, which is given up with the value.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::*, fence};

use super::count::{Count, FoundZero};
use super::zero;

/// See the [module](self).
#[repr(C)]
pub struct Inner<T> {
    /// First: its address is that of the block.
    count: Count,
    weak: AtomicUsize,
    pub value: ManuallyDrop<T>,
}

impl<T> Inner<T> {
    /// Moves a value to the heap, with the initial reference.
    pub fn new(value: T) -> NonNull<Self> {
        let (weak, value) = (AtomicUsize::new(1), ManuallyDrop::new(value));
        NonNull::from(Box::leak(Box::new(Self { count: Count::new(), weak, value })))
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

/// As [`count`].
pub unsafe fn weak<'a, T>(inner: NonNull<Inner<T>>) -> &'a AtomicUsize {
    // SAFETY: the caller's contract.
    unsafe { &(*inner.as_ptr()).weak }
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
        // SAFETY: the value belongs to this thread (1).
        unsafe { dispose(inner) };
    }
}

/// Drops the value, and gives up the block, also if the destructor panics.
///
/// # Safety
///
/// The value belongs to the caller (1).
pub unsafe fn dispose<T>(inner: NonNull<Inner<T>>) {
    struct Block<T>(NonNull<Inner<T>>);
    impl<T> Drop for Block<T> {
        fn drop(&mut self) {
            // SAFETY: `weak` counts all references as one, and there is none any more.
            unsafe { release(self.0) };
        }
    }
    let block = Block(inner);
    // SAFETY: the caller's contract; dropped once. The rest of the block stays shared.
    unsafe { ManuallyDrop::drop(&mut (*block.0.as_ptr()).value) };
}

/// Takes the value, and gives up the block.
///
/// # Safety
///
/// As for [`dispose`].
pub unsafe fn take<T>(inner: NonNull<Inner<T>>) -> T {
    // SAFETY: as in `dispose`.
    unsafe {
        let value = ManuallyDrop::take(&mut (*inner.as_ptr()).value);
        release(inner);
        value
    }
}

/// Gives up what `weak` counts as one. The last one frees the block.
///
/// # Safety
///
/// The caller does not use the block any more.
pub unsafe fn release<T>(inner: NonNull<Inner<T>>) {
    // Release: the last use of the block; pairs with the Acquire below, in the thread that frees it.
    // SAFETY: the block is there (2).
    if unsafe { weak(inner) }.fetch_sub(1, Release) == 1 {
        fence(Acquire);
        // SAFETY: made by a box. The value is in a `ManuallyDrop`.
        drop(unsafe { Box::from_raw(inner.as_ptr()) });
    }
}
