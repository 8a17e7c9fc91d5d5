//! What a load returns.

use std::fmt;
use std::ops::Deref;

use stillpoint::arc;

use crate::RefCnt;
use crate::strategy::{DefaultStrategy, Strategy};

/// A pointer that was loaded: it dereferences to the pointer, and keeps its value alive.
///
/// It may be held for any length of time, sent to other threads, and held across `.await`. It has no reference of its
/// own until the pointer is replaced.
pub struct Guard<T: RefCnt, S: Strategy<T> = DefaultStrategy>(pub(crate) arc::Guard<T, S>);

impl<T: RefCnt, S: Strategy<T>> Guard<T, S> {
    /// Returns the pointer, with a reference of its own.
    #[inline]
    pub fn into_inner(lease: Self) -> T {
        arc::Guard::into_inner(lease.0)
    }

    /// Makes a guard of a pointer.
    pub fn from_inner(inner: T) -> Self {
        Self(arc::Guard::from_inner(inner))
    }
}

impl<T: RefCnt, S: Strategy<T>> Deref for Guard<T, S> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: RefCnt, S: Strategy<T>> From<T> for Guard<T, S> {
    fn from(inner: T) -> Self {
        Self::from_inner(inner)
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
