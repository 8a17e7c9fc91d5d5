//! Hazard pointers, and what they can protect. Why a thread that frees finds each protection is argued in
//! `slots/protected.rs`; here a hazard pointer has a slot, and lends what the slot protects.

use core::fmt;

use crate::Domain;
use crate::pointer::shared::{Pointer as _, Shared};
use crate::rcu::Atomic;
#[cfg(not(loom))]
use crate::rcu::{Rcu, RcuOption};
use crate::slots::pointers;
use crate::slots::slot::Slot;

/// A hazard pointer: it protects one value at a time from being freed, or none.
///
/// Make one before a loop, and protect one value after another. A reference that it has lent borrows it, so it is
/// used again when the reference is gone. To hold two values, take two of them. A traversal of linked nodes returns
/// where it has stopped: it keeps nodes by [`Protected`].
///
/// ```
/// use stillpoint::hazard::{Global, HazardPointer};
/// use stillpoint::rcu::Rcu;
///
/// let names = [Rcu::new_in("a", Global), Rcu::new_in("b", Global)];
/// let mut pointer = HazardPointer::new();
/// for name in &names {
///     assert!(pointer.protect(name).len() == 1);
/// }
/// ```
///
/// It may be sent to another thread, which then uses it:
///
/// ```
/// use stillpoint::hazard::{Global, HazardPointer};
/// use stillpoint::rcu::RcuOption;
///
/// static NAME: RcuOption<String, Global> = RcuOption::empty_in(Global);
///
/// NAME.replace(Some("a".into()));
/// let mut pointer = HazardPointer::new();
/// let pointer = std::thread::spawn(move || {
///     assert_eq!(pointer.protect(&NAME).unwrap(), "a");
///     pointer
/// });
/// drop(pointer.join().unwrap());
/// ```
///
/// What it protects cannot be used after it protects something else:
///
/// ```compile_fail,E0499
/// use stillpoint::hazard::{Global, HazardPointer};
/// use stillpoint::rcu::{Atomic, Owned};
///
/// let [first, second] = [1, 2].map(|value| Atomic::<u64, Global>::new(Owned::new(value)));
/// let mut pointer = HazardPointer::new();
/// let one = pointer.protect(&first);
/// let two = pointer.protect(&second);
/// assert_ne!(one.as_ref(), two.as_ref());
/// ```
///
/// Only pointers of a domain with hazard pointers can be protected:
///
/// ```compile_fail,E0277
/// use stillpoint::hazard::HazardPointer;
/// use stillpoint::rcu::Rcu;
///
/// HazardPointer::new().protect(&Rcu::new(1));
/// ```
#[doc(alias("haphazard", "hazptr"))]
#[must_use = "it protects nothing yet"]
pub struct HazardPointer {
    /// No other hazard pointer has it.
    slot: &'static Slot,
}

impl HazardPointer {
    /// Makes a hazard pointer, which protects nothing.
    ///
    /// Takes a few nanoseconds, and never blocks. May allocate at the thread's first, and if it holds more than
    /// seven.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[inline]
    #[track_caller]
    pub fn new() -> Self {
        let Some(slot) = pointers::take() else { panic!("no memory for a hazard pointer") };
        Self { slot }
    }

    /// Makes several hazard pointers.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    ///
    /// ```
    /// use stillpoint::hazard::{Global, HazardPointer};
    /// use stillpoint::rcu::Rcu;
    ///
    /// let names = ["a", "b"].map(|name| Rcu::new_in(name, Global));
    /// let [mut first, mut second] = HazardPointer::array();
    /// assert_ne!(first.protect(&names[0]), second.protect(&names[1]));
    /// ```
    #[track_caller]
    pub fn array<const N: usize>() -> [Self; N] {
        [(); N].map(|()| Self::new())
    }

    /// Loads a pointer, and protects its value until the result is gone: of an [`Atomic`], an
    /// [`Rcu`](crate::rcu::Rcu) or an [`RcuOption`](crate::rcu::RcuOption).
    ///
    /// At a moment after the slot was filled, `source` still had this pointer: so the value is not freed. Takes a
    /// store and two loads, and never blocks. It repeats that only when the pointer changes between the loads.
    #[inline(always)]
    pub fn protect<'h, S: Source<'h>>(&'h mut self, source: S) -> S::Output {
        // SAFETY: the slot is of `pointers::take`, so threads look at it before they free. No other hazard pointer
        // has it, and this one is borrowed for `'h`.
        unsafe { source.protect(self.slot) }
    }

