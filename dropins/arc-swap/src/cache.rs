//! A copy of the pointer for each thread, which is compared with the shared one.

use std::ops::Deref;

use crate::strategy::Strategy;
use crate::{ArcSwapAny, RefCnt};

/// What lends the current value of a cache, or a part of it.
pub trait Access<T> {
    /// Returns the current value.
    fn load(&mut self) -> &T;
}

/// A copy of the pointer, with a reference of its own, which is replaced when the shared one has changed.
///
/// It keeps its value alive until it is next used, or dropped.
///
/// ```
/// use std::sync::Arc;
/// use arc_swap::{ArcSwap, Cache};
///
/// let shared = ArcSwap::from_pointee(42);
/// let mut cache = Cache::new(&shared);
/// assert_eq!(**cache.load(), 42);
/// shared.store(Arc::new(43));
/// assert_eq!(**cache.load(), 43);
/// ```
#[derive(Clone, Debug)]
pub struct Cache<A, T> {
    arc_swap: A,
    cached: T,
}

impl<A, T, S> Cache<A, T>
where
    A: Deref<Target = ArcSwapAny<T, S>>,
    T: RefCnt,
    S: Strategy<T>,
{
    /// Loads the pointer of `arc_swap`: a reference to one, or an `Arc` of it.
    pub fn new(arc_swap: A) -> Self {
        let cached = arc_swap.load_full();
        Self { arc_swap, cached }
    }

    /// Returns the shared pointer.
    pub fn arc_swap(&self) -> &A::Target {
        &self.arc_swap
    }

    /// Returns the current pointer.
    #[inline(always)]
    pub fn load(&mut self) -> &T {
        // The same address is the same value: this one is alive.
        if T::as_ptr(&self.cached).cast_const() != self.arc_swap.cell.as_ptr() {
            self.reload();
        }
        &self.cached
    }

    #[cold]
    fn reload(&mut self) {
        self.cached = self.arc_swap.load_full();
    }

    /// Returns a cache of a part of the value. `f` is called by each load.
    pub fn map<F, U>(self, f: F) -> MapCache<A, T, F>
    where
        F: FnMut(&T) -> &U,
    {
        MapCache { inner: self, projection: f }
    }
}

impl<A, T, S> Access<T::Target> for Cache<A, T>
where
    A: Deref<Target = ArcSwapAny<T, S>>,
    T: Deref<Target = <T as RefCnt>::Base> + RefCnt,
    S: Strategy<T>,
{
    fn load(&mut self) -> &T::Target {
        self.load()
    }
}

impl<A, T, S> From<A> for Cache<A, T>
where
    A: Deref<Target = ArcSwapAny<T, S>>,
    T: RefCnt,
    S: Strategy<T>,
{
    fn from(arc_swap: A) -> Self {
        Self::new(arc_swap)
    }
}

/// A cache of a part of the value: see [`Cache::map`].
#[derive(Clone, Debug)]
pub struct MapCache<A, T, F> {
    inner: Cache<A, T>,
    projection: F,
}

impl<A, T, S, F, U> Access<U> for MapCache<A, T, F>
where
    A: Deref<Target = ArcSwapAny<T, S>>,
    T: RefCnt,
    S: Strategy<T>,
    F: FnMut(&T) -> &U,
{
    fn load(&mut self) -> &U {
        (self.projection)(self.inner.load())
    }
}
