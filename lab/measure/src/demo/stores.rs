//! The ways to let readers look into buckets that one updater at a time replaces.

use std::mem;
use std::sync::{Arc, Mutex, RwLock};

use arc_swap::ArcSwap;

use super::table::{Bucket, Change, NextHop, slot};
use crate::peers::Reclaim;

/// A forwarding table that many threads look into while one changes it.
pub(super) trait Store: Sync + 'static {
    /// The calling thread, known to the store for as long as this lives.
    type Thread<'a>;

    fn new(buckets: Vec<Bucket>) -> anyhow::Result<Self>
    where
        Self: Sized;

    /// Registers the calling thread.
    fn thread(&self) -> Self::Thread<'_>;

    /// Returns the next hop of the longest prefix around `address`.
    fn lookup(&self, thread: &Self::Thread<'_>, address: u32) -> Option<NextHop>;

    /// Puts the successor of the bucket at `slot` in its place. For one thread at a time.
    fn replace(&self, thread: &Self::Thread<'_>, slot: usize, change: Change);

    /// Called repeatedly while replaced buckets are awaited and no thread reads.
    fn reclaim(_thread: &Self::Thread<'_>) {}
}

/// A pointer for each bucket, and a library that frees replaced ones after a grace period.
pub(super) struct Reclaimed<R: Reclaim> {
    slots: Box<[R::Slot<Bucket>]>,
    library: R,
}

impl<R: Reclaim + 'static> Store for Reclaimed<R> {
    type Thread<'a> = R::Thread<'a>;

    fn new(buckets: Vec<Bucket>) -> anyhow::Result<Self> {
        Ok(Self { library: R::new()?, slots: buckets.into_iter().map(R::slot).collect() })
    }

    fn thread(&self) -> R::Thread<'_> {
        self.library.thread()
    }

    #[inline]
    fn lookup(&self, thread: &R::Thread<'_>, address: u32) -> Option<NextHop> {
        let guard = R::enter(thread);
        R::get(&guard, &self.slots[slot(address)]).lookup(address)
    }

    fn replace(&self, thread: &R::Thread<'_>, slot: usize, change: Change) {
        let guard = R::enter(thread);
        let new = R::get(&guard, &self.slots[slot]).successor(change);
        // Outside the section, so that the updater can be throttled.
        drop(guard);
        R::replace(thread, &self.slots[slot], new);
    }

    fn reclaim(thread: &R::Thread<'_>) {
        if !R::RUNS_ALONE {
            R::call(thread, || ());
        }
    }
}

/// An `ArcSwap` for each bucket; lookups take `load()`, its fast path.
pub(super) struct InArcSwap(Box<[ArcSwap<Bucket>]>);

impl Store for InArcSwap {
    type Thread<'a> = ();

    fn new(buckets: Vec<Bucket>) -> anyhow::Result<Self> {
        Ok(Self(buckets.into_iter().map(ArcSwap::from_pointee).collect()))
    }

    fn thread(&self) {}

    #[inline]
    fn lookup(&self, (): &(), address: u32) -> Option<NextHop> {
        self.0[slot(address)].load().lookup(address)
    }

    fn replace(&self, (): &(), slot: usize, change: Change) {
        let new = self.0[slot].load().successor(change);
        drop(self.0[slot].swap(Arc::new(new)));
    }
}

/// One lock around the whole table.
macro_rules! locked {
    ($store:ident, $lock:ident, $read:ident, $write:ident) => {
        pub(super) struct $store($lock<Vec<Bucket>>);

        impl Store for $store {
            type Thread<'a> = ();

            fn new(buckets: Vec<Bucket>) -> anyhow::Result<Self> {
                Ok(Self($lock::new(buckets)))
            }

            fn thread(&self) {}

            #[inline]
            fn lookup(&self, (): &(), address: u32) -> Option<NextHop> {
                self.0.$read().expect("no thread panics under the lock")[slot(address)].lookup(address)
            }

            fn replace(&self, (): &(), slot: usize, change: Change) {
                let mut buckets = self.0.$write().expect("no thread panics under the lock");
                let new = buckets[slot].successor(change);
                let old = mem::replace(&mut buckets[slot], new);
                // Freed outside the lock.
                drop(buckets);
                drop(old);
            }
        }
    };
}

locked!(InMutex, Mutex, lock, lock);
locked!(InRwLock, RwLock, read, write);
