//! The systems of the callback bench, each as its documentation recommends, in its fastest correct form.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use seize::Guard as _;
use stillpoint::rcu::{self, Hints, Limits, Rcu};

use super::flood::{self, Flood};
use super::{latency, retire};
use crate::harness::Skipped;
use crate::harness::report::OURS;

/// A library that does things after grace periods.
pub(super) trait Reclaimer: Sync + Sized {
    /// Name in the report.
    const NAME: &'static str;
    /// Whether what is deferred is done though no thread opens a section any more.
    const RUNS_ALONE: bool = true;
    /// The calling thread, known to the library for as long as this lives.
    type Thread<'a>
    where
        Self: 'a;
    /// A pointer that readers follow. Dropping it drops the value: nobody reads it then.
    type Slot<P: Payload>: Send + Sync;
    /// What is left when all is done.
    type Rest;

    fn new() -> anyhow::Result<Self>;

    /// Registers the calling thread.
    fn thread(&self) -> Self::Thread<'_>;

    fn slot<P: Payload>(value: P) -> Self::Slot<P>;

    /// Publishes `value` and retires what was published.
    fn replace<P: Payload>(thread: &Self::Thread<'_>, slot: &Self::Slot<P>, value: P);

    /// Calls `f` with what is published, in a section.
    fn read<P: Payload, R>(thread: &Self::Thread<'_>, slot: &Self::Slot<P>, f: impl FnOnce(&P) -> R) -> R;

    /// Has `f` called, as soon as the library can.
    fn call(thread: &Self::Thread<'_>, f: impl FnOnce() + Send + 'static);

    /// Returns when all that was deferred has been done. Every thread is outside sections, and gone but for the caller.
    fn finish(self) -> Self::Rest;

    /// How many bytes may wait, if the library can be told.
    fn limit(_bytes: Option<u64>) {}
}

/// What is published and retired.
pub(super) trait Payload: Send + Sync + 'static {
    fn new(number: u64) -> Self;

    /// Looks at all of it.
    fn sum(&self) -> u64;
}

/// A system of the bench: what can be measured of it.
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) runs_alone: bool,
    pub(super) latency: fn(&latency::Cell, Duration) -> anyhow::Result<Histogram<u64>>,
    pub(super) retire: fn(&retire::Cell, Duration) -> anyhow::Result<f64>,
    pub(super) flood: fn(Duration) -> anyhow::Result<Flood>,
}

impl System {
    fn of<R: Reclaimer>() -> Self {
        Self {
            name: R::NAME,
            runs_alone: R::RUNS_ALONE,
            latency: latency::run::<R>,
            retire: retire::run::<R>,
            flood: flood::run::<R>,
        }
    }
}

/// All systems of this build, and those it lacks.
pub(super) fn all() -> (Vec<System>, Vec<Skipped>) {
    let systems = vec![
        System::of::<Stillpoint>(),
        #[cfg(feature = "liburcu")]
        System::of::<liburcu::Liburcu>(),
        #[cfg(feature = "liburcu")]
        System::of::<liburcu::Polling>(),
        System::of::<CrossbeamEpoch>(),
        System::of::<Seize>(),
    ];
    let skipped = vec![
        #[cfg(not(feature = "liburcu"))]
        crate::peers::liburcu_missing(),
    ];
    (systems, skipped)
}

struct Stillpoint;

impl Reclaimer for Stillpoint {
    const NAME: &'static str = OURS;
    type Thread<'a> = ();
    type Slot<P: Payload> = Rcu<P>;
    type Rest = ();

    fn new() -> anyhow::Result<Self> {
        Ok(Self)
    }

    fn thread(&self) {
        rcu::register();
    }

    fn slot<P: Payload>(value: P) -> Rcu<P> {
        Rcu::new(value)
    }

    #[inline]
    fn replace<P: Payload>((): &(), slot: &Rcu<P>, value: P) {
        slot.replace(value).retire_with(Hints::new().local());
    }

    #[inline]
    fn read<P: Payload, R>((): &(), slot: &Rcu<P>, f: impl FnOnce(&P) -> R) -> R {
        f(slot.load(&rcu::enter()))
    }

