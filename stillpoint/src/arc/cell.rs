//! The cell.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use std::sync::Arc;

use super::guard::Guard;
use super::ref_cnt::{RefCnt, into_ptr};
use super::strategy::{Exact, Strategy};
use crate::rcu::published_ptr::PublishedPtr;
use crate::sync::const_unless_loom;

/// A place for a counted pointer that threads load and replace at the same time: `ArcCell<Arc<T>>`,
/// `ArcCell<Option<Arc<T>>>`, or another [`RefCnt`].
///
/// Loads never block, and do not change the count. What a store does with the old pointer is the [`Strategy`]'s
/// choice: [`Exact`], unless [another](Self::with_strategy) is given.
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use stillpoint::arc::ArcCell;
///
/// let config = ArcCell::new(Arc::new(String::from("old")));
/// thread::scope(|s| {
///     s.spawn(|| {
///         while **config.load() != "new" {
///             thread::yield_now();
///         }
///     });
///     let old = config.swap(Arc::new("new".into()));
///     assert_eq!(*old, "old");
/// });
/// ```
///
/// A value that threads must not share is refused:
///
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// use std::sync::Arc;
/// use stillpoint::arc::ArcCell;
///
/// let cell = ArcCell::new(Arc::new(Cell::new(1)));
/// std::thread::scope(|s| { s.spawn(|| cell.load().set(2)); });
/// ```
#[doc(alias("ArcSwap", "AtomicArc"))]
pub struct ArcCell<T: RefCnt, S: Strategy<T> = Exact> {
    /// A pointer of [`RefCnt::into_ptr`], with its reference.
    pointer: PublishedPtr<T::Base>,
    strategy: S,
    _owns: PhantomData<T>,
    /// Only the implementations below make it `Send` and `Sync`.
    _shared: PhantomData<*mut ()>,
}

// SAFETY: owns a `T`.
unsafe impl<T: RefCnt + Send, S: Strategy<T> + Send> Send for ArcCell<T, S> {}

// SAFETY: lends references to `T` to all threads, and gives `T` to any.
unsafe impl<T: RefCnt + Send + Sync, S: Strategy<T> + Sync> Sync for ArcCell<T, S> {}

impl<T: RefCnt> ArcCell<T> {
    /// Creates a cell that holds `pointer`, with the strategy [`Exact`].
    pub fn new(pointer: T) -> Self {
        Self::with_strategy(pointer, Exact)
    }
}

impl<T> ArcCell<Arc<T>> {
    /// Creates a cell that holds an [`Arc`] of `value`.
    ///
    /// ```
    /// use stillpoint::arc::ArcCell;
    ///
    /// let config = ArcCell::from_pointee(String::from("first"));
    /// assert_eq!(**config.load(), "first");
    /// ```
    pub fn from_pointee(value: T) -> Self {
        Self::new(Arc::new(value))
    }
}

impl<T: RefCnt, S: Strategy<T>> ArcCell<T, S> {
    /// Creates a cell that holds `pointer`, with a strategy.
    pub fn with_strategy(pointer: T, strategy: S) -> Self {
        Self::of(into_ptr(pointer), strategy)
    }

    const_unless_loom! {
        /// `pointer` comes from [`RefCnt::into_ptr`].
        fn of(pointer: *mut T::Base, strategy: S) -> Self {
            Self { pointer: PublishedPtr::new(pointer), strategy, _owns: PhantomData, _shared: PhantomData }
        }
    }

    /// Loads the pointer. The guard dereferences to it.
    ///
    /// Executes no atomic read-modify-write while no more than seven guards are in use that the thread has loaded.
    /// Beyond that a load executes one or several, and takes about six times as long. If it finds no slot, of which
    /// all threads share 448 for such guards, it increments the count, and the drop of the guard decrements it. The
    /// first load of a thread registers it.
    ///
    /// In a signal handler: as [`rcu::enter`](crate::rcu#signal-handlers), and the handler must drop the guard before
    /// it returns. [`load_full`](Self::load_full) has no such rule.
    ///
    /// # Panics
    ///
    /// As [`rcu::enter`](crate::rcu::enter), if the thread cannot be registered.
    #[inline]
    pub fn load(&self) -> Guard<T, S> {
        // SAFETY: the pointer is the cell's.
        Guard::new(unsafe { self.strategy.load(&self.pointer) })
    }

    /// Loads the pointer, and increments the count.
    ///
    /// # Panics
    ///
    /// As [`load`](Self::load).
    #[inline]
    pub fn load_full(&self) -> T {
        // SAFETY: the pointer is the cell's.
        unsafe { self.strategy.load_full(&self.pointer) }
    }

    /// Replaces the pointer, and drops the old one.
    ///
    /// With [`Exact`], this blocks for some microseconds, and the destructor of the value runs here if no reference
    /// and no guard is left. The destructor may use the cell.
    ///
    /// # Panics
    ///
    /// If the value's destructor does; the new pointer is stored. With [`Exact`], also in a [stall
    /// hook](crate::rcu::set_stall_hook).
    pub fn store(&self, pointer: T) {
        let old = self.pointer.swap(into_ptr(pointer));
        // SAFETY: it was the cell's, and is given up once.
        unsafe { self.strategy.discard(old) };
    }

