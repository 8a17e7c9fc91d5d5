//! Pointers that threads change.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::guard::Guard;
use crate::owned::Owned;
use crate::pointable::Pointable;
use crate::pointer::{Pointer, aligned, format, tag_mask, with_tag};
use crate::shared::Shared;

/// Defines the operation of an [`Atomic`] that is named as the operation of its word.
macro_rules! exchange {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $name<'g, P: Pointer<T>>(
            &self,
            current: Shared<'_, T>,
            new: P,
            success: Ordering,
            failure: Ordering,
            _: &'g Guard,
        ) -> Result<Shared<'g, T>, CompareExchangeError<'g, T, P>> {
            let new = new.into_usize();
            match self.data.$name(current.into_usize(), new, success, failure) {
                Ok(_) => Ok(Shared::from_data(new)),
                Err(current) => {
                    // SAFETY: it comes from a `P`, and was not stored.
                    let new = unsafe { P::from_usize(new) };
                    Err(CompareExchangeError { current: Shared::from_data(current), new })
                }
            }
        }
    };
}

/// Defines the deprecated operation that is another one.
macro_rules! exchange_in_one_ordering {
    ($(#[$attribute:meta])* $name:ident = $operation:ident) => {
        $(#[$attribute])*
        ///
        /// # Errors
        ///
        /// As there.
        #[allow(deprecated, reason = "as in the crate whose API this is")]
        pub fn $name<'g, O: CompareAndSetOrdering, P: Pointer<T>>(
            &self,
            current: Shared<'_, T>,
            new: P,
            ord: O,
            guard: &'g Guard,
        ) -> Result<Shared<'g, T>, CompareAndSetError<'g, T, P>> {
            self.$operation(current, new, ord.success(), ord.failure(), guard)
        }
    };
}

/// A pointer that threads load and change at the same time: to a value, or null, with a [tag](Shared::tag).
///
/// It does not own its value: dropping it drops nothing.
///
/// ```
/// use crossbeam_epoch::{self as epoch, Atomic, Owned, Shared};
/// use std::sync::atomic::Ordering::SeqCst;
///
/// let current = Atomic::new(1);
/// let guard = &epoch::pin();
/// let old = current.load(SeqCst, guard);
/// let new = current.compare_exchange(old, Owned::new(2), SeqCst, SeqCst, guard).expect("no other thread");
/// // SAFETY: neither pointer is null.
/// assert_eq!(unsafe { (*old.deref(), *new.deref()) }, (1, 2));
/// // SAFETY: no other thread can load them any more.
/// unsafe {
///     guard.defer_destroy(old);
///     guard.defer_destroy(current.swap(Shared::null(), SeqCst, guard));
/// }
/// ```
pub struct Atomic<T: ?Sized + Pointable> {
    /// The address, with the tag.
    data: AtomicUsize,
    _pointee: PhantomData<*mut T>,
}

// SAFETY: lends `&T` to several threads (`T: Sync`), and passes values from one thread to another (`T: Send`).
unsafe impl<T: ?Sized + Pointable + Send + Sync> Send for Atomic<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Pointable + Send + Sync> Sync for Atomic<T> {}

impl<T> Atomic<T> {
    /// Allocates `init`, and creates a pointer to it.
    pub fn new(init: T) -> Self {
        Self::init(init)
    }
}

impl<T: ?Sized + Pointable> Atomic<T> {
    /// Allocates a value, which may be unsized, and creates a pointer to it.
    pub fn init(init: T::Init) -> Self {
        Self::from(Owned::init(init))
    }

    /// Creates a null pointer.
    pub const fn null() -> Self {
        Self::from_data(0)
    }

    const fn from_data(data: usize) -> Self {
        Self { data: AtomicUsize::new(data), _pointee: PhantomData }
    }

    /// Loads the pointer.
    #[inline]
    pub fn load<'g>(&self, ord: Ordering, _: &'g Guard) -> Shared<'g, T> {
        Shared::from_data(self.data.load(ord))
    }

    /// Loads the pointer, so that what depends on it comes after what was done before it was stored. Here, an
    /// [Acquire](Ordering::Acquire) load.
    #[inline]
    pub fn load_consume<'g>(&self, guard: &'g Guard) -> Shared<'g, T> {
        self.load(Ordering::Acquire, guard)
    }

    /// Stores `new`, which is an [`Owned`] or a [`Shared`]. The previous pointer is forgotten.
    #[inline]
    pub fn store<P: Pointer<T>>(&self, new: P, ord: Ordering) {
        self.data.store(new.into_usize(), ord);
    }

    /// Stores `new` and returns the previous pointer.
    #[inline]
    pub fn swap<'g, P: Pointer<T>>(&self, new: P, ord: Ordering, _: &'g Guard) -> Shared<'g, T> {
        Shared::from_data(self.data.swap(new.into_usize(), ord))
    }

    exchange! {
        /// Stores `new` if the pointer is `current`, tag included. Returns the pointer that was stored.
        ///
        /// The orderings are those of [`AtomicUsize::compare_exchange`].
        ///
        /// # Errors
        ///
        /// If the pointer is another one. The error has it, and gives `new` back.
        compare_exchange
    }

    exchange! {
        /// [`compare_exchange`](Self::compare_exchange) that may also return an error if the pointer is `current`: for
        /// loops.
        ///
        /// # Errors
        ///
        /// If `new` was not stored.
        compare_exchange_weak
    }

    /// Stores what `func` returns for the pointer, and returns the previous pointer. Calls `func` again if another
    /// thread has changed the pointer meanwhile.
    ///
    /// # Errors
    ///
    /// If `func` returns `None`: the pointer as it is.
    pub fn fetch_update<'g, F>(
        &self,
        set_order: Ordering,
        fail_order: Ordering,
        guard: &'g Guard,
        mut func: F,
    ) -> Result<Shared<'g, T>, Shared<'g, T>>
    where
        F: FnMut(Shared<'g, T>) -> Option<Shared<'g, T>>,
    {
        let mut current = self.load(fail_order, guard);
        while let Some(next) = func(current) {
            match self.compare_exchange_weak(current, next, set_order, fail_order, guard) {
                Ok(_) => return Ok(current),
                Err(error) => current = error.current,
            }
        }
        Err(current)
    }

    exchange_in_one_ordering! {
        /// [`compare_exchange`](Self::compare_exchange) with the orderings of [`CompareAndSetOrdering`].
        #[deprecated(note = "Use `compare_exchange` instead")]
        compare_and_set = compare_exchange
    }

    exchange_in_one_ordering! {
        /// [`compare_exchange_weak`](Self::compare_exchange_weak) with the orderings of [`CompareAndSetOrdering`].
        #[deprecated(note = "Use `compare_exchange_weak` instead")]
        compare_and_set_weak = compare_exchange_weak
    }

    /// Clears the bits of the tag that `val` does not have. Returns the previous pointer.
    #[inline]
    pub fn fetch_and<'g>(&self, val: usize, ord: Ordering, _: &'g Guard) -> Shared<'g, T> {
        Shared::from_data(self.data.fetch_and(val | !tag_mask::<T>(), ord))
    }

    /// Sets the bits of `val` in the tag. Returns the previous pointer.
    #[inline]
    pub fn fetch_or<'g>(&self, val: usize, ord: Ordering, _: &'g Guard) -> Shared<'g, T> {
        Shared::from_data(self.data.fetch_or(val & tag_mask::<T>(), ord))
    }

    /// Flips the bits of `val` in the tag. Returns the previous pointer.
    #[inline]
    pub fn fetch_xor<'g>(&self, val: usize, ord: Ordering, _: &'g Guard) -> Shared<'g, T> {
        Shared::from_data(self.data.fetch_xor(val & tag_mask::<T>(), ord))
    }

    /// Takes the value: for destructors of data structures.
    ///
    /// # Panics
    ///
    /// If the pointer is null, in debug builds.
    ///
    /// # Safety
    ///
    /// The pointer is not null, and no other thread or pointer uses the value.
    pub unsafe fn into_owned(self) -> Owned<T> {
        // SAFETY: the caller's contract.
        unsafe { Owned::from_usize(self.data.into_inner()) }
    }

    /// Takes the value. Returns `None` if the pointer is null.
    ///
    /// # Safety
    ///
    /// No other thread or pointer uses the value.
    pub unsafe fn try_into_owned(self) -> Option<Owned<T>> {
        // SAFETY: the caller's contract.
        unsafe { Shared::from_data(self.data.into_inner()).try_into_owned() }
    }
}