    fn call((): &(), f: impl FnOnce() + Send + 'static) {
        rcu::call(f);
    }

    fn finish(self) {
        rcu::barrier();
    }

    fn limit(bytes: Option<u64>) {
        let default = Limits::default();
        rcu::set_limits(Limits { bytes: bytes.unwrap_or(default.bytes), ..default });
    }
}

/// A pointer made of a `Box`.
#[derive(Debug)]
pub(super) struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    fn new(value: Box<T>) -> Self {
        Self(AtomicPtr::new(Box::into_raw(value)))
    }

    /// Publishes `new`; what was published, which readers may still use.
    #[inline]
    fn swap(&self, new: Box<T>) -> *mut T {
        // Release: readers see the value initialized. Acquire: so does who frees the old one.
        self.0.swap(Box::into_raw(new), Ordering::AcqRel)
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a Box, and readers and writers borrow the slot.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

/// A collector of its own and handles of the threads, which are never slower than the global ones. Values are destroyed
/// under the guard that saw them published; `flush` where somebody waits. There is no barrier: dropping the collector
/// frees the rest.
struct CrossbeamEpoch(crossbeam_epoch::Collector);

impl Reclaimer for CrossbeamEpoch {
    const NAME: &'static str = "crossbeam-epoch";
    const RUNS_ALONE: bool = false;
    type Thread<'a> = crossbeam_epoch::LocalHandle;
    type Slot<P: Payload> = Slot<P>;
    type Rest = ();

    fn new() -> anyhow::Result<Self> {
        Ok(Self(crossbeam_epoch::Collector::new()))
    }

    fn thread(&self) -> Self::Thread<'_> {
        self.0.register()
    }

    fn slot<P: Payload>(value: P) -> Slot<P> {
        Slot::new(Box::new(value))
    }

    #[inline]
    fn replace<P: Payload>(thread: &Self::Thread<'_>, slot: &Slot<P>, value: P) {
        let guard = thread.pin();
        let old = crossbeam_epoch::Shared::from(slot.swap(Box::new(value)).cast_const());
        // SAFETY: the value came from a Box, which is what this library allocates too, and is published no more.
        unsafe { guard.defer_destroy(old) };
    }

    #[inline]
    fn read<P: Payload, R>(thread: &Self::Thread<'_>, slot: &Slot<P>, f: impl FnOnce(&P) -> R) -> R {
        let _guard = thread.pin();
        // SAFETY: what is published lives until the guards are dropped that were there when it was retired.
        f(unsafe { &*slot.0.load(Ordering::Acquire) })
    }

    fn call(thread: &Self::Thread<'_>, f: impl FnOnce() + Send + 'static) {
        let guard = thread.pin();
        guard.defer(f);
        guard.flush();
    }

    fn finish(self) {
        drop(self.0);
    }
}

/// With the default size of a batch, which is the recommended one; `flush` where somebody waits. A writer does not look at
/// what it retires and needs no guard. There is no barrier: dropping the collector frees the rest.
struct Seize(seize::Collector);

impl Reclaimer for Seize {
    const NAME: &'static str = "seize";
    type Thread<'a> = &'a seize::Collector;
    type Slot<P: Payload> = Slot<P>;
    type Rest = ();

    fn new() -> anyhow::Result<Self> {
        Ok(Self(seize::Collector::new()))
    }

    fn thread(&self) -> &seize::Collector {
        &self.0
    }

    fn slot<P: Payload>(value: P) -> Slot<P> {
        Slot::new(Box::new(value))
    }

    #[inline]
    fn replace<P: Payload>(thread: &Self::Thread<'_>, slot: &Slot<P>, value: P) {
        let old = slot.swap(Box::new(value));
        // SAFETY: the value came from a Box, is published no more, and this thread does not use it.
        unsafe { thread.retire(old, seize::reclaim::boxed) };
    }

    #[inline]
    fn read<P: Payload, R>(thread: &Self::Thread<'_>, slot: &Slot<P>, f: impl FnOnce(&P) -> R) -> R {
        let guard = thread.enter();
        // SAFETY: the guard protects the value.
        f(unsafe { &*guard.protect(&slot.0, Ordering::Acquire) })
    }

