//! A bucket of the table with its overflow buckets: how pairs are read beside a writer.
//!
//! A writer locks the chain by a bit of its first head. Readers ignore that bit: they load the link, the head, the pair
//! of a slot whose tag is the one, and then the link again. If it is the same, the pair is one that the chain had.
//!
//! # Invariants
//!
//! Only the holder of the lock changes a chain.
//!
//! 1. The words of a slot are written only while no stored head has its tag, except for a value of one word.
//! 2. Before a slot is written, the version grows. So it does when an overflow bucket is unlinked, which another chain
//!    may then use.
//! 3. A pair does not move within its chain, unless its value is replaced, and then only within its bucket: the store of
//!    one head takes the old slot away and gives the new one.
//! 4. A bucket with [`MOVED`] never changes again: it was set after all pairs had been copied to the next table.
//!
//! # Linearization
//!
//! A change takes effect with the store of one head, or of a value of one word, or, if the overflow bucket is new, of
//! the link to it.
//!
//! - *A lookup that finds a pair.* Assume that it has loaded a word that was written for another pair, after the head that
//!   it has. By (1) a head without the tag was stored before, and by (2) the version has grown since; the lookup sees
//!   that, as it acquires each word of a pair. So the pair was in the chain when the head was loaded. If the value has one
//!   word, it is one that the key has had since. If the bucket has moved since, the pair was there when it moved, which is
//!   during the lookup.
//! - *The first load of the link* acquires the stores before the version grew. So it is not the new version beside a head
//!   that still has the tag.
//! - *A lookup that finds nothing.* A pair that was there during all of the lookup was in one bucket (3). The head of that
//!   bucket had its tag, and the words were those of the key. A chain that has changed so that the lookup may have missed
//!   the bucket has another version (2).
//! - *Two lookups, one after the other*, load heads, links and values in the order of their stores, as these are single
//!   words.
//!
//! The version has 36 bits. A lookup would have to be interrupted between two loads until its chain has got exactly a
//! multiple of 2^36 pairs, which takes some ten minutes.

use super::bucket::{Bucket, LOCKED, MOVED, Slots, TAGS, tag, tag_of};
use super::overflow::{NEXT, Overflow};
use super::shape::{Shape, Words};
use crate::sync::{pause, step};

/// What a link grows by for another version.
const NEXT_VERSION: u64 = NEXT + 1;

/// What a chain was like.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    /// The link of its first bucket.
    pub link: u64,
    /// Whether it has got all pairs of the version: a writer that had the lock may yet have added one.
    pub is_final: bool,
}

/// The chain has moved to the next table.
#[derive(Debug)]
pub struct Moved;

/// The buckets of a hash: one of the table, and overflow buckets.
pub struct Chain<'t, S> {
    home: Bucket<'t, S>,
    overflow: &'t Overflow,
}

impl<S> Clone for Chain<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Chain<'_, S> {}

impl<'t, S: Shape> Chain<'t, S> {
    #[inline(always)]
    pub fn new(home: Bucket<'t, S>, overflow: &'t Overflow) -> Self {
        Self { home, overflow }
    }

    /// Returns `true` if nothing that was loaded since belongs to another chain or to a later pair.
    #[inline(always)]
    fn is_unchanged(self, link: u64) -> bool {
        self.home.own_link() == link
    }

    /// Loads the link of the first bucket, and then the head.
    #[inline(always)]
    fn begin(self) -> Result<(u64, u64), Moved> {
        let link = self.home.link();
        let head = self.home.head();
        if head & MOVED == 0 { Ok((link, head)) } else { Err(Moved) }
    }

    /// Returns `false` only if no key has the hash: there are no overflow buckets, and the head has not its tag.
    #[inline(always)]
    pub fn may_have(self, hash: u64) -> Result<bool, Moved> {
        let (link, head) = self.begin()?;
        let mut may_have = Slots::with::<S>(head, tag(hash)).next().is_some();
        step!("overflow-not-considered", may_have |= link & NEXT != 0);
        Ok(may_have)
    }

