//! arc-swap: a pointer to an `Arc`.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::{ReadSide, VALUE};

/// For short sections: `load()`, its fast path.
pub(crate) struct Load(ArcSwap<u64>);

impl ReadSide for Load {
    const NAME: &'static str = "arc-swap";
    type Reader<'a> = ();
    type Guard<'a> = Guard<Arc<u64>>;

    fn new() -> Self {
        Self(ArcSwap::from_pointee(VALUE))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> Guard<Arc<u64>> {
        self.0.load()
    }

    #[inline(always)]
    fn load(&self, guard: &Guard<Arc<u64>>) -> u64 {
        ***guard
    }
}

/// What its documentation recommends for values that are held for long, as across `.await`.
pub(crate) struct LoadFull(ArcSwap<u64>);

impl ReadSide for LoadFull {
    const NAME: &'static str = "arc-swap-full";
    type Reader<'a> = ();
    type Guard<'a> = Arc<u64>;

    fn new() -> Self {
        Self(ArcSwap::from_pointee(VALUE))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> Arc<u64> {
        self.0.load_full()
    }

    #[inline(always)]
    fn load(&self, guard: &Arc<u64>) -> u64 {
        **guard
    }
}
