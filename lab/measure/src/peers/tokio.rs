//! tokio's reader-writer lock.

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::task::unconstrained;

use super::{ReadSide, VALUE};

/// Its readers are tasks that are not made to yield now and then.
pub struct InRwLock(RwLock<Box<u64>>);

impl ReadSide for InRwLock {
    const NAME: &'static str = "tokio-rwlock";
    type Reader<'a> = Runtime;
    type Guard<'a> = RwLockReadGuard<'a, Box<u64>>;

    fn new() -> Self {
        Self(RwLock::new(Box::new(VALUE)))
    }

    fn reader(&self) -> Runtime {
        Builder::new_current_thread().build().expect("without a driver there is nothing that could fail")
    }

    #[inline(always)]
    fn enter<'a>(&'a self, _: &'a Runtime) -> Self::Guard<'a> {
        self.0.blocking_read()
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        ***guard
    }

    #[inline(never)]
    fn read(&self, runtime: &Runtime, n: u32) -> u64 {
        let lock = std::hint::black_box(&self.0);
        runtime.block_on(unconstrained(async {
            let mut sum = 0_u64;
            for _ in 0..n {
                sum = sum.wrapping_add(**lock.read().await);
            }
            sum
        }))
    }
}
