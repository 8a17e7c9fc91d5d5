//! A thread's own copy of the pointer of a cell.

use core::ops::Deref;

use super::cell::ArcCell;
use super::ref_cnt::RefCnt;
use super::strategy::Strategy;

/// A copy of a cell's pointer, with a reference of its own, which is replaced when the cell's has changed: for loops
/// that load the pointer all the time, with a cache for each thread.
///
/// [`load`](Self::load) compares two addresses, which is cheaper than the load of a cell. The price: a cache keeps
/// its value alive until it is next used, or dropped. A thread that sleeps holds an old value for that long.
///
/// ```
/// use std::sync::Arc;
/// use stillpoint::arc::{ArcCell, Cache};
///
/// let limits = ArcCell::new(Arc::new(10));
/// let mut cache = Cache::new(&limits);
/// for _packet in 0..1000 {
///     assert!(**cache.load() >= 10);
/// }
/// limits.store(Arc::new(11));
/// assert_eq!(**cache.load(), 11);
/// ```
#[derive(Debug, Clone)]
pub struct Cache<C, T> {
    cell: C,
    pointer: T,
}

impl<T: RefCnt, S: Strategy<T>, C: Deref<Target = ArcCell<T, S>>> Cache<C, T> {
    /// Loads the pointer of `cell`: a reference to a cell, or an `Arc` of it.
    pub fn new(cell: C) -> Self {
        let pointer = cell.load_full();
        Self { cell, pointer }
    }

    /// Returns the current pointer.
    #[inline(always)]
    pub fn load(&mut self) -> &T {
        // The same address is the same value: this one is alive.
        if T::as_ptr(&self.pointer).cast_const() != self.cell.as_ptr() {
            self.reload();
        }
        &self.pointer
    }

    #[cold]
    fn reload(&mut self) {
        self.pointer = self.cell.load_full();
    }

    /// Returns the cell.
    pub fn cell(&self) -> &ArcCell<T, S> {
        &self.cell
    }
}
