//! Pointers of one word for data structures that link nodes.

use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

use super::exchange_error::CompareExchangeError;
use super::guard::Global;
use super::published_ptr::PublishedPtr;
use crate::Domain;
use crate::pointer::owned::Owned;
use crate::pointer::shared::{Pointer, Shared};
use crate::sync::const_unless_loom;

/// A pointer that threads load and change at the same time: to a node, or null, with a [tag](Shared::tag).
///
/// For lists, maps and queues that link and unlink nodes. To publish one value, [`Rcu`](super::Rcu) is simpler. The
/// types are those of crossbeam-epoch, without the choice of orderings: every load acquires, and every change
/// publishes. So a node that was loaded in a section can be used safely until the section ends. Only freeing it is
/// `unsafe` ([`retire_shared`](Domain::retire_shared)).
///
/// An `Atomic` does not own its node: dropping it drops nothing.
///
/// A stack, after R. K. Treiber, *Systems programming: coping with parallelism* (1986):
///
/// ```
/// use std::mem;
/// use stillpoint::Domain as _;
/// use stillpoint::rcu::{self, Atomic, DeferOptions, Owned};
///
/// /// A stack that many threads use.
/// pub struct Stack<T> {
///     head: Atomic<Node<T>>,
/// }
///
/// struct Node<T> {
///     value: T,
///     next: Atomic<Node<T>>,
/// }
///
/// impl<T: Clone + Send + Sync + 'static> Stack<T> {
///     pub fn push(&self, value: T) {
///         let guard = rcu::enter();
///         let mut node = Owned::new(Node { value, next: Atomic::null() });
///         let mut head = self.head.load(&guard);
///         loop {
///             node.next.store(head);
///             match self.head.compare_exchange(head, node, &guard) {
///                 Ok(_) => return,
///                 Err(error) => (head, node) = (error.current, error.new),
///             }
///         }
///     }
///
///     pub fn pop(&self) -> Option<T> {
///         let guard = rcu::enter();
///         let mut head = self.head.load(&guard);
///         loop {
///             let node = head.as_ref()?;
///             match self.head.compare_exchange(head, node.next.load(&guard), &guard) {
///                 Ok(_) => {
///                     let value = node.value.clone();
///                     // SAFETY: the node is no longer in the stack, and does not return to it.
///                     unsafe { rcu::Global.retire_shared(head, DeferOptions::new()) };
///                     return Some(value);
///                 }
///                 Err(error) => head = error.current,
///             }
///         }
///     }
/// }
///
/// impl<T> Drop for Stack<T> {
///     fn drop(&mut self) {
///         let mut next = mem::take(&mut self.head);
///         // SAFETY: no other thread has the stack, and each node is in it once.
///         while let Some(node) = unsafe { next.take() } {
///             next = node.into_box().next;
///         }
///     }
/// }
///
/// static STACK: Stack<String> = Stack { head: Atomic::null() };
/// STACK.push("a".into());
/// STACK.push("b".into());
/// assert_eq!([STACK.pop(), STACK.pop(), STACK.pop()], [Some("b".into()), Some("a".into()), None]);
/// ```
///
/// The section must be one of the domain `D`. For domains that are types, the compiler checks that:
///
/// ```compile_fail,E0308
/// use stillpoint::rcu::{self, Atomic};
///
/// stillpoint::domain! { struct Here; }
///
/// let first: Atomic<u64, Here> = Atomic::null();
/// first.load(&rcu::enter());
/// ```
///
/// An [`srcu::Domain`](crate::srcu::Domain) is a value, and not part of the pointer. Loading in a section of another
/// such domain is safe only because [`retire_shared`](Domain::retire_shared) names the domain. A structure that takes
/// sections from its callers refuses those of another domain by [`check_section`](Domain::check_section).
#[doc(alias("epoch", "crossbeam"))]
pub struct Atomic<T, D: Domain = Global> {
    pointer: PublishedPtr<()>,
    _pointee: PhantomData<*mut T>,
    _domain: PhantomData<fn() -> D>,
}

// SAFETY: lends `&T` to several threads (`T: Sync`), and passes nodes from one thread to another (`T: Send`).
unsafe impl<T: Send + Sync, D: Domain> Send for Atomic<T, D> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, D: Domain> Sync for Atomic<T, D> {}

impl<T, D: Domain> Atomic<T, D> {
    const_unless_loom! {
        /// Creates a null pointer.
        pub fn null() -> Self {
            Self::from_word(ptr::null_mut())
        }
    }

    /// Creates a pointer to `new`, an [`Owned`] or a [`Shared`].
    pub fn new(new: impl Pointer<T>) -> Self {
        Self::from_word(new.into_word())
    }

    const_unless_loom! {
        fn from_word(word: *mut ()) -> Self {
            Self { pointer: PublishedPtr::new(word), _pointee: PhantomData, _domain: PhantomData }
        }
    }

