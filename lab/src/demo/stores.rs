//! The contestants: five ways to let readers look into buckets that an updater replaces.
//!
//! There is one updater at a time. It builds a bucket from the current one and puts it in the place of that.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use arc_swap::ArcSwap;
use crossbeam_epoch::{self as epoch, Atomic, Owned};
use stillpoint::rcu::{self, Rcu};

use super::table::{Bucket, Change, NextHop, Place};

/// A forwarding table that many threads look into while one changes it.
pub(super) trait Store: Sync {
    /// How the demo's tables call it.
    const NAME: &'static str;

    fn new(buckets: Vec<Bucket>) -> Self;

    /// The next hop of the longest prefix around `address`.
    fn lookup(&self, address: IpAddr) -> Option<NextHop>;

    /// Puts the successor of the bucket at `slot` in its place. For one thread at a time.
    fn replace(&self, slot: usize, change: &Change);

    /// Called repeatedly while replaced buckets are awaited and nobody reads: helps if it can.
    fn reclaim() {}
}

/// One mutex around the whole table.
pub(super) struct InMutex(Mutex<Box<[Bucket]>>);

impl InMutex {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Box<[Bucket]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for InMutex {
    const NAME: &'static str = "Mutex";

    fn new(buckets: Vec<Bucket>) -> Self {
        InMutex(Mutex::new(buckets.into()))
    }

    #[inline]
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        let Place { slot, rest } = Place::of(address);
        self.lock()[slot].lookup(rest)
    }

    fn replace(&self, slot: usize, change: &Change) {
        let mut buckets = self.lock();
        let new = buckets[slot].successor(change);
        let old = std::mem::replace(&mut buckets[slot], new);
        drop(buckets);
        drop(old);
    }
}

/// One reader-writer lock around the whole table.
pub(super) struct InRwLock(RwLock<Box<[Bucket]>>);

impl InRwLock {
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Box<[Bucket]>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for InRwLock {
    const NAME: &'static str = "RwLock";

    fn new(buckets: Vec<Bucket>) -> Self {
        InRwLock(RwLock::new(buckets.into()))
    }

    #[inline]
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        let Place { slot, rest } = Place::of(address);
        self.read()[slot].lookup(rest)
    }

    fn replace(&self, slot: usize, change: &Change) {
        let mut buckets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let new = buckets[slot].successor(change);
        let old = std::mem::replace(&mut buckets[slot], new);
        drop(buckets);
        drop(old);
    }
}

/// An `ArcSwap` a bucket; lookups take `load()`, its fast path.
pub(super) struct InArcSwap(Box<[ArcSwap<Bucket>]>);

impl Store for InArcSwap {
    const NAME: &'static str = "arc-swap";

    fn new(buckets: Vec<Bucket>) -> Self {
        InArcSwap(buckets.into_iter().map(ArcSwap::from_pointee).collect())
    }

    #[inline]
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        let Place { slot, rest } = Place::of(address);
        self.0[slot].load().lookup(rest)
    }

    fn replace(&self, slot: usize, change: &Change) {
        let new = self.0[slot].load().successor(change);
        drop(self.0[slot].swap(Arc::new(new)));
    }
}

/// An epoch-protected pointer a bucket; lookups pin, replaced buckets are deferred.
pub(super) struct InEpoch(Box<[Atomic<Bucket>]>);

impl Store for InEpoch {
    const NAME: &'static str = "crossbeam-epoch";

    fn new(buckets: Vec<Bucket>) -> Self {
        InEpoch(buckets.into_iter().map(Atomic::new).collect())
    }

    #[inline]
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        let Place { slot, rest } = Place::of(address);
        let guard = epoch::pin();
        // Acquire: pairs with the swap in `replace`.
        let bucket = self.0[slot].load(Ordering::Acquire, &guard);
        // SAFETY: the pointer came from an `Owned` and is never null, and what `replace` took out after this
        // thread was pinned is not destroyed before it is unpinned.
        unsafe { bucket.deref() }.lookup(rest)
    }

    fn replace(&self, slot: usize, change: &Change) {
        let guard = epoch::pin();
        // Acquire: pairs with the swap below, of whoever was the updater before.
        let bucket = self.0[slot].load(Ordering::Acquire, &guard);
        // SAFETY: as in `lookup`.
        let new = unsafe { bucket.deref() }.successor(change);
        // Release: pairs with the load in `lookup`, which reads the bucket's contents.
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
        for slot in &mut self.0 {
            // SAFETY: `&mut self` proves that nobody else has the pointer, and it came from an `Owned`.
            drop(unsafe { std::mem::take(slot).try_into_owned() });
        }
    }
}

/// An `Rcu` a bucket; replaced buckets go to the background reclaimer.
pub(super) struct InRcu(Box<[Rcu<Bucket>]>);

impl Store for InRcu {
    const NAME: &'static str = "stillpoint";

    fn new(buckets: Vec<Bucket>) -> Self {
        InRcu(buckets.into_iter().map(Rcu::new).collect())
    }

    #[inline]
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        let Place { slot, rest } = Place::of(address);
        let guard = rcu::enter();
        self.0[slot].load(&guard).lookup(rest)
    }

    fn replace(&self, slot: usize, change: &Change) {
        let guard = rcu::enter();
        let new = self.0[slot].load(&guard).successor(change);
        // Outside the section, so that the reclaimer may make the updater wait when too much awaits it.
        drop(guard);
        drop(self.0[slot].replace(new));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::generate;
    use super::super::rib::Rib;
    use super::super::table::{FAMILY_SLOTS, Gauge};
    use super::*;

    /// Readers only ever see a hop that some version gave, and in the end the table is what the RIB says and every
    /// replaced bucket has been freed.
    fn serves_readers_while_it_is_updated<S: Store>() {
        let routes = generate::routes(300, 11);
        let mut rib = Rib::new(&routes, 5);
        let gauge = Gauge::leaked();
        let store = S::new((0..FAMILY_SLOTS * 2).map(|_| Bucket::new(gauge)).collect());
        rib.announce_all(|slot, change| store.replace(slot, change));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..2 {
                let (store, stop, routes) = (&store, &stop, &routes);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    while !stop.load(Ordering::Relaxed) {
                        let hop = store.lookup(routes.address(&mut random));
                        assert!(hop.is_none_or(|hop| hop < routes.hops()), "{hop:?}");
                    }
                });
            }
            (0..20_000).for_each(|_| rib.update(|slot, change| store.replace(slot, change)));
            stop.store(true, Ordering::Relaxed);
        });
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..2000 {
            let address = routes.address(&mut random);
            assert_eq!(store.lookup(address), rib.lookup(address), "{address}");
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while gauge.awaiting() > 0 {
            assert!(Instant::now() < deadline, "{} bytes are never freed", gauge.awaiting());
            S::reclaim();
            thread::yield_now();
        }
    }

    #[test]
    fn a_mutex_serves_readers_while_it_is_updated() {
        serves_readers_while_it_is_updated::<InMutex>();
    }

    #[test]
    fn a_reader_writer_lock_serves_readers_while_it_is_updated() {
        serves_readers_while_it_is_updated::<InRwLock>();
    }

    #[test]
    fn arc_swap_serves_readers_while_it_is_updated() {
        serves_readers_while_it_is_updated::<InArcSwap>();
    }

    #[test]
    fn crossbeam_epoch_serves_readers_while_it_is_updated() {
        serves_readers_while_it_is_updated::<InEpoch>();
    }

    #[test]
    fn stillpoint_serves_readers_while_it_is_updated() {
        serves_readers_while_it_is_updated::<InRcu>();
    }
}
