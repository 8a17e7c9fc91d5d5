//! The ways to let readers look into buckets that one updater at a time replaces.

use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, RwLock};

use arc_swap::ArcSwap;
use crossbeam_epoch::{Atomic, Owned};
use stillpoint::rcu::{self, Rcu};

use super::table::{Bucket, Change, NextHop, slot};

/// A forwarding table that many threads look into while one changes it.
pub(super) trait Store: Sync + 'static {
    fn new(buckets: Vec<Bucket>) -> Self;

    /// Returns the next hop of the longest prefix around `address`.
    fn lookup(&self, address: u32) -> Option<NextHop>;

    /// Puts the successor of the bucket at `slot` in its place. For one thread at a time.
    fn replace(&self, slot: usize, change: Change);

    /// Called repeatedly while replaced buckets are awaited and no thread reads.
    fn reclaim() {}
}

/// Ours: the library frees replaced buckets.
pub(super) struct InRcu(Box<[Rcu<Bucket>]>);

impl Store for InRcu {
    fn new(buckets: Vec<Bucket>) -> Self {
        Self(buckets.into_iter().map(Rcu::new).collect())
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        self.0[slot(address)].load(&rcu::enter()).lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let new = self.0[slot].load(&rcu::enter()).successor(change);
        // Outside the section, so that the updater can be throttled.
        drop(self.0[slot].replace(new));
    }
}

/// Pointers of crossbeam-epoch, which frees replaced buckets.
pub(super) struct InEpoch(Box<[Atomic<Bucket>]>);

impl Store for InEpoch {
    fn new(buckets: Vec<Bucket>) -> Self {
        Self(buckets.into_iter().map(Atomic::new).collect())
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        let guard = crossbeam_epoch::pin();
        // Acquire: the bucket's routes; pairs with the Release in `replace`.
        let bucket = self.0[slot(address)].load(Acquire, &guard);
        // SAFETY: a slot is never null, and what is replaced is freed after the section.
        unsafe { bucket.deref() }.lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let guard = crossbeam_epoch::pin();
        // Acquire: as in `lookup`.
        let old = self.0[slot].load(Acquire, &guard);
        // SAFETY: as in `lookup`.
        let new = unsafe { old.deref() }.successor(change);
        // Release: the new bucket's routes; pairs with the Acquire in `lookup`.
        self.0[slot].store(Owned::new(new), Release);
        // SAFETY: no section that opens from now on finds the bucket, and only this thread replaces it.
        unsafe { guard.defer_destroy(old) };
    }

    fn reclaim() {
        crossbeam_epoch::pin().flush();
    }
}

/// An `ArcSwap` for each bucket; lookups take `load()`, its fast path.
pub(super) struct InArcSwap(Box<[ArcSwap<Bucket>]>);

impl Store for InArcSwap {
    fn new(buckets: Vec<Bucket>) -> Self {
        Self(buckets.into_iter().map(ArcSwap::from_pointee).collect())
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        self.0[slot(address)].load().lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let new = self.0[slot].load().successor(change);
        drop(self.0[slot].swap(Arc::new(new)));
    }
}

/// One lock around the whole table.
pub(super) struct InRwLock(RwLock<Vec<Bucket>>);

impl Store for InRwLock {
    fn new(buckets: Vec<Bucket>) -> Self {
        Self(RwLock::new(buckets))
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        self.0.read().expect("no thread panics under the lock")[slot(address)].lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let mut buckets = self.0.write().expect("no thread panics under the lock");
        let new = buckets[slot].successor(change);
        let old = mem::replace(&mut buckets[slot], new);
        // Freed outside the lock.
        drop(buckets);
        drop(old);
    }
}