impl<T: ?Sized + Pointable> Clone for Atomic<T> {
    /// Returns another pointer to the same value, by a [Relaxed](Ordering::Relaxed) load.
    fn clone(&self) -> Self {
        Self::from_data(self.data.load(Ordering::Relaxed))
    }
}

impl<T: ?Sized + Pointable> Default for Atomic<T> {
    /// A null pointer.
    fn default() -> Self {
        Self::null()
    }
}

impl<T: ?Sized + Pointable> From<Owned<T>> for Atomic<T> {
    fn from(owned: Owned<T>) -> Self {
        Self::from_data(owned.into_usize())
    }
}

impl<T> From<Box<T>> for Atomic<T> {
    fn from(value: Box<T>) -> Self {
        Self::from(Owned::from(value))
    }
}

impl<T> From<T> for Atomic<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<'g, T: ?Sized + Pointable> From<Shared<'g, T>> for Atomic<T> {
    fn from(shared: Shared<'g, T>) -> Self {
        Self::from_data(shared.into_usize())
    }
}

impl<T> From<*const T> for Atomic<T> {
    /// # Panics
    ///
    /// If the pointer is not aligned.
    #[track_caller]
    fn from(raw: *const T) -> Self {
        Self::from_data(aligned(raw))
    }
}

impl<T: ?Sized + Pointable> fmt::Debug for Atomic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format::<T>("Atomic", self.data.load(Ordering::SeqCst), f)
    }
}

