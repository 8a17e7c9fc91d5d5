//! Changes of a chain, under its lock. Why readers may look at it meanwhile is in [`chain`](super::chain).

use super::bucket::{Bucket, LOCKED, MOVED, NEXT, Shape, Slots, TAGS, tag};
use super::chain::{Chain, Moved, Version};
use crate::sync::{pause, step};

impl<'t, S: Shape> Chain<'t, S> {
    /// Takes the lock.
    #[inline(always)]
    pub fn lock(self) -> Result<Locked<'t, S>, Moved> {
        self.home.prefetch_last();
        let mut head = self.home.head();
        if head & (LOCKED | MOVED) != 0 || !self.home.try_lock(head) {
            head = self.lock_slow()?;
        }
        Ok(Locked { chain: self, head })
    }

    /// Takes the lock, and returns the head.
    #[cold]
    fn lock_slow(self) -> Result<u64, Moved> {
        let mut round = 0;
        loop {
            let head = self.home.head();
            if head & MOVED != 0 {
                return Err(Moved);
            }
            if head & LOCKED == 0 && self.home.try_lock(head) {
                return Ok(head);
            }
            pause(round);
            round = round.saturating_add(1);
        }
    }

    /// Adds what `write` stores in a slot to a chain that no other thread reads or changes yet.
    #[inline(always)]
    pub fn add_unshared(self, hash: u64, write: impl FnOnce(Bucket<'t, S>, usize)) {
        let head = self.home.head();
        let mut free = Slots::with::<S>(head, 0);
        if let (Some(slot), true) = (free.next(), S::SPARE == 0 || free.next().is_some()) {
            write(self.home, slot);
            self.home.set_head(head | tag(hash) << (8 * slot));
        } else {
            self.own().insert(hash, write);
        }
    }

    #[inline(always)]
    fn next(self, bucket: Bucket<'t, S>) -> Option<Bucket<'t, S>> {
        self.overflow.bucket(bucket.own_link())
    }

    /// [`Locked::find`], given the head of the first bucket.
    #[inline(always)]
    pub fn find(
        self,
        mut head: u64,
        hash: u64,
        mut is_it: impl FnMut(Bucket<'t, S>, usize) -> bool,
    ) -> Option<Place<'t, S>> {
        let (mut bucket, mut previous) = (self.home, None);
        loop {
            if let Some(slot) = Slots::with::<S>(head, tag(hash)).find(|&slot| is_it(bucket, slot)) {
                return Some(Place { bucket, previous, slot });
            }
            previous = Some(bucket);
            bucket = self.next(bucket)?;
            head = bucket.head();
        }
    }

    /// Fills a slot that is free: `write` stores what it holds. Returns the head that the bucket gets, which the first
    /// one has when the lock is released.
    #[inline(always)]
    fn fill(
        self,
        bucket: Bucket<'t, S>,
        head: u64,
        slot: usize,
        hash: u64,
        write: impl FnOnce(Bucket<'t, S>, usize),
    ) -> u64 {
        let (head, is_home) = (head | tag(hash) << (8 * slot), bucket.is(self.home));
        bucket.begin_fill();
        if S::IS_ENTRY {
            // First, as the store of the entry publishes it.
            bucket.set_head(if is_home { head | LOCKED } else { head });
        }
        write(bucket, slot);
        if !S::IS_ENTRY && !is_home {
            bucket.set_head(head);
        }
        head
    }

    /// Adds an overflow bucket, which becomes the first one. Returns how many are in use.
    #[cold]
    fn push(self, hash: u64, write: impl FnOnce(Bucket<'t, S>, usize)) -> usize {
        let (number, used) = self.overflow.take();
        let new = self.overflow.bucket(number).expect("it was taken");
        new.set_next(self.home.own_link());
        self.fill(new, new.head(), 0, hash, write);
        self.home.set_next(number);
        used
    }

    #[cold]
    fn unlink(self, previous: Bucket<'t, S>, empty: Bucket<'t, S>) {
        let number = previous.own_link() & NEXT;
        previous.set_next(empty.own_link());
        step!("unlinked-without-version", self.home.raise_version());
        self.overflow.give_back(number);
    }

    /// The chain of a caller that knows that no other thread changes it.
    pub fn own(self) -> Locked<'t, S> {
        Locked { chain: self, head: self.home.head() }
    }
}

/// A slot with a pair.
pub struct Place<'t, S: Shape> {
    pub bucket: Bucket<'t, S>,
    /// The bucket before, unless this is the first.
    pub previous: Option<Bucket<'t, S>>,
    pub slot: usize,
}

/// A chain that the caller may change. Without this, the lock is released.
pub struct Locked<'t, S: Shape> {
    pub chain: Chain<'t, S>,
    /// The head that the first bucket gets then.
    pub(super) head: u64,
}

