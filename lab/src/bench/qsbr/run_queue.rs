//! How long the scheduler takes to let every thread run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::peers::std::BareLoad;
use crate::peers::{GracePeriods, ReadSide};

type Number = CachePadded<AtomicU64>;

/// No library: each thread repeats a number after the updater, which waits until all have. No thread makes a system call for it.
pub(super) struct RunQueue {
    number: Number,
    repeated: Mutex<Vec<Arc<Number>>>,
    pointer: BareLoad,
}

/// A thread that repeats.
pub(super) struct Repeater<'a> {
    queue: &'a RunQueue,
    own: Arc<Number>,
}

impl RunQueue {
    fn threads(&self) -> MutexGuard<'_, Vec<Arc<Number>>> {
        self.repeated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Repeater<'_> {
    fn drop(&mut self) {
        self.queue.threads().retain(|thread| !Arc::ptr_eq(thread, &self.own));
    }
}

impl ReadSide for RunQueue {
    const NAME: &'static str = "run-queue";
    type Reader<'a> = Repeater<'a>;
    type Guard<'a> = <BareLoad as ReadSide>::Guard<'a>;

    fn new() -> Self {
        Self { number: Number::default(), repeated: Mutex::default(), pointer: BareLoad::new() }
    }

    fn reader(&self) -> Repeater<'_> {
        let own = Arc::new(CachePadded::new(AtomicU64::new(self.number.load(Ordering::Acquire))));
        self.threads().push(Arc::clone(&own));
        Repeater { queue: self, own }
    }

    #[inline(always)]
    fn enter<'a>(&'a self, _: &'a Repeater<'_>) -> Self::Guard<'a> {
        self.pointer.enter(&())
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        self.pointer.load(guard)
    }

    #[inline(always)]
    fn quiescent(reader: &mut Repeater<'_>, n: u32) -> u64 {
        for _ in 0..n {
            // Acquire: what the updater did before; pairs with the AcqRel in `synchronize`. Release: what this thread has read;
            // pairs with the Acquire there.
            reader.own.store(reader.queue.number.load(Ordering::Acquire), Ordering::Release);
        }
        u64::from(n)
    }
}

impl GracePeriods for RunQueue {
    fn synchronize(&self) {
        let number = self.number.fetch_add(1, Ordering::AcqRel) + 1;
        let all = || self.threads().iter().all(|thread| thread.load(Ordering::Acquire) >= number);
        for checks in 0.. {
            if all() {
                break;
            }
            if checks > 1000 {
                thread::sleep(Duration::from_micros(20));
            }
        }
    }
}