    fn call(thread: &Self::Thread<'_>, f: impl FnOnce() + Send + 'static) {
        unsafe fn run<F: FnOnce()>(function: *mut F, _: &seize::Collector) {
            // SAFETY: the pointer came from the Box below.
            (unsafe { Box::from_raw(function) })();
        }
        let guard = thread.enter();
        // SAFETY: `run` takes what it is given: a Box of this type that was never published.
        unsafe { guard.defer_retire(Box::into_raw(Box::new(f)), run) };
        // A batch is not flushed if it has fewer entries than there are active threads.
        for _ in 1..latency::THREADS {
            // SAFETY: the box was never published.
            unsafe { guard.defer_retire(Box::into_raw(Box::new(())), seize::reclaim::boxed) };
        }
        guard.flush();
    }

    fn finish(self) {
        drop(self.0);
    }
}

#[cfg(feature = "liburcu")]
mod liburcu {
    use super::{Ordering, Payload, Reclaimer, Slot};
    use crate::peers::liburcu::{self, Node, PollingWorkers, Reader};

    /// With the single default worker, which is asleep while nothing is queued. It sleeps 10 ms too when it is woken.
    pub(super) struct Liburcu;

    /// With a worker for each CPU that never sleeps longer than 10 ms: the fastest form, as nobody wakes it, and the
    /// one with the longest queue.
    pub(super) struct Polling(PollingWorkers);

    impl Reclaimer for Liburcu {
        const NAME: &'static str = crate::peers::LIBURCU;
        type Thread<'a> = Reader;
        type Slot<P: Payload> = Slot<Node<P>>;
        type Rest = ();

        fn new() -> anyhow::Result<Self> {
            Ok(Self)
        }

        fn thread(&self) -> Reader {
            Reader::register()
        }

        fn slot<P: Payload>(value: P) -> Slot<Node<P>> {
            Slot::new(Node::new(value))
        }

        #[inline]
        fn replace<P: Payload>(thread: &Reader, slot: &Slot<Node<P>>, value: P) {
            let old = slot.swap(Node::new(value));
            // SAFETY: the node came from a Box and is published no more.
            unsafe { thread.retire(old) };
        }

        #[inline]
        fn read<P: Payload, R>(thread: &Reader, slot: &Slot<Node<P>>, f: impl FnOnce(&P) -> R) -> R {
            thread.section(|| {
                // SAFETY: what is published lives until the sections end that were open when it was retired. Only the
                // value is borrowed: the head is liburcu's.
                f(unsafe { &(*slot.0.load(Ordering::Acquire)).value })
            })
        }

        fn call(thread: &Reader, f: impl FnOnce() + Send + 'static) {
            thread.call(f);
        }

        fn finish(self) {
            liburcu::barrier();
        }
    }

    impl Reclaimer for Polling {
        const NAME: &'static str = "liburcu-memb-rt";
        type Thread<'a> = Reader;
        type Slot<P: Payload> = Slot<Node<P>>;
        type Rest = PollingWorkers;

        fn new() -> anyhow::Result<Self> {
            PollingWorkers::start().map(Self)
        }

        fn thread(&self) -> Reader {
            Liburcu.thread()
        }

        fn slot<P: Payload>(value: P) -> Slot<Node<P>> {
            Liburcu::slot(value)
        }

        #[inline]
        fn replace<P: Payload>(thread: &Reader, slot: &Slot<Node<P>>, value: P) {
            Liburcu::replace(thread, slot, value);
        }

        #[inline]
        fn read<P: Payload, R>(thread: &Reader, slot: &Slot<Node<P>>, f: impl FnOnce(&P) -> R) -> R {
            Liburcu::read(thread, slot, f)
        }

        fn call(thread: &Reader, f: impl FnOnce() + Send + 'static) {
            Liburcu::call(thread, f);
        }

        fn finish(self) -> PollingWorkers {
            Liburcu.finish();
            self.0
        }
    }
}
