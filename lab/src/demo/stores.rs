//! The contestants: five ways to let readers look into buckets that one updater at a time replaces.

use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock};

use arc_swap::ArcSwap;
use crossbeam_epoch::{self as epoch, Atomic, Owned};
use stillpoint::rcu::{self, Rcu};

use super::table::{Bucket, Change, NextHop, slot};

/// A forwarding table that many threads look into while one changes it.
pub(super) trait Store: Sync {
    /// How the demo's tables call it.
    const NAME: &'static str;

    fn new(buckets: Vec<Bucket>) -> Self;

    /// Returns the next hop of the longest prefix around `address`.
    fn lookup(&self, address: u32) -> Option<NextHop>;

    /// Puts the successor of the bucket at `slot` in its place. For one thread at a time.
    fn replace(&self, slot: usize, change: Change);

    /// Called repeatedly while replaced buckets are awaited and no thread reads: helps if it can.
    fn reclaim() {}
}

const NOT_POISONED: &str = "no thread panics under the lock";

/// One mutex around the whole table.
pub(super) struct InMutex(Mutex<Vec<Bucket>>);

impl Store for InMutex {
    const NAME: &'static str = "Mutex";

    fn new(buckets: Vec<Bucket>) -> Self {
        Self(Mutex::new(buckets))
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        self.0.lock().expect(NOT_POISONED)[slot(address)].lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let mut buckets = self.0.lock().expect(NOT_POISONED);
        let new = buckets[slot].successor(change);
        let old = mem::replace(&mut buckets[slot], new);
        // Freed outside the lock.
        drop(buckets);
        drop(old);
    }
}

/// One reader-writer lock around the whole table.
pub(super) struct InRwLock(RwLock<Vec<Bucket>>);

impl Store for InRwLock {
    const NAME: &'static str = "RwLock";

    fn new(buckets: Vec<Bucket>) -> Self {
        Self(RwLock::new(buckets))
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        self.0.read().expect(NOT_POISONED)[slot(address)].lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let mut buckets = self.0.write().expect(NOT_POISONED);
        let new = buckets[slot].successor(change);
        let old = mem::replace(&mut buckets[slot], new);
        drop(buckets);
        drop(old);
    }
}

/// An `ArcSwap` for each bucket; lookups take `load()`, its fast path.
pub(super) struct InArcSwap(Box<[ArcSwap<Bucket>]>);

impl Store for InArcSwap {
    const NAME: &'static str = "arc-swap";

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

/// An epoch-protected pointer for each bucket; lookups pin, replaced buckets are deferred.
pub(super) struct InEpoch(Box<[Atomic<Bucket>]>);

impl Store for InEpoch {
    const NAME: &'static str = "crossbeam-epoch";

    fn new(buckets: Vec<Bucket>) -> Self {
        Self(buckets.into_iter().map(Atomic::new).collect())
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        let guard = epoch::pin();
        // Acquire: pairs with the swap in `replace`.
        let bucket = self.0[slot(address)].load(Ordering::Acquire, &guard);
        // SAFETY: the pointer came from an `Owned` and is never null, and what `replace` took out after this
        // thread was pinned is not destroyed before it is unpinned.
        unsafe { bucket.deref() }.lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let guard = epoch::pin();
        // Acquire: pairs with the swap below, in the thread that was the updater before.
        let bucket = self.0[slot].load(Ordering::Acquire, &guard);
        // SAFETY: as in `lookup`.
        let new = unsafe { bucket.deref() }.successor(change);
        // Release: publishes the bucket; pairs with the Acquire in `lookup`.
        let old = self.0[slot].swap(Owned::new(new), Ordering::AcqRel, &guard);
        // SAFETY: the swap took the only shared pointer to `old`, once; a `Bucket` may be dropped by any thread.
        unsafe { guard.defer_destroy(old) };
    }

    fn reclaim() {
        epoch::pin().flush();
    }
}

impl Drop for InEpoch {
    fn drop(&mut self) {
        for bucket in &mut self.0 {
            // SAFETY: `&mut self` proves that no other thread has the pointer, and it came from an `Owned`.
            drop(unsafe { mem::take(bucket).try_into_owned() });
        }
    }
}

/// An `Rcu` for each bucket; replaced buckets are retired.
pub(super) struct InRcu(Box<[Rcu<Bucket>]>);

impl Store for InRcu {
    const NAME: &'static str = "stillpoint";

    fn new(buckets: Vec<Bucket>) -> Self {
        Self(buckets.into_iter().map(Rcu::new).collect())
    }

    #[inline]
    fn lookup(&self, address: u32) -> Option<NextHop> {
        self.0[slot(address)].load(&rcu::enter()).lookup(address)
    }

    fn replace(&self, slot: usize, change: Change) {
        let guard = rcu::enter();
        let new = self.0[slot].load(&guard).successor(change);
        // Outside the section, so that the updater can be throttled.
        drop(guard);
        drop(self.0[slot].replace(new));
    }
}
