//! Pointers that a read-side critical section protects, and what [`Shared`] and [`Owned`](super::owned::Owned) have
//! in common.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

/// A pointer that is valid during a read-side critical section: to a node or null, with a tag.
///
/// The bits of a pointer below the alignment of its type are always zero, so they have room for a
/// number, the *tag*: to mark a node as deleted, for example. Two pointers are equal if their addresses and their
/// tags are.
///
/// ```
/// use stillpoint::rcu::{self, Atomic, Owned};
///
/// let next: Atomic<u64> = Atomic::new(Owned::new(7));
/// let guard = rcu::enter();
/// next.fetch_or(1, &guard);
/// let marked = next.load(&guard);
/// assert_eq!((marked.tag(), marked.as_ref()), (1, Some(&7)));
/// # // SAFETY: no other pointer has the node.
/// # drop(unsafe { marked.into_owned() });
/// ```
///
/// It cannot outlive its section:
///
/// ```compile_fail,E0505
/// use stillpoint::rcu::{self, Atomic, Owned};
///
/// let first: Atomic<u64> = Atomic::new(Owned::new(7));
/// let guard = rcu::enter();
/// let node = first.load(&guard);
/// drop(guard);
/// assert_eq!(node.as_ref(), Some(&7));
/// ```
pub struct Shared<'g, T> {
    pointer: *mut (),
    _guard: PhantomData<(&'g (), *const T)>,
}

impl<'g, T> Shared<'g, T> {
    /// The bits of the tag.
    pub(crate) const TAG: usize = align_of::<T>() - 1;

    /// Returns a null pointer without a tag.
    pub const fn null() -> Self {
        Self::from_word(ptr::null_mut())
    }

    /// `word` comes from [`into_word`](Pointer::into_word), and its node exists during `'g`.
    #[inline(always)]
    pub(crate) const fn from_word(word: *mut ()) -> Self {
        Self { pointer: word, _guard: PhantomData }
    }

    /// Returns `true` if the pointer is null, whatever its tag.
    #[inline]
    pub fn is_null(self) -> bool {
        self.node().is_none()
    }

    /// Returns the tag.
    #[inline]
    pub fn tag(self) -> usize {
        self.pointer.addr() & Self::TAG
    }

    /// Returns the pointer with another tag. Bits of `tag` that there is no room for are ignored.
    #[inline]
    #[must_use]
    pub fn with_tag(self, tag: usize) -> Self {
        Self::from_word(self.pointer.map_addr(|address| address & !Self::TAG | tag & Self::TAG))
    }

    /// Returns the node, or `None` if the pointer is null.
    #[inline]
    pub fn as_ref(self) -> Option<&'g T> {
        #[cfg(loom)]
        super::nodes::read(self.as_ptr());
        // SAFETY: the node was loaded in a section that is open, or from an `Atomic` that is borrowed, for `'g`. It
        // is freed by `unsafe` functions only, whose callers promise that neither is the case.
        self.node().map(|node| unsafe { node.as_ref() })
    }

    /// Returns the node as a pointer, or `None` if the pointer is null.
    #[inline(always)]
    pub(crate) fn node(self) -> Option<NonNull<T>> {
        NonNull::new(self.with_tag(0).pointer.cast())
    }

    /// Returns the address of the node, without the tag.
    #[inline]
    pub fn as_ptr(self) -> *const T {
        self.with_tag(0).pointer.cast()
    }

    /// Returns a pointer to the node at `pointer`, without a tag.
    ///
    /// # Safety
    ///
    /// `pointer` is null, or comes from [`as_ptr`](Self::as_ptr) or [`Box::into_raw`] and the node exists during the
    /// lifetime of the result.
    #[inline]
    pub unsafe fn from_ptr(pointer: *const T) -> Self {
        Self::from_word(pointer.cast_mut().cast())
    }
}

impl<T> Clone for Shared<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<T> Default for Shared<'_, T> {
    /// Returns a null pointer.
    fn default() -> Self {
        Self::null()
    }
}

impl<T> PartialEq for Shared<'_, T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<T> Eq for Shared<'_, T> {}

impl<T> fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("address", &self.with_tag(0).pointer)
            .field("tag", &self.tag())
            .finish()
    }
}

/// [`Owned`](crate::rcu::Owned) or [`Shared`]: what an [`Atomic`](crate::rcu::Atomic) can store.
pub trait Pointer<T>: Sized {
    /// Returns the address with the tag.
    fn into_word(self) -> *mut ();

    /// # Safety
    ///
    /// `word` comes from `into_word` of the same type, and is not used again.
    unsafe fn from_word(word: *mut ()) -> Self;
}

impl<T> Pointer<T> for Shared<'_, T> {
    #[inline(always)]
    fn into_word(self) -> *mut () {
        self.pointer
    }

    #[inline(always)]
    unsafe fn from_word(word: *mut ()) -> Self {
        Self::from_word(word)
    }
}
