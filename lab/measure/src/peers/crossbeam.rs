//! crossbeam-epoch.

use std::sync::atomic::Ordering;

use crossbeam_epoch::{Collector, Guard, LocalHandle, Shared};

use super::{BoxSlot, Object, Reclaim};

/// With a collector and handles of its threads, which are never slower than the global ones: `epoch::pin()` looks the
/// handle up. `flush` where a thread waits. There is no barrier: dropping the collector frees the rest.
pub struct Epoch(Collector);

impl Reclaim for Epoch {
    const NAME: &'static str = "crossbeam-epoch";
    const RUNS_ALONE: bool = false;
    type Thread<'a> = LocalHandle;
    type Guard<'a> = Guard;
    type Slot<P: Object> = BoxSlot<P>;

    fn new() -> anyhow::Result<Self> {
        Ok(Self(Collector::new()))
    }

    fn thread(&self) -> LocalHandle {
        self.0.register()
    }

    #[inline(always)]
    fn enter(thread: &LocalHandle) -> Guard {
        thread.pin()
    }

    fn slot<P: Object>(value: P) -> BoxSlot<P> {
        BoxSlot::new(Box::new(value))
    }

    #[inline(always)]
    fn get<'a, P: Object>(_: &'a Guard, slot: &'a BoxSlot<P>) -> &'a P {
        // SAFETY: what is published lives until the guards are dropped that were there when it was retired.
        unsafe { &*slot.0.load(Ordering::Acquire) }
    }

    #[inline]
    fn replace<P: Object>(thread: &LocalHandle, slot: &BoxSlot<P>, value: P) {
        let guard = thread.pin();
        let old = Shared::from(slot.swap(Box::new(value)).cast_const());
        // SAFETY: the value came from a Box, which is what this library allocates too, and is published no more.
        unsafe { guard.defer_destroy(old) };
    }

    fn call<F: FnOnce() + Send + 'static>(thread: &LocalHandle, f: F) {
        let guard = thread.pin();
        guard.defer(f);
        guard.flush();
    }

    fn finish(self) -> impl Sized {
        drop(self.0);
    }
}
