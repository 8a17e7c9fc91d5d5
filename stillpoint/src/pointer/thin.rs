//! A pointer of one word to a value from a `Box`, which may be unsized.

use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr::NonNull;

/// A raw pointer to a value from a `Box<T>`.
///
/// The word is the box's pointer, if that has one word. Otherwise it points to another box, which holds the pointer.
pub struct ThinPtr<T: ?Sized> {
    word: NonNull<()>,
    _value: PhantomData<*mut T>,
}

impl<T: ?Sized> Clone for ThinPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for ThinPtr<T> {}

impl<T: ?Sized> fmt::Debug for ThinPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.word, f)
    }
}

impl<T: ?Sized> ThinPtr<T> {
    const IS_BOX: bool = size_of::<*mut T>() == size_of::<*mut ()>();

    pub fn new(value: Box<T>) -> Self {
        let value = Box::into_raw(value);
        let word = if Self::IS_BOX { value.cast() } else { Box::into_raw(Box::new(value)).cast() };
        // SAFETY: from a box.
        Self::from_word(unsafe { NonNull::new_unchecked(word) })
    }

    /// The pointer whose [`word`](Self::word) this is.
    #[inline(always)]
    pub fn from_word(word: NonNull<()>) -> Self {
        Self { word, _value: PhantomData }
    }

    #[inline(always)]
    pub fn word(self) -> NonNull<()> {
        self.word
    }

    /// Returns the pointer to the value.
    ///
    /// # Safety
    ///
    /// The value has not been freed, and its initialization happened before.
    #[inline(always)]
    pub unsafe fn as_ptr(self) -> *mut T {
        if Self::IS_BOX {
            // SAFETY: the word is such a pointer, which has the same size.
            unsafe { mem::transmute_copy(&self.word) }
        } else {
            // SAFETY: the word points to a box with such a pointer, which is freed with the value.
            unsafe { self.word.cast::<*mut T>().read() }
        }
    }

    /// Returns the bytes of the value and of the box with its pointer.
    ///
    /// # Safety
    ///
    /// As for [`as_ptr`](Self::as_ptr), and the value is not borrowed mutably.
    #[inline]
    pub unsafe fn bytes(self) -> usize {
        // SAFETY: the caller's contract.
        let value = unsafe { size_of_val(&*self.as_ptr()) };
        value + if Self::IS_BOX { 0 } else { size_of::<*mut T>() }
    }

    /// Returns the box.
    ///
    /// # Safety
    ///
    /// As for [`as_ptr`](Self::as_ptr). No copy of the pointer is used afterwards, and no reference to the value.
    #[inline]
    pub unsafe fn into_box(self) -> Box<T> {
        // SAFETY: the caller's contract; both pointers come from boxes.
        unsafe {
            let value = self.as_ptr();
            if !Self::IS_BOX {
                drop(Box::from_raw(self.word.cast::<*mut T>().as_ptr()));
            }
            Box::from_raw(value)
        }
    }
}
