//! arc-swap: a pointer to an `Arc`.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{ReadSide, Stores, VALUE, read_side};

/// Implements [`ReadSide`] for a cache that each thread has of an `Arc`: the type, its name, its cache and how that
/// is made, and the constructor. A read asks the cache, which compares one pointer. There is no section: the value is
/// kept until the thread reads again.
macro_rules! cached {
    ($type:ty, $name:expr, $cache:ty, $make:expr, $new:expr) => {
        impl ReadSide for $type {
            const NAME: &'static str = $name;
            type Reader<'a> = std::cell::RefCell<$cache>;
            type Guard<'a> = Arc<u64>;

            fn new() -> Self {
                $new
            }

            fn reader(&self) -> Self::Reader<'_> {
                std::cell::RefCell::new($make(&self.0))
            }

            fn enter<'a>(&'a self, reader: &'a Self::Reader<'_>) -> Arc<u64> {
                Arc::clone(reader.borrow_mut().load())
            }

            fn load(&self, guard: &Arc<u64>) -> u64 {
                **guard
            }

            #[inline(never)]
            fn read(&self, reader: &Self::Reader<'_>, n: u32) -> u64 {
                let mut cache = std::hint::black_box(reader).borrow_mut();
                harness::timed_loop::repeat(n, || **cache.load())
            }
        }
    };
}
pub(super) use cached;

/// For short sections: `load()`, its fast path.
pub struct Load(ArcSwap<u64>);

read_side!(
    Load,
    "arc-swap",
    arc_swap::Guard<Arc<u64>>,
    Self(ArcSwap::from_pointee(VALUE)),
    |this| this.0.load(),
    |_this, guard| ***guard
);

impl Stores for Load {
    fn store(&self, pointer: Arc<u64>) {
        self.0.store(pointer);
    }
}

/// With a `Cache` for each thread, which its documentation recommends where reads are frequent and changes rare.
pub struct Cached(ArcSwap<u64>);

cached!(
    Cached,
    "arc-swap-cache",
    arc_swap::Cache<&'a ArcSwap<u64>, Arc<u64>>,
    arc_swap::Cache::new,
    Self(ArcSwap::from_pointee(VALUE))
);
