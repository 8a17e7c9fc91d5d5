//! Pointers that own their node.

use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::shared::{Pointer, Shared};

/// A node that no other thread has, or has yet: a `Box` of one word, with a [tag](Shared::tag).
///
/// ```
/// use stillpoint::rcu::{Atomic, Owned};
///
/// let mut name = Owned::new(String::from("eth0"));
/// name.make_ascii_uppercase();
/// let mut first = Atomic::<String>::new(name.with_tag(1));
/// assert_eq!(first.get_mut().as_ref().unwrap(), "ETH0");
/// // SAFETY: no other pointer has the node.
/// let name = unsafe { first.take() }.expect("not null");
/// assert_eq!((name.as_str(), name.tag()), ("ETH0", 1));
/// ```
pub struct Owned<T> {
    /// The address, which is not null, with the tag.
    pointer: NonNull<()>,
    _owns: PhantomData<Box<T>>,
}

// SAFETY: owns its value, as a `Box` does.
unsafe impl<T: Send> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// Allocates `value`.
    #[inline]
    pub fn new(value: T) -> Self {
        Self::from(Box::new(value))
    }

    /// Returns the value in its box. The tag is lost.
    #[inline]
    pub fn into_box(self) -> Box<T> {
        let node = ManuallyDrop::new(self).node();
        // SAFETY: the destructor of `self` does not run.
        unsafe { in_box(node) }
    }

    /// Returns the tag: see [`Shared::tag`].
    #[inline]
    pub fn tag(&self) -> usize {
        self.as_shared().tag()
    }

    /// Returns the pointer with another tag: see [`Shared::with_tag`].
    #[inline]
    #[must_use]
    pub fn with_tag(self, tag: usize) -> Self {
        let word = Pointer::into_word(self.as_shared().with_tag(tag));
        mem::forget(self);
        // SAFETY: the word of `self`, which is forgotten, but for the tag.
        unsafe { Pointer::from_word(word) }
    }

    #[inline(always)]
    fn as_shared(&self) -> Shared<'_, T> {
        Shared::from_word(self.pointer.as_ptr())
    }

    #[inline(always)]
    fn node(&self) -> NonNull<T> {
        // SAFETY: the address is not null.
        unsafe { self.as_shared().node().unwrap_unchecked() }
    }
}

/// Returns the box of a node.
///
/// # Safety
///
/// The node is an `Owned`'s, which is not used again.
#[inline(always)]
unsafe fn in_box<T>(node: NonNull<T>) -> Box<T> {
    // SAFETY: the caller's contract; nodes are in boxes.
    #[cfg(not(loom))]
    return unsafe { Box::from_raw(node.as_ptr()) };
    // SAFETY: the caller's contract.
    #[cfg(loom)]
    return unsafe { super::nodes::end(node) };
}

impl<T> Shared<'_, T> {
    /// Takes the node.
    ///
    /// # Panics
    ///
    /// If the pointer is null.
    ///
    /// # Safety
    ///
    /// No other thread or pointer uses the node, now or later.
    #[inline]
    #[track_caller]
    pub unsafe fn into_owned(self) -> Owned<T> {
        assert!(!self.is_null(), "into_owned() of a null pointer");
        // SAFETY: the caller's contract.
        unsafe { Pointer::from_word(Pointer::into_word(self)) }
    }
}

impl<T> Drop for Owned<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the node is this pointer's alone.
        drop(unsafe { in_box(self.node()) });
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the node is this pointer's alone, which is borrowed.
        unsafe { self.node().as_ref() }
    }
}

impl<T> DerefMut for Owned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, exclusively.
        unsafe { self.node().as_mut() }
    }
}

impl<T> From<Box<T>> for Owned<T> {
    #[inline]
    fn from(value: Box<T>) -> Self {
        #[cfg(loom)]
        super::nodes::begin(&*value);
        Self { pointer: NonNull::from(Box::leak(value)).cast(), _owns: PhantomData }
    }
}

impl<T> Pointer<T> for Owned<T> {
    #[inline(always)]
    fn into_word(self) -> *mut () {
        ManuallyDrop::new(self).pointer.as_ptr()
    }

    #[inline(always)]
    unsafe fn from_word(word: *mut ()) -> Self {
        // SAFETY: `into_word` returns no null pointer.
        Self { pointer: unsafe { NonNull::new_unchecked(word) }, _owns: PhantomData }
    }
}

impl<T: fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("value", &&**self).field("tag", &self.tag()).finish()
    }
}
