//! seize.

use std::sync::atomic::Ordering;

use seize::{Collector, Guard as _, LocalGuard, reclaim};

use super::{BoxSlot, Object, Reclaim};

/// Threads of the measurement of `call` that may be inside a section: the caller and a reader.
const THREADS: usize = 2;

/// With the default size of a batch, as recommended; `flush` where a thread waits. A writer does not read what it
/// retires and needs no guard. There is no barrier: dropping the collector frees the rest.
pub struct Seize(Collector);

impl Reclaim for Seize {
    const NAME: &'static str = "seize";
    type Thread<'a> = &'a Collector;
    type Guard<'a> = LocalGuard<'a>;
    type Slot<P: Object> = BoxSlot<P>;

    fn new() -> anyhow::Result<Self> {
        Ok(Self(Collector::new()))
    }

    fn thread(&self) -> &Collector {
        &self.0
    }

    #[inline(always)]
    fn enter<'a>(thread: &'a &Collector) -> LocalGuard<'a> {
        thread.enter()
    }

    fn slot<P: Object>(value: P) -> BoxSlot<P> {
        BoxSlot::new(Box::new(value))
    }

    #[inline(always)]
    fn get<'a, P: Object>(guard: &'a LocalGuard<'_>, slot: &'a BoxSlot<P>) -> &'a P {
        // SAFETY: the guard protects the value.
        unsafe { &*guard.protect(&slot.0, Ordering::Acquire) }
    }

    #[inline]
    fn replace<P: Object>(thread: &&Collector, slot: &BoxSlot<P>, value: P) {
        let old = slot.swap(Box::new(value));
        // SAFETY: the value came from a Box, is published no more, and this thread does not use it.
        unsafe { thread.retire(old, reclaim::boxed) };
    }

    fn call<F: FnOnce() + Send + 'static>(thread: &&Collector, f: F) {
        unsafe fn run<F: FnOnce()>(function: *mut F, _: &Collector) {
            // SAFETY: the pointer came from the Box below.
            (unsafe { Box::from_raw(function) })();
        }
        let guard = thread.enter();
        // SAFETY: `run` takes what it is given: a Box of this type that was never published.
        unsafe { guard.defer_retire(Box::into_raw(Box::new(f)), run) };
        // A batch is not flushed if it has fewer entries than there are active threads.
        for _ in 1..THREADS {
            // SAFETY: the box was never published.
            unsafe { guard.defer_retire(Box::into_raw(Box::new(())), reclaim::boxed) };
        }
        guard.flush();
    }

    fn finish(self) -> impl Sized {
        drop(self.0);
    }
}
