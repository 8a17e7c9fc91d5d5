//! What frees the nodes, each as its documentation recommends.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use seize::Guard as _;
use stillpoint::rcu::{self, Hints};

use super::work::{self, Answer, Load};
use crate::harness::report::OURS;

/// A library with sections, inside which nodes are retired.
pub(super) trait System: Sync + Sized {
    /// Name in the report.
    const NAME: &'static str;
    /// The calling thread, known to the library for as long as this lives.
    type Thread<'a>
    where
        Self: 'a;
    /// Inside a section.
    type Guard<'a>;

    fn new() -> Self;

    /// Registers the calling thread.
    fn thread(&self) -> Self::Thread<'_>;

    /// Runs `body` inside a section. Sections nest.
    fn section<R>(thread: &Self::Thread<'_>, body: impl FnOnce(&Self::Guard<'_>) -> R) -> R;

    /// Memory for a node that is retired later.
    #[inline]
    fn allocate<N: Send + 'static>(node: N) -> NonNull<N> {
        NonNull::from(Box::leak(Box::new(node)))
    }

    /// A pointer to a node, which is not freed as long as the section lasts.
    #[inline]
    fn load<N>(_: &Self::Guard<'_>, pointer: &AtomicPtr<N>) -> *mut N {
        // Acquire: what was done before it was published; pairs with the Release in `Stack::push`.
        pointer.load(Ordering::Acquire)
    }

    /// Frees the node after the sections that are open now.
    ///
    /// # Safety
    ///
    /// The node comes from [`allocate`](Self::allocate), and no section that opens from now on can find it.
    unsafe fn retire<N: Send + 'static>(guard: &Self::Guard<'_>, node: NonNull<N>);

    /// Returns when all that was retired has been freed. Every thread has gone but for the caller.
    fn finish(self);
}

/// A system of the measurement.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) run: fn(&Load) -> anyhow::Result<Answer>,
}

impl Entry {
    fn of<S: System>() -> Self {
        Self { name: S::NAME, run: work::run::<S> }
    }
}

/// All systems of this build.
pub(super) fn all() -> Vec<Entry> {
    vec![
        Entry::of::<Stillpoint<true>>(),
        Entry::of::<Stillpoint<false>>(),
        #[cfg(feature = "liburcu")]
        Entry::of::<liburcu::Liburcu>(),
        Entry::of::<CrossbeamEpoch>(),
        Entry::of::<Seize>(),
    ]
}

/// As the guide says of nodes whose values only own memory: their own thread runs their destructors. If not `LOCAL`, the worker
/// does, and the thread may hold locks that these take.
struct Stillpoint<const LOCAL: bool>;

impl<const LOCAL: bool> System for Stillpoint<LOCAL> {
    const NAME: &'static str = if LOCAL { OURS } else { "stillpoint-worker" };
    type Thread<'a> = ();
    type Guard<'a> = ();

    fn new() -> Self {
        Self
    }

    fn thread(&self) {
        rcu::register();
    }

    #[inline]
    fn section<R>((): &(), body: impl FnOnce(&()) -> R) -> R {
        let _guard = rcu::enter();
        body(&())
    }

    #[inline]
    unsafe fn retire<N: Send + 'static>((): &(), node: NonNull<N>) {
        // SAFETY: the caller's contract; the node comes from a Box.
        unsafe { rcu::retire_raw(node, if LOCAL { Hints::new().local() } else { Hints::new() }) };
    }

    fn finish(self) {
        rcu::barrier();
    }
}

/// A collector of its own, so that dropping it frees the rest: there is no barrier.
struct CrossbeamEpoch(crossbeam_epoch::Collector);

impl System for CrossbeamEpoch {
    const NAME: &'static str = "crossbeam-epoch";
    type Thread<'a> = crossbeam_epoch::LocalHandle;
    type Guard<'a> = crossbeam_epoch::Guard;

    fn new() -> Self {
        Self(crossbeam_epoch::Collector::new())
    }

    fn thread(&self) -> crossbeam_epoch::LocalHandle {
        self.0.register()
    }

    #[inline]
    fn section<R>(
        thread: &crossbeam_epoch::LocalHandle,
        body: impl FnOnce(&crossbeam_epoch::Guard) -> R,
    ) -> R {
        body(&thread.pin())
    }

    #[inline]
    unsafe fn retire<N: Send + 'static>(guard: &crossbeam_epoch::Guard, node: NonNull<N>) {
        let node = crossbeam_epoch::Shared::from(node.as_ptr().cast_const());
        // SAFETY: the caller's contract; the node comes from a Box, which is what this library allocates too.
        unsafe { guard.defer_destroy(node) };
    }

    fn finish(self) {
        drop(self.0);
    }
}

/// With the default size of a batch, which is the recommended one. Dropping the collector frees the rest.
struct Seize(seize::Collector);

impl System for Seize {
    const NAME: &'static str = "seize";
    type Thread<'a> = &'a seize::Collector;
    type Guard<'a> = seize::LocalGuard<'a>;

    fn new() -> Self {
        Self(seize::Collector::new())
    }

    fn thread(&self) -> &seize::Collector {
        &self.0
    }

    #[inline]
    fn section<R>(thread: &&seize::Collector, body: impl FnOnce(&seize::LocalGuard<'_>) -> R) -> R {
        body(&thread.enter())
    }

    #[inline]
    fn load<N>(guard: &seize::LocalGuard<'_>, pointer: &AtomicPtr<N>) -> *mut N {
        guard.protect(pointer, Ordering::Acquire)
    }

    #[inline]
    unsafe fn retire<N: Send + 'static>(guard: &seize::LocalGuard<'_>, node: NonNull<N>) {
        // SAFETY: the caller's contract; the node comes from a Box.
        unsafe { guard.defer_retire(node.as_ptr(), seize::reclaim::boxed) };
    }

    fn finish(self) {
        drop(self.0);
    }
}

#[cfg(feature = "liburcu")]
mod liburcu {
    use std::ptr::NonNull;

    use super::System;
    use crate::peers::liburcu::{self, Node, Reader};

    /// With the single default worker.
    pub(super) struct Liburcu;

    impl System for Liburcu {
        const NAME: &'static str = crate::peers::LIBURCU;
        type Thread<'a> = Reader;
        type Guard<'a> = &'a Reader;

        fn new() -> Self {
            Self
        }

        fn thread(&self) -> Reader {
            Reader::register()
        }

        #[inline]
        fn section<R>(thread: &Reader, body: impl FnOnce(&&Reader) -> R) -> R {
            thread.section(|| body(&thread))
        }

        /// The node is the value of one of liburcu's.
        #[inline]
        fn allocate<N: Send + 'static>(node: N) -> NonNull<N> {
            Node::leak(node)
        }

        #[inline]
        unsafe fn retire<N: Send + 'static>(thread: &&Reader, node: NonNull<N>) {
            // SAFETY: the caller's contract; the value comes from `Node::leak`.
            unsafe { thread.retire(Node::of(node)) };
        }

        fn finish(self) {
            liburcu::barrier();
        }
    }
}