    /// Looks a key up.
    #[inline(always)]
    pub fn get(self, hash: u64, key: &Words) -> Result<Option<Words>, Moved> {
        loop {
            let (link, mut head) = self.begin()?;
            // A head without the tag is enough.
            let (mut bucket, mut next, mut is_sure) = (self.home, link, true);
            let found = 'chain: loop {
                for slot in Slots::with::<S>(head, tag(hash)) {
                    is_sure = false;
                    if bucket.has_key(slot, key) {
                        break 'chain Some(bucket.value(slot));
                    }
                }
                let Some(overflow) = self.overflow.bucket(next) else { break None };
                (bucket, is_sure) = (overflow, false);
                (next, head) = (bucket.link(), bucket.head());
            };
            if is_sure || self.is_unchanged(link) {
                return Ok(found);
            }
        }
    }

    /// Calls `f` with each slot, and with its pair, if it has one. Returns the version, or `None` if the pairs are not all
    /// of one.
    pub fn snapshot(self, mut f: impl FnMut(Option<(Words, Words)>)) -> Result<Option<Version>, Moved> {
        let (link, head) = self.begin()?;
        self.home.for_each(head, &mut f);
        let mut next = link;
        while let Some(bucket) = self.overflow.bucket::<S>(next) {
            next = bucket.link();
            bucket.for_each(bucket.head(), &mut f);
        }
        let is_final = head & LOCKED == 0;
        Ok(self.is_unchanged(link).then_some(Version { link, is_final }))
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(self) -> Result<Locked<'t, S>, Moved> {
        self.home.prefetch();
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

    /// The chain of a caller that knows that no other thread changes it.
    pub fn own(self) -> Locked<'t, S> {
        Locked { chain: self, head: self.home.head() }
    }
}

/// A slot with a pair.
pub struct Place<'t, S> {
    bucket: Bucket<'t, S>,
    /// The bucket before, unless this is the first.
    previous: Option<Bucket<'t, S>>,
    slot: usize,
}

/// A chain that the caller may change. Without this, the lock is released.
pub struct Locked<'t, S: Shape> {
    chain: Chain<'t, S>,
    /// The head that the first bucket gets then.
    head: u64,
}

impl<'t, S: Shape> Locked<'t, S> {
    #[inline(always)]
    fn is_home(&self, bucket: Bucket<'t, S>) -> bool {
        bucket.is(self.chain.home)
    }

    #[inline(always)]
    fn head(&self, bucket: Bucket<'t, S>) -> u64 {
        if self.is_home(bucket) { self.head } else { bucket.head() }
    }

    #[inline(always)]
    fn set_head(&mut self, bucket: Bucket<'t, S>, head: u64) {
        if self.is_home(bucket) {
            self.head = head;
        } else {
            bucket.set_head(head);
        }
    }

    /// Returns the link of the first bucket, which has the version.
    fn link(&self) -> u64 {
        self.chain.home.own_link()
    }

    /// Returns `true` if the chain has got no pair since a snapshot.
    pub fn has_version(&self, version: Version) -> bool {
        step!(
            "version-not-final",
            if !version.is_final {
                return false;
            }
        );
        self.link() == version.link
    }

    #[inline(always)]
    fn next(&self, bucket: Bucket<'t, S>) -> Option<Bucket<'t, S>> {
        self.chain.overflow.bucket(bucket.own_link())
    }

    #[inline(always)]
    fn raise_version(&self) {
        self.chain.home.set_link(self.link().wrapping_add(NEXT_VERSION));
    }

    fn set_next(&self, bucket: Bucket<'t, S>, next: u64) {
        bucket.set_link(bucket.own_link() & !NEXT | next);
    }

    /// Returns the place of a key.
    #[inline(always)]
    pub fn find(&self, hash: u64, key: &Words) -> Option<Place<'t, S>> {
        let (mut bucket, mut previous) = (self.chain.home, None);
        loop {
            let mut slots = Slots::with::<S>(self.head(bucket), tag(hash));
            if let Some(slot) = slots.find(|&slot| bucket.has_key(slot, key)) {
                return Some(Place { bucket, previous, slot });
            }
            previous = Some(bucket);
            bucket = self.next(bucket)?;
        }
    }