    /// Protects the node of `expected`, if `source` still is that pointer, tag included. Returns `None` if not; then
    /// this protects nothing.
    ///
    /// For a pointer that was loaded before, and for code that does something else when the pointer changes.
    ///
    /// ```
    /// use stillpoint::hazard::{Global, HazardPointer};
    /// use stillpoint::rcu::{Atomic, Owned, Shared};
    ///
    /// let first: Atomic<u64, Global> = Atomic::new(Owned::new(7));
    /// let [mut one, mut two] = HazardPointer::array();
    /// let seen = one.protect(&first);
    /// assert_eq!(two.try_protect(&first, seen).unwrap().as_ref(), Some(&7));
    /// assert!(two.try_protect(&first, Shared::null()).is_none());
    /// # let mut first = first;
    /// # // SAFETY: no other thread has the node.
    /// # drop(unsafe { first.take() });
    /// ```
    #[inline]
    pub fn try_protect<'h, T, D: Domain<Hazards = HazardPointer>>(
        &'h mut self,
        source: &Atomic<T, D>,
        expected: Shared<'_, T>,
    ) -> Option<Shared<'h, T>> {
        let load = || source.published().load();
        let protected = self.slot.try_protect(expected.into_word(), Shared::<T>::TAG, load);
        if protected.is_err() {
            self.reset();
        }
        protected.ok().map(Shared::from_word)
    }

    /// Protects a node that was loaded in a section, for longer than the section. Does not copy the protection of
    /// another hazard pointer: a thread that frees might see neither slot.
    ///
    /// Takes one store. The grace period after which the node is freed waits for the section, so whatever frees it
    /// then sees the store.
    ///
    /// # Safety
    ///
    /// `node` was loaded from an [`Atomic`] of a domain with hazard pointers, in a section *of that domain*, which is
    /// open. Or no thread retires the node before this returns.
    ///
    /// ```
    /// use stillpoint::hazard::{Global, HazardPointer};
    /// use stillpoint::rcu::{Atomic, Owned};
    ///
    /// let first: Atomic<u64, Global> = Atomic::new(Owned::new(7));
    /// let mut pointer = HazardPointer::new();
    /// let section = Global::enter();
    /// // SAFETY: loaded in this section.
    /// let node = unsafe { pointer.keep(first.load(&section)) };
    /// drop(section);
    /// assert_eq!(node.as_ref(), Some(&7));
    /// # let mut first = first;
    /// # // SAFETY: no other thread has the node.
    /// # drop(unsafe { first.take() });
    /// ```
    #[inline(always)]
    pub unsafe fn keep<'h, T>(&'h mut self, node: Shared<'_, T>) -> Shared<'h, T> {
        match node.node() {
            Some(address) => self.slot.set(address.as_ptr().cast()),
            None => self.slot.clear(),
        }
        Shared::from_word(node.into_word())
    }

    /// Protects nothing from now on.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.slot.clear();
    }
}

/// A pointer to a node, and the hazard pointer that protects it: what a traversal moves, keeps and returns.
///
/// Null at first.
///
/// ```
/// use std::mem;
/// use stillpoint::hazard::{Global, Protected};
/// use stillpoint::rcu::{Atomic, Owned};
///
/// struct Node {
///     value: u64,
///     next: Atomic<Node, Global>,
/// }
///
/// /// Returns the last node of a list from which none is removed.
/// fn last(first: &Atomic<Node, Global>) -> Protected<Node> {
///     let (mut last, mut current) = (Protected::new(), Protected::new());
///     while current.protect(last.get().as_ref().map_or(first, |node: &Node| &node.next)).as_ref().is_some() {
///         mem::swap(&mut last, &mut current);
///     }
///     last
/// }
///
/// let mut first = Atomic::new(Owned::new(Node { value: 1, next: Atomic::null() }));
/// let node = last(&first);
/// assert_eq!(node.get().as_ref().map(|node| node.value), Some(1));
/// # // SAFETY: no other thread has the node.
/// # drop(unsafe { first.take() });
/// ```
///
/// What it lends is gone when it protects another node:
///
/// ```compile_fail,E0502
/// use stillpoint::hazard::{Global, Protected};
/// use stillpoint::rcu::{Atomic, Owned};
///
/// let [first, second] = [1, 2].map(|value| Atomic::<u64, Global>::new(Owned::new(value)));
/// let mut node = Protected::new();
/// node.protect(&first);
/// let one = node.get();
/// node.protect(&second);
/// assert_eq!(one.as_ref(), Some(&1));
/// ```
pub struct Protected<T> {
    pointer: HazardPointer,
    /// What `pointer` protects, with the tag.
    node: Shared<'static, T>,
}