/// What a change has done, and what it left.
pub struct Change {
    /// What the number of entries grows by.
    pub entries: isize,
    /// Overflow buckets in use, if that has grown.
    pub overflow: Option<usize>,
    /// Whether the first bucket is empty now.
    pub is_empty: bool,
}

impl Change {
    pub const NONE: Self = Self { entries: 0, overflow: None, is_empty: false };
}

impl<'t, S: Shape> Locked<'t, S> {
    #[inline(always)]
    pub fn is_home(&self, bucket: Bucket<'t, S>) -> bool {
        bucket.is(self.chain.home)
    }

    #[inline(always)]
    pub fn head(&self, bucket: Bucket<'t, S>) -> u64 {
        if self.is_home(bucket) { self.head } else { bucket.head() }
    }

    #[inline(always)]
    pub fn set_head(&mut self, bucket: Bucket<'t, S>, head: u64) {
        if self.is_home(bucket) {
            self.head = head;
        } else {
            bucket.set_head(head);
        }
    }

    /// Returns `true` if the chain has got no pair since.
    #[inline(always)]
    pub fn has_version(&self, version: Version) -> bool {
        step!(
            "version-not-final",
            if !version.is_final {
                return false;
            }
        );
        self.chain.has_version(version)
    }

    /// Says that a slot of an overflow bucket behind the first one will be filled.
    #[cold]
    pub fn raise_first_overflow(&self) {
        if let Some(first) = self.chain.next(self.chain.home) {
            first.raise_version();
        }
    }

    /// Returns the place that `is_it`, of those with the tag of the hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, is_it: impl FnMut(Bucket<'t, S>, usize) -> bool) -> Option<Place<'t, S>> {
        self.chain.find(self.head, hash, is_it)
    }

    /// Adds what `write` stores in a slot, and the chain does not have.
    #[inline(always)]
    pub fn insert(&mut self, hash: u64, write: impl FnOnce(Bucket<'t, S>, usize)) -> Change {
        let mut bucket = self.chain.home;
        let overflow = loop {
            let mut free = Slots::with::<S>(self.head(bucket), 0);
            if let (Some(slot), true) = (free.next(), S::SPARE == 0 || free.next().is_some()) {
                let head = self.chain.fill(bucket, self.head(bucket), slot, hash, write);
                if self.is_home(bucket) {
                    self.head = head;
                }
                break None;
            }
            match self.chain.next(bucket) {
                Some(first) if self.is_home(bucket) => bucket = first,
                _ => break Some(self.chain.push(hash, write)),
            }
        };
        Change { entries: 1, overflow, is_empty: false }
    }

    /// Empties a slot.
    #[inline(always)]
    pub fn remove(&mut self, place: Place<'t, S>) -> Change {
        if S::IS_ENTRY {
            S::clear(place.bucket, place.slot);
        }
        let head = self.head(place.bucket) & !(0xFF << (8 * place.slot));
        self.set_head(place.bucket, head);
        if let (0, Some(previous)) = (head & TAGS, place.previous) {
            self.chain.unlink(previous, place.bucket);
        }
        Change { entries: -1, overflow: None, is_empty: self.head & TAGS == 0 }
    }

    /// Calls `f` with each slot, and whether it has a tag, in the order of [`Chain::snapshot`].
    pub fn for_each(&self, mut f: impl FnMut(Bucket<'t, S>, usize, bool)) {
        let mut next = Some(self.chain.home);
        while let Some(bucket) = next {
            bucket.for_each(self.head(bucket), |slot, has_tag| f(bucket, slot, has_tag));
            next = self.chain.next(bucket);
        }
    }

    /// Sends other threads to the next table, which has all pairs.
    pub fn set_moved(&mut self) {
        self.head |= MOVED;
    }
}

impl<S: Shape> Drop for Locked<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        self.chain.home.set_head(self.head);
    }
}
