//! Kinds of pointers of one word, for callbacks that free the values behind them.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::pointable::Pointable;

/// A kind of pointers of one word.
///
/// # Safety
///
/// If `NEEDS_DROP` is `false`, `drop` does not panic and runs no code of the program.
pub unsafe trait ErasedPtr {
    /// What it points to.
    type Value: ?Sized;
    /// `false` if [`drop`](Self::drop) only frees memory.
    const NEEDS_DROP: bool;

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// `word` points to a value that is neither dropped nor borrowed mutably for `'a`.
    unsafe fn deref<'a>(word: NonNull<()>) -> &'a Self::Value;

    /// Returns the bytes of the value's own allocation.
    ///
    /// # Safety
    ///
    /// As for [`deref`](Self::deref).
    unsafe fn bytes(word: NonNull<()>) -> usize;

    /// Drops the value and frees its memory.
    ///
    /// # Safety
    ///
    /// `word` points to a value that no thread uses any more.
    unsafe fn drop(word: NonNull<()>);
}

/// Pointers from [`T::init`](Pointable::init).
#[derive(Debug)]
pub struct PointableNode<T: ?Sized>(PhantomData<T>);

// SAFETY: the contract of `Pointable`.
unsafe impl<T: ?Sized + Pointable> ErasedPtr for PointableNode<T> {
    type Value = T;
    const NEEDS_DROP: bool = T::NEEDS_DROP;

    #[inline(always)]
    unsafe fn deref<'a>(word: NonNull<()>) -> &'a T {
        // SAFETY: the caller's contract.
        unsafe { T::deref(word) }
    }

    #[inline]
    unsafe fn bytes(word: NonNull<()>) -> usize {
        // SAFETY: the caller's contract.
        size_of_val(unsafe { T::deref(word) })
    }

    #[inline]
    unsafe fn drop(word: NonNull<()>) {
        // SAFETY: the caller's contract.
        unsafe { T::drop(word) };
    }
}
