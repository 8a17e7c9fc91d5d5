//! The atomic pointer.

use std::fmt;
use std::sync::Arc;

use stillpoint::arc::ArcCell;

use crate::strategy::{CaS, DefaultStrategy, Strategy};
use crate::{AsRaw, Guard, RefCnt};

/// A counted pointer that threads load and replace at the same time: a
/// [`stillpoint::arc::ArcCell`](stillpoint::arc::ArcCell) under the names of arc-swap.
///
/// ```
/// use std::sync::Arc;
/// use arc_swap::ArcSwap;
///
/// let shared = ArcSwap::from(Arc::new(42));
/// assert_eq!(**shared.load(), 42);
/// assert_eq!(*shared.swap(Arc::new(0)), 42);
/// ```
pub struct ArcSwapAny<T: RefCnt, S: Strategy<T> = DefaultStrategy> {
    pub(crate) cell: ArcCell<T, S>,
}

impl<T: RefCnt, S: Strategy<T>> ArcSwapAny<T, S> {
    /// Creates one that holds `val`.
    pub fn new(val: T) -> Self
    where
        S: Default,
    {
        Self::with_strategy(val, S::default())
    }

    /// Creates one that holds `val`.
    pub fn with_strategy(val: T, strategy: S) -> Self {
        Self { cell: ArcCell::with_strategy(val, strategy) }
    }

    /// Returns the pointer.
    pub fn into_inner(self) -> T {
        self.cell.into_inner()
    }

    /// Loads the pointer, and increments the count.
    #[inline]
    pub fn load_full(&self) -> T {
        self.cell.load_full()
    }

    /// Loads the pointer. Does not change the count.
    #[inline]
    pub fn load(&self) -> Guard<T, S> {
        Guard(self.cell.load())
    }

    /// Replaces the pointer, and drops the old one.
    pub fn store(&self, val: T) {
        self.cell.store(val);
    }

    /// Replaces the pointer, and returns the old one.
    pub fn swap(&self, new: T) -> T {
        self.cell.swap(new)
    }

    /// Replaces the pointer by `new` if it is `current`. Returns the pointer before, in both cases.
    pub fn compare_and_swap<C>(&self, current: C, new: T) -> Guard<T, S>
    where
        C: AsRaw<T::Base>,
        S: CaS<T>,
    {
        match self.cell.compare_exchange(current.as_raw(), new) {
            Ok(old) => Guard::from_inner(old),
            Err((now, _)) => Guard(now),
        }
    }

    /// Replaces the pointer by what `f` makes of it, and returns the old one. Calls `f` again if another thread was
    /// faster.
    pub fn rcu<R, F>(&self, mut f: F) -> T
    where
        F: FnMut(&T) -> R,
        R: Into<T>,
        S: CaS<T>,
    {
        self.cell.update(|current| f(current).into())
    }
}

impl<T, S: Strategy<Arc<T>>> ArcSwapAny<Arc<T>, S> {
    /// Creates one that holds `val`.
    pub fn from_pointee(val: T) -> Self
    where
        S: Default,
    {
        Self::new(Arc::new(val))
    }
}

impl<T, S: Strategy<Option<Arc<T>>>> ArcSwapAny<Option<Arc<T>>, S> {
    /// Creates one that holds `val`, or none.
    pub fn from_pointee<V: Into<Option<T>>>(val: V) -> Self
    where
        S: Default,
    {
        Self::new(val.into().map(Arc::new))
    }

    /// Creates one without a value.
    pub fn empty() -> Self
    where
        S: Default,
    {
        Self::new(None)
    }
}

impl<T> ArcSwapAny<Option<Arc<T>>> {
    /// Creates one without a value, for statics.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arc_swap::ArcSwapOption;
    ///
    /// static CURRENT: ArcSwapOption<usize> = ArcSwapOption::const_empty();
    ///
    /// assert!(CURRENT.load().is_none());
    /// CURRENT.store(Some(Arc::new(42)));
    /// assert_eq!(CURRENT.load_full().as_deref(), Some(&42));
    /// ```
    pub const fn const_empty() -> Self {
        Self { cell: ArcCell::empty() }
    }
}

impl<T: RefCnt, S: Strategy<T> + Default> From<T> for ArcSwapAny<T, S> {
    fn from(val: T) -> Self {
        Self::new(val)
    }
}

impl<T: RefCnt + Default, S: Strategy<T> + Default> Default for ArcSwapAny<T, S> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: RefCnt + fmt::Debug, S: Strategy<T>> fmt::Debug for ArcSwapAny<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArcSwapAny").field(&self.load()).finish()
    }
}

impl<T: RefCnt + fmt::Display, S: Strategy<T>> fmt::Display for ArcSwapAny<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}