impl<T> Protected<T> {
    /// Makes a hazard pointer: see [`HazardPointer::new`].
    ///
    /// # Panics
    ///
    /// As [`HazardPointer::new`].
    #[track_caller]
    pub fn new() -> Self {
        Self { pointer: HazardPointer::new(), node: Shared::null() }
    }

    /// Loads a pointer, and protects its node from now on, instead of the one before: see [`HazardPointer::protect`].
    #[inline(always)]
    pub fn protect<D: Domain<Hazards = HazardPointer>>(&mut self, source: &Atomic<T, D>) -> Shared<'_, T> {
        self.node = Shared::from_word(self.pointer.protect(source).into_word());
        self.get()
    }

    /// Returns the pointer, with the tag that it was loaded with.
    #[inline(always)]
    pub fn get(&self) -> Shared<'_, T> {
        // Not longer than `self` is borrowed, and thus protects it.
        self.node
    }
}

impl<T> Default for Protected<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Protected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protected").field(&self.node).finish()
    }
}

impl Default for HazardPointer {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for HazardPointer {
    #[inline]
    fn drop(&mut self) {
        self.slot.give_back();
        // Models have a list of slots of their own. `true`: the thread has no slot left, and frees what it has
        // retired.
        #[cfg(loom)]
        if pointers::give_back(self.slot) {
            crate::rcu::reclaim();
        }
    }
}

impl fmt::Debug for HazardPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HazardPointer").field("protects", &self.slot.address()).finish()
    }
}

/// A reference to a pointer that a [`HazardPointer`] can protect.
///
/// An [`Atomic`] lends its node for as long as it is protected. An [`Rcu`] or [`RcuOption`] owns its value, so it is
/// borrowed for that time as well.
pub trait Source<'h> {
    /// What is lent for `'h`, while the slot protects it.
    type Output;

    /// Loads the pointer, and protects its value by the slot.
    ///
    /// # Safety
    ///
    /// The slot is one that threads look at before they free, belongs to the caller, and is not changed during `'h`.
    unsafe fn protect(self, slot: &'static Slot) -> Self::Output;
}

impl<'h, T, D: Domain<Hazards = HazardPointer>> Source<'h> for &Atomic<T, D> {
    type Output = Shared<'h, T>;

    #[inline(always)]
    unsafe fn protect(self, slot: &'static Slot) -> Shared<'h, T> {
        Shared::from_word(slot.protect(Shared::<T>::TAG, || self.published().load()))
    }
}

#[cfg(not(loom))]
impl<'h, T: ?Sized + Send + Sync + 'static, D: Domain<Hazards = HazardPointer>> Source<'h>
    for &'h RcuOption<T, D>
{
    type Output = Option<&'h T>;

    #[inline(always)]
    unsafe fn protect(self, slot: &'static Slot) -> Option<&'h T> {
        let word = slot.protect(0, || self.published().load());
        // SAFETY: the slot protects it; `self` is borrowed.
        unsafe { self.protected(word) }
    }
}

#[cfg(not(loom))]
impl<'h, T: ?Sized + Send + Sync + 'static, D: Domain<Hazards = HazardPointer>> Source<'h> for &'h Rcu<T, D> {
    type Output = &'h T;

    #[inline(always)]
    unsafe fn protect(self, slot: &'static Slot) -> &'h T {
        // SAFETY: the caller's contract; never empty.
        unsafe { self.as_option().protect(slot).unwrap_unchecked() }
    }
}