    /// Returns a value.
    #[inline(always)]
    pub fn value(&self, place: &Place<'t, S>) -> Words {
        place.bucket.value(place.slot)
    }

    /// Replaces a value.
    #[inline(always)]
    pub fn replace(&mut self, place: &Place<'t, S>, value: &Words) {
        let &Place { bucket, slot, .. } = place;
        if S::SPARE == 0 {
            return bucket.set_value(slot, value);
        }
        let head = self.head(bucket);
        let spare = Slots::with::<S>(head, 0).next().expect("a slot is free");
        self.fill(bucket, spare, &bucket.key(slot), value);
        self.set_head(bucket, head & !(0xFF << (8 * slot)) | tag_of(head, slot) << (8 * spare));
    }

    /// Writes a slot that is free.
    #[inline(always)]
    fn fill(&self, bucket: Bucket<'t, S>, slot: usize, key: &Words, value: &Words) {
        step!("pair-without-version", self.raise_version());
        (0..S::KEY).for_each(|index| bucket.write(slot, index, key[index]));
        bucket.set_value(slot, value);
    }

    /// Adds a pair whose key the chain does not have. Returns the number of overflow buckets in use, if that has grown.
    #[inline(always)]
    pub fn insert(&mut self, hash: u64, key: &Words, value: &Words) -> Option<usize> {
        let mut bucket = self.chain.home;
        loop {
            let head = self.head(bucket);
            let mut free = Slots::with::<S>(head, 0);
            if let (Some(slot), true) = (free.next(), S::SPARE == 0 || free.next().is_some()) {
                self.fill(bucket, slot, key, value);
                self.set_head(bucket, head | tag(hash) << (8 * slot));
                return None;
            }
            match self.next(bucket) {
                Some(next) => bucket = next,
                None => return Some(self.append(bucket, hash, key, value)),
            }
        }
    }

    #[cold]
    fn append(&mut self, last: Bucket<'t, S>, hash: u64, key: &Words, value: &Words) -> usize {
        let (number, used) = self.chain.overflow.take::<S>();
        let new = self.chain.overflow.bucket(number).expect("it was taken");
        new.set_link(0);
        self.fill(new, 0, key, value);
        new.set_head(tag(hash));
        self.set_next(last, number);
        used
    }

    /// Removes a pair. Returns `true` if the first bucket has none then.
    #[inline(always)]
    pub fn remove(&mut self, place: Place<'t, S>) -> bool {
        let head = self.head(place.bucket) & !(0xFF << (8 * place.slot));
        self.set_head(place.bucket, head);
        if let (0, Some(previous)) = (head & TAGS, place.previous) {
            self.unlink(previous, place.bucket);
        }
        self.head & TAGS == 0
    }

    #[cold]
    fn unlink(&self, previous: Bucket<'t, S>, empty: Bucket<'t, S>) {
        let number = previous.own_link() & NEXT;
        self.set_next(previous, empty.own_link() & NEXT);
        step!("unlinked-without-version", self.raise_version());
        self.chain.overflow.give_back(number);
    }

    /// Calls `f` with each slot, as [`Chain::snapshot`] does.
    pub fn for_each(&self, mut f: impl FnMut(Option<(Words, Words)>)) {
        let mut next = Some(self.chain.home);
        while let Some(bucket) = next {
            bucket.for_each(self.head(bucket), &mut f);
            next = self.next(bucket);
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