    /// Loads the pointer. Its node can be used until the section ends.
    #[inline]
    pub fn load<'g>(&self, _section: &'g D::Section) -> Shared<'g, T> {
        Shared::from_word(self.pointer.load())
    }

    /// Loads the pointer outside of any section.
    ///
    /// # Safety
    ///
    /// During `'a`, the result is only compared and stored, unless something else keeps its node: a hazard pointer,
    /// or that no other thread uses the structure.
    #[inline]
    pub unsafe fn load_unprotected<'a>(&self) -> Shared<'a, T> {
        Shared::from_word(self.pointer.load())
    }

    /// The pointer, for hazard pointers.
    #[inline(always)]
    pub(crate) fn published(&self) -> &PublishedPtr<()> {
        &self.pointer
    }

    /// Stores `new` if the pointer is `current`, tag included, and returns the pointer that it replaced. Needs no
    /// section: what keeps `current` still does.
    ///
    /// # Errors
    ///
    /// If the pointer is another one. Gives `new` back.
    ///
    /// ```
    /// use stillpoint::rcu::{Atomic, Owned, Shared};
    ///
    /// let first: Atomic<u64> = Atomic::null();
    /// assert!(first.try_store(Shared::null(), Owned::new(1)).is_ok());
    /// let refused = first.try_store(Shared::null(), Owned::new(2)).unwrap_err();
    /// assert_eq!(*refused, 2);
    /// # let mut first = first;
    /// # // SAFETY: no other thread has the node.
    /// # drop(unsafe { first.take() });
    /// ```
    #[inline]
    pub fn try_store<'c, P: Pointer<T>>(&self, current: Shared<'c, T>, new: P) -> Result<Shared<'c, T>, P> {
        let new = new.into_word();
        // SAFETY: `new` comes from a `P`, and was not stored.
        self.pointer
            .compare_exchange(current.into_word(), new)
            .map(|_| current)
            .map_err(|_| unsafe { P::from_word(new) })
    }

    /// Stores `new`. The previous pointer is forgotten: its node leaks, unless another pointer leads to it.
    #[inline]
    pub fn store(&self, new: impl Pointer<T>) {
        self.pointer.store(new.into_word());
    }

    /// Stores `new` and returns the previous pointer.
    #[inline]
    pub fn swap<'g>(&self, new: impl Pointer<T>, _section: &'g D::Section) -> Shared<'g, T> {
        Shared::from_word(self.pointer.swap(new.into_word()))
    }

    /// Stores `new` if the pointer is `current`, tag included, and returns the pointer that was stored.
    ///
    /// # Errors
    ///
    /// If the pointer is another one. The error contains it, and gives `new` back.
    #[inline]
    pub fn compare_exchange<'g, P: Pointer<T>>(
        &self,
        current: Shared<'_, T>,
        new: P,
        _section: &'g D::Section,
    ) -> Result<Shared<'g, T>, CompareExchangeError<Shared<'g, T>, P>> {
        let new = new.into_word();
        match self.pointer.compare_exchange(current.into_word(), new) {
            Ok(_) => Ok(Shared::from_word(new)),
            Err(current) => {
                // SAFETY: `new` comes from a `P`, and was not stored.
                let new = unsafe { P::from_word(new) };
                Err(CompareExchangeError { current: Shared::from_word(current), new })
            }
        }
    }

    /// Sets the bits of `tag` in the pointer's tag, and returns the previous pointer.
    #[inline]
    pub fn fetch_or<'g>(&self, tag: usize, _section: &'g D::Section) -> Shared<'g, T> {
        Shared::from_word(self.pointer.fetch_or(tag & Shared::<T>::TAG))
    }

    /// Clears the bits of the pointer's tag that `tag` does not have, and returns the previous pointer.
    #[inline]
    pub fn fetch_and<'g>(&self, tag: usize, _section: &'g D::Section) -> Shared<'g, T> {
        Shared::from_word(self.pointer.fetch_and(tag | !Shared::<T>::TAG))
    }

    /// Returns the pointer, which no other thread changes while it is borrowed.
    pub fn get_mut(&mut self) -> Shared<'_, T> {
        Shared::from_word(self.pointer.get_mut())
    }

    /// Takes the node and leaves a null pointer. Returns `None` if the pointer is null.
    ///
    /// For destructors of data structures, which no other thread uses.
    ///
    /// # Safety
    ///
    /// No other thread or pointer uses the node, now or later.
    pub unsafe fn take(&mut self) -> Option<Owned<T>> {
        let mut taken = mem::take(self);
        let node = taken.get_mut();
        // SAFETY: the caller's contract.
        (!node.is_null()).then(|| unsafe { node.into_owned() })
    }
}

impl<T, D: Domain> Default for Atomic<T, D> {
    /// Returns a null pointer.
    fn default() -> Self {
        Self::null()
    }
}

impl<T, D: Domain> fmt::Debug for Atomic<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Atomic").field(&Shared::<T>::from_word(self.pointer.load())).finish()
    }
}
