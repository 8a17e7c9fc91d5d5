//! The atomic `Arc`s.

use std::sync::Arc;

use stillpoint::arc::{ArcCell, Cache, Guard, Strategy};
pub use stillpoint::arc::{Deferred, Exact};

use crate::peers::arc_swap::cached;
use crate::peers::{ReadSide, Stores, VALUE};
use harness::report::OURS;

/// A cell with a strategy.
pub struct Cell<S: Strategy<Arc<u64>>>(ArcCell<Arc<u64>, S>);

impl<S: Strategy<Arc<u64>> + Default + Sync + 'static> ReadSide for Cell<S> {
    const NAME: &'static str = OURS;
    type Reader<'a> = ();
    type Guard<'a> = Guard<Arc<u64>, S>;

    fn new() -> Self {
        Self(ArcCell::from(Arc::new(VALUE)))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> Self::Guard<'a> {
        self.0.load()
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        ***guard
    }
}

impl<S: Strategy<Arc<u64>> + Default + Sync + 'static> Stores for Cell<S> {
    fn store(&self, pointer: Arc<u64>) {
        self.0.store(pointer);
    }
}

/// With a `Cache` for each thread.
pub struct Cached(ArcCell<Arc<u64>>);

cached!(
    Cached,
    "stillpoint-cache",
    Cache<&'a ArcCell<Arc<u64>>, Arc<u64>>,
    Cache::new,
    Self(ArcCell::new(Arc::new(VALUE)))
);
