//! The atomic `Arc`s.

use std::borrow::Borrow as _;
use std::sync::Arc;

use stillpoint::arc::{ArcCell, Cache, Guard, Strategy};
pub use stillpoint::arc::{Deferred, Exact};
use stillpoint::rcu::{self, Rcu};
use stillpoint::{EnterSection, srcu};

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

/// A domain of which [`Borrowing`] has sections.
pub trait Sections: EnterSection {
    const NAME: &'static str;

    fn new() -> Self;
}

impl Sections for rcu::Global {
    const NAME: &'static str = "stillpoint-rcu";

    fn new() -> Self {
        Self
    }
}

impl Sections for srcu::Domain {
    const NAME: &'static str = "stillpoint-srcu";

    fn new() -> Self {
        Self::new()
    }
}

/// An `Rcu` whose value is read in a section.
pub struct Borrowing<D: Sections>(Rcu<u64, D>);

impl<D: Sections> ReadSide for Borrowing<D> {
    const NAME: &'static str = D::NAME;
    type Reader<'a> = ();
    type Guard<'a> = D::Guard<'a>;

    fn new() -> Self {
        Self(Rcu::new_in(VALUE, D::new()))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> D::Guard<'a> {
        self.0.domain().enter_section()
    }

    #[inline(always)]
    fn load(&self, guard: &D::Guard<'_>) -> u64 {
        *self.0.load(guard.borrow())
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
