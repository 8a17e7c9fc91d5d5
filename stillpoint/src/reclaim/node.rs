//! Nodes of data structures, for callbacks that free them.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::callback::Word;
use crate::tagged::pointable::Pointable;

/// Pointers from [`T::init`](Pointable::init).
#[derive(Debug)]
pub struct Node<T: ?Sized>(PhantomData<T>);

// SAFETY: the contract of `Pointable`.
unsafe impl<T: ?Sized + Pointable> Word for Node<T> {
    type Value = T;
    const NEEDS_DROP: bool = T::NEEDS_DROP;

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
