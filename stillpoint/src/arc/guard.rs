//! Guards: what a load returns.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use super::protected::Protected;
use super::ref_cnt::RefCnt;
use super::strategy::{Exact, Strategy};

/// A pointer that was loaded from a cell: it dereferences to the pointer.
///
/// It keeps its own value alive, and nothing else. It may be held for any length of time, sent to other threads, held
/// across `.await`, and dropped after the cell. Most guards have no reference of their own: loading and dropping one
/// does not change the count. The count has it as soon as the cell lets go of the value.
///
/// ```
/// use std::sync::Arc;
/// use stillpoint::arc::ArcCell;
///
/// let cell = ArcCell::new(Arc::new(1));
/// let guard = cell.load();
/// assert_eq!(Arc::strong_count(&guard), 1, "that of the cell");
/// cell.store(Arc::new(2));
/// assert_eq!(Arc::strong_count(&guard), 1, "that of the guard");
/// assert_eq!(**guard, 1);
/// ```
pub struct Guard<T: RefCnt, S: Strategy<T> = Exact> {
    protected: Protected<T>,
    _strategy: PhantomData<fn() -> S>,
}

impl<T: RefCnt, S: Strategy<T>> Guard<T, S> {
    #[inline(always)]
    pub(super) fn new(protected: Protected<T>) -> Self {
        Self { protected, _strategy: PhantomData }
    }

    /// Returns the pointer, with a reference of its own.
    #[inline]
    pub fn into_inner(guard: Self) -> T {
        guard.protected.into_inner()
    }

    /// Makes a guard of a pointer that was not loaded from a cell.
    #[inline]
    pub fn from_inner(pointer: T) -> Self {
        Self::new(Protected::counted(pointer))
    }
}

impl<T: RefCnt, S: Strategy<T>> Deref for Guard<T, S> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.protected.pointer()
    }
}

impl<T: RefCnt, S: Strategy<T>> From<T> for Guard<T, S> {
    fn from(pointer: T) -> Self {
        Self::from_inner(pointer)
    }
}

impl<T: RefCnt + Default, S: Strategy<T>> Default for Guard<T, S> {
    fn default() -> Self {
        Self::from_inner(T::default())
    }
}

impl<T: RefCnt + fmt::Debug, S: Strategy<T>> fmt::Debug for Guard<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: RefCnt + fmt::Display, S: Strategy<T>> fmt::Display for Guard<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
