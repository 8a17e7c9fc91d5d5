//! Access to a value, or to a part of it, for code that need not know where it is.
//!
//! ```
//! use std::sync::Arc;
//! use arc_swap::ArcSwap;
//! use arc_swap::access::{Access, Constant, Map};
//!
//! struct Config {
//!     workers: usize,
//! }
//!
//! fn start(workers: impl Access<usize>) -> usize {
//!     *workers.load()
//! }
//!
//! let config = Arc::new(ArcSwap::from_pointee(Config { workers: 4 }));
//! assert_eq!(start(Map::new(Arc::clone(&config), |config: &Config| &config.workers)), 4);
//! assert_eq!(start(Constant(1)), 1);
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::strategy::Strategy;
use crate::{ArcSwapAny, Guard, RefCnt};

/// What lends the current value.
pub trait Access<T> {
    /// What keeps the value alive.
    type Guard: Deref<Target = T>;

    /// Loads the current value.
    fn load(&self) -> Self::Guard;
}

impl<T, A: Access<T> + ?Sized, P: Deref<Target = A>> Access<T> for P {
    type Guard = A::Guard;

    fn load(&self) -> A::Guard {
        (**self).load()
    }
}

impl<T: RefCnt, S: Strategy<T>> Access<T> for ArcSwapAny<T, S> {
    type Guard = Guard<T, S>;

    fn load(&self) -> Guard<T, S> {
        self.load()
    }
}

impl<T: RefCnt, S: Strategy<T>> ArcSwapAny<T, S> {
    /// Returns an [`Access`] to a part of the value.
    pub fn map<I, R, F>(&self, f: F) -> Map<&Self, I, F>
    where
        F: Fn(&I) -> &R + Clone,
        Self: Access<I>,
    {
        Map::new(self, f)
    }
}

/// A guard that dereferences to the value.
#[doc(hidden)]
#[derive(Debug)]
pub struct DirectDeref<T: RefCnt, S: Strategy<T>>(Guard<T, S>);

/// Implements access to the value that the pointer points to.
macro_rules! direct {
    ($($pointer:ident)*) => {$(
        impl<T, S: Strategy<$pointer<T>>> Deref for DirectDeref<$pointer<T>, S> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T, S: Strategy<$pointer<T>>> Access<T> for ArcSwapAny<$pointer<T>, S> {
            type Guard = DirectDeref<$pointer<T>, S>;

            fn load(&self) -> Self::Guard {
                DirectDeref(self.load())
            }
        }
    )*};
}

direct!(Arc Rc);

/// An [`Access`] that can be a trait object: its guard is in a box.
pub trait DynAccess<T> {
    /// Loads the current value.
    fn load(&self) -> DynGuard<T>;
}

impl<T, A: Access<T, Guard: 'static>> DynAccess<T> for A {
    fn load(&self) -> DynGuard<T> {
        DynGuard(Box::new(Access::load(self)))
    }
}

/// Implements [`Access`] for trait objects.
macro_rules! dynamic {
    ($($object:ty;)*) => {$(
        impl<T> Access<T> for $object {
            type Guard = DynGuard<T>;

            fn load(&self) -> DynGuard<T> {
                self.load()
            }
        }
    )*};
}

dynamic! {
    dyn DynAccess<T> + '_;
    dyn DynAccess<T> + Send + '_;
    dyn DynAccess<T> + Send + Sync + '_;
}

/// The guard of a [`DynAccess`].
#[doc(hidden)]
pub struct DynGuard<T: ?Sized>(Box<dyn Deref<Target = T>>);

impl<T: ?Sized> Deref for DynGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for DynGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Makes an [`Access`] of a pointer to a [`DynAccess`].
#[derive(Debug)]
pub struct AccessConvert<D>(pub D);

impl<T, D: Deref<Target: DynAccess<T>>> Access<T> for AccessConvert<D> {
    type Guard = DynGuard<T>;

    fn load(&self) -> DynGuard<T> {
        self.0.load()
    }
}

/// Access to a part of what another access lends.
#[derive(Copy, Clone, Debug)]
pub struct Map<A, T, F> {
    access: A,
    projection: F,
    _whole: PhantomData<fn() -> T>,
}

impl<A, T, F> Map<A, T, F> {
    /// Makes one. Each use of a guard calls `projection`.
    pub fn new<R>(access: A, projection: F) -> Self
    where
        F: Fn(&T) -> &R + Clone,
    {
        Self { access, projection, _whole: PhantomData }
    }
}

impl<A: Access<T>, F: Fn(&T) -> &R + Clone, T, R> Access<R> for Map<A, T, F> {
    type Guard = MapGuard<A::Guard, F, T, R>;

    fn load(&self) -> Self::Guard {
        MapGuard { guard: self.access.load(), projection: self.projection.clone(), _part: PhantomData }
    }
}

/// The guard of a [`Map`].
#[doc(hidden)]
#[derive(Copy, Clone, Debug)]
pub struct MapGuard<G, F, T, R> {
    guard: G,
    projection: F,
    _part: PhantomData<fn(&T) -> &R>,
}

impl<G: Deref<Target = T>, F: Fn(&T) -> &R, T, R> Deref for MapGuard<G, F, T, R> {
    type Target = R;

    fn deref(&self) -> &R {
        (self.projection)(&self.guard)
    }
}

/// Access to a value that never changes.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Constant<T>(pub T);

impl<T: Clone> Access<T> for Constant<T> {
    type Guard = ConstantDeref<T>;

    fn load(&self) -> ConstantDeref<T> {
        ConstantDeref(self.0.clone())
    }
}

/// The guard of a [`Constant`].
#[doc(hidden)]
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct ConstantDeref<T>(T);

impl<T> Deref for ConstantDeref<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