impl<T: ?Sized + Pointable> fmt::Pointer for Atomic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(
            &ptr::without_provenance::<()>(with_tag::<T>(self.data.load(Ordering::SeqCst), 0)),
            f,
        )
    }
}

/// An [`Atomic`] had another value than expected: see [`Atomic::compare_exchange`].
pub struct CompareExchangeError<'g, T: ?Sized + Pointable, P: Pointer<T>> {
    /// The pointer that the `Atomic` had.
    pub current: Shared<'g, T>,
    /// The pointer that was not stored.
    pub new: P,
}

impl<T: ?Sized + Pointable, P: Pointer<T> + fmt::Debug> fmt::Debug for CompareExchangeError<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompareExchangeError")
            .field("current", &self.current)
            .field("new", &self.new)
            .finish()
    }
}

/// See [`CompareExchangeError`].
#[deprecated(note = "Use `CompareExchangeError` instead")]
pub type CompareAndSetError<'g, T, P> = CompareExchangeError<'g, T, P>;

/// Returns the strongest ordering of a failed compare-exchange that goes with that of a successful one.
fn strongest_failure(success: Ordering) -> Ordering {
    match success {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        same => same,
    }
}

/// The orderings of [`Atomic::compare_and_set`]: one for both cases, or one for each.
#[deprecated(note = "`compare_and_set` and `compare_and_set_weak`, which use it, are deprecated")]
pub trait CompareAndSetOrdering {
    /// Returns the ordering of a successful operation.
    fn success(&self) -> Ordering;

    /// Returns the ordering of one that fails.
    fn failure(&self) -> Ordering;
}

#[allow(deprecated, reason = "as in the crate whose API this is")]
impl CompareAndSetOrdering for Ordering {
    fn success(&self) -> Ordering {
        *self
    }

    fn failure(&self) -> Ordering {
        strongest_failure(*self)
    }
}

#[allow(deprecated, reason = "as in the crate whose API this is")]
impl CompareAndSetOrdering for (Ordering, Ordering) {
    fn success(&self) -> Ordering {
        self.0
    }

    fn failure(&self) -> Ordering {
        self.1
    }
}