    /// Replaces the pointer, and returns the old one. Blocks where [`store`](Self::store) does.
    pub fn swap(&self, pointer: T) -> T {
        let old = self.pointer.swap(into_ptr(pointer));
        // SAFETY: as in `store`.
        unsafe { self.strategy.take(old) }
    }

    /// Replaces the pointer if it is `current`, and returns the old one. Blocks where [`store`](Self::store) does, if
    /// it replaces the pointer.
    ///
    /// # Errors
    ///
    /// Returns the pointer that the cell holds instead, and `new`.
    pub fn compare_exchange(&self, current: *const T::Base, new: T) -> Result<T, (Guard<T, S>, T)> {
        let mut new = new;
        loop {
            let guard = self.load();
            if !ptr::eq(T::as_ptr(&guard), current) {
                return Err((guard, new));
            }
            match self.replace_loaded(guard, new) {
                Ok(old) => return Ok(old),
                Err(rejected) => new = rejected,
            }
        }
    }

    /// Replaces the pointer if it is still that of the guard, which keeps its address from being used for another
    /// value. Returns the old pointer, or `new` as an error.
    fn replace_loaded(&self, guard: Guard<T, S>, new: T) -> Result<T, T> {
        let new = into_ptr(new);
        match self.pointer.compare_exchange(T::as_ptr(&guard), new) {
            Ok(old) => {
                // Not one of the guards that must be paid.
                drop(guard);
                // SAFETY: as in `store`.
                Ok(unsafe { self.strategy.take(old) })
            }
            // SAFETY: `into_ptr` has returned it, and the cell did not take it.
            Err(_) => Err(unsafe { T::from_ptr(new) }),
        }
    }

    /// Replaces the pointer by what `f` makes of it, and returns the old one. Calls `f` again if another thread has
    /// replaced it in the meantime. If `f` panics, nothing is replaced.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stillpoint::arc::ArcCell;
    ///
    /// let visits = ArcCell::new(Arc::new(7));
    /// assert_eq!(*visits.update(|visits| Arc::new(**visits + 1)), 7);
    /// assert_eq!(**visits.load(), 8);
    /// ```
    #[doc(alias = "rcu")]
    pub fn update(&self, mut f: impl FnMut(&T) -> T) -> T {
        loop {
            let guard = self.load();
            let new = f(&guard);
            if let Ok(old) = self.replace_loaded(guard, new) {
                return old;
            }
        }
    }

    /// Returns the address of the value, which may be freed at any time: to find out whether the pointer has changed.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const T::Base {
        self.pointer.load()
    }

    /// Returns the pointer.
    pub fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        let pointer = this.pointer.get_mut();
        // SAFETY: no other thread uses the cell, which is not dropped.
        let pointer = unsafe { this.strategy.take_last(pointer) };
        // SAFETY: dropped once.
        unsafe { ptr::drop_in_place(&mut this.strategy) };
        pointer
    }

    /// Returns the strategy.
    pub const fn strategy(&self) -> &S {
        &self.strategy
    }
}

impl<T: RefCnt, S: Strategy<Option<T>>> ArcCell<Option<T>, S> {
    const_unless_loom! {
        /// Creates an empty cell, for statics.
        pub fn empty_with(strategy: S) -> Self {
            Self::of(ptr::null_mut(), strategy)
        }
    }
}

impl<T: RefCnt> ArcCell<Option<T>> {
    const_unless_loom! {
        /// Creates an empty cell, for statics.
        ///
        /// ```
        /// use std::sync::Arc;
        /// use stillpoint::arc::ArcCell;
        ///
        /// static BANNER: ArcCell<Option<Arc<String>>> = ArcCell::empty();
        ///
        /// assert!(BANNER.load().is_none());
        /// BANNER.store(Some(Arc::new("maintenance at noon".into())));
        /// assert_eq!(**BANNER.load().as_ref().unwrap(), "maintenance at noon");
        /// ```
        pub fn empty() -> Self {
            Self::empty_with(Exact)
        }
    }
}

impl<T: RefCnt, S: Strategy<T>> Drop for ArcCell<T, S> {
    fn drop(&mut self) {
        let pointer = self.pointer.get_mut();
        // SAFETY: no other thread uses the cell.
        drop(unsafe { self.strategy.take_last(pointer) });
    }
}

impl<T: RefCnt, S: Strategy<T> + Default> From<T> for ArcCell<T, S> {
    fn from(pointer: T) -> Self {
        Self::with_strategy(pointer, S::default())
    }
}

impl<T: RefCnt + Default, S: Strategy<T> + Default> Default for ArcCell<T, S> {
    fn default() -> Self {
        Self::from(T::default())
    }
}

impl<T: RefCnt + fmt::Debug, S: Strategy<T>> fmt::Debug for ArcCell<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArcCell").field(&*self.load()).finish()
    }
}
