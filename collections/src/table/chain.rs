//! A bucket of the table with its overflow buckets: how slots are read beside a writer ([`locked`](super::locked)).
//!
//! A writer locks the chain by a bit of its first head, which readers ignore. A slot holds a pair of plain words, or
//! a pointer to an entry.
//!
//! A reader of *pairs* loads the link of a bucket, the head, the pair of a slot with the tag, and then the link
//! again. If it is the same, the pair is one that the bucket had. A reader of *entries* compares the key of the
//! entry, which never changes. So it needs no second load. A reader of either kind that has followed a link to an
//! overflow bucket also loads the link of the first bucket again. So it starts over only if a bucket of its chain was
//! unlinked, or if the first bucket has got another pair; not if any other bucket has.
//!
//! # Invariants
//!
//! Only the holder of the lock changes a chain.
//!
//! 1. The words of a pair are written only while no stored head has its tag, except for a value of one word. A
//!    pointer to an entry is null, or the head has its tag, and so has every later head until the pointer is null
//!    again.
//! 2. Before a slot is filled, the version of its bucket grows. When an overflow bucket is unlinked, which another
//!    chain may then use, the version of the first bucket of its chain grows. Versions stay when a bucket is used again.
//! 3. A pair or an entry does not move within its chain, unless the value of a pair is replaced, and then only within
//!    its bucket: the store of one head takes the old slot away and gives the new one.
//! 4. A bucket with [`MOVED`] never changes again: it was set after all slots had been copied to the next table.
//! 5. A pair or an entry is added to the first bucket or to the first overflow bucket. A new overflow bucket becomes
//!    the first one. So an insertion takes as long in a long chain as in a short one. If the value of a pair is
//!    replaced in another overflow bucket, the version of the first one grows too. So two links are a [`Version`] of
//!    the chain: they are the same only if no slot of it was filled.
//!
//! # Linearization
//!
//! A change of a pair takes effect with the store of one head, or of a value of one word; a change of an entry with
//! the store of one pointer. If the overflow bucket is new, an insertion takes effect with the store of the link to
//! it.
//!
//! - *A lookup that finds a pair.* Assume that it has loaded a word that was written for another pair, after the head
//!   that it has. By (1) a head without the tag was stored before, and by (2) the version of the bucket has grown
//!   since; the lookup sees that, as it acquires each word of a pair. So the pair was in the bucket when the head was
//!   loaded. If the value has one word, it is one that the key has had since. An overflow bucket was in the chain until
//!   the lookup compared the first link (2). If the chain has moved since, the pair was there when it moved, which is
//!   during the lookup.
//! - *A lookup that finds an entry* has loaded it from a slot of the first bucket, or of an overflow bucket that was
//!   in the chain until the lookup compared the first link (2). If the chain has moved since, the entry was there when
//!   it moved.
//! - *The first load of the link* acquires the stores before the version grew. So it is not the new version beside a
//!   head that still has the tag. A lookup of an entry may load the link after the first head: an entry of that
//!   bucket stays where it is (3).
//! - *A lookup that finds nothing.* What was there during all of the lookup was in one bucket (3). The lookup has come
//!   to that bucket, unless one before it was unlinked, and then the first bucket has another version (2). The head had
//!   the tag, and the slot the key. If the slot got another pair before its words were loaded, because the value was
//!   replaced (3), the bucket has another version.
//! - *Two lookups, one after the other*, load heads, links, values and pointers in the order of their stores, as
//!   these are single words. A pointer may be loaded from the slot of another entry with the same tag. If the first
//!   lookup finds the tag gone, the second finds it gone too, or a head that was stored after the pointer was null
//!   (Release), so it does not find the removed entry. If the first lookup finds a new entry, the head with its tag
//!   was stored before (1), so the second finds it too.
//!
//! The version has 36 bits. A lookup would have to be interrupted between two loads until its chain has got exactly a
//! multiple of 2^36 pairs, which takes some ten minutes.

use super::bucket::{Bucket, LOCKED, MOVED, NEXT, Section, Shape, Slots, tag};
use super::overflow::Overflow;
use crate::sync::step;

/// What a chain was like.
#[derive(Debug, Default, Clone, Copy)]
pub struct Version {
    /// The link of the first bucket.
    link: u64,
    /// The link of the first overflow bucket, or 0.
    overflow: u64,
    /// Whether it has got all pairs of the version: a writer that had the lock may yet have added one.
    pub is_final: bool,
}

/// The chain has moved to the next table.
#[derive(Debug)]
pub struct Moved;

/// The buckets of a hash: one of the table, and overflow buckets.
pub struct Chain<'t, S: Shape> {
    pub(super) home: Bucket<'t, S>,
    pub(super) overflow: &'t Overflow<S>,
}

impl<S: Shape> Clone for Chain<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Shape> Copy for Chain<'_, S> {}

impl<'t, S: Shape> Chain<'t, S> {
    #[inline(always)]
    pub fn new(home: Bucket<'t, S>, overflow: &'t Overflow<S>) -> Self {
        Self { home, overflow }
    }

    /// Returns `true` if no bucket was unlinked since, and the first one has got no pair. Another overflow bucket may
    /// have come: what it has came later.
    #[inline(always)]
    fn is_unchanged(self, link: u64) -> bool {
        self.home.own_link() & !NEXT == link & !NEXT
    }

    /// Returns `true` if the chain has got no pair since.
    #[inline(always)]
    pub fn has_version(self, version: Version) -> bool {
        let link = self.home.own_link();
        let mut is_same = link == version.link;
        step!("overflow-not-compared", is_same = is_same && self.first_overflow(link) == version.overflow);
        is_same
    }

    /// Returns the link of the overflow bucket to which a link leads, or 0.
    #[inline(always)]
    fn first_overflow(self, link: u64) -> u64 {
        self.overflow.bucket(link).map_or(0, Bucket::link)
    }

    /// Loads the link of the first bucket, and then the head.
    #[inline(always)]
    fn begin(self) -> Result<(u64, u64), Moved> {
        let link = self.home.link();
        let head = self.home.head();
        if head & MOVED == 0 { Ok((link, head)) } else { Err(Moved) }
    }

    /// Loads the version, and then the head of the first bucket: if that is not locked, the writer that has stored
    /// the version has also stored the pair.
    #[inline(always)]
    fn begin_version(self) -> Result<(Version, u64), Moved> {
        let link = self.home.link();
        let overflow = self.first_overflow(link);
        let head = self.home.head();
        let version = Version { link, overflow, is_final: head & LOCKED == 0 };
        if head & MOVED == 0 { Ok((version, head)) } else { Err(Moved) }
    }

    /// Returns `false` only if no key has the hash: there are no overflow buckets, and the head has not its tag.
    #[inline(always)]
    pub fn may_have(self, hash: u64) -> Result<bool, Moved> {
        let (link, head) = self.begin()?;
        let mut may_have = Slots::with::<S>(head, tag(hash)).next().is_some();
        step!("overflow-not-considered", may_have |= link & NEXT != 0);
        Ok(may_have)
    }

    /// Returns what `look` finds in a slot with the tag of the hash. `look` may be called several times.
    #[inline(always)]
    pub fn search<R>(
        self,
        hash: u64,
        mut look: impl FnMut(Bucket<'t, S>, usize) -> Option<R>,
    ) -> Result<Option<R>, Moved> {
        let (link, head) = self.begin()?;
        match self.home.search(link, head, hash, &mut look) {
            Some(found) if found.is_some() || link & NEXT == 0 => Ok(found),
            _ => self.search_all(hash, look),
        }
    }

    /// [`search`](Self::search) for an entry. An entry of the first bucket needs no version, as slots do not change
    /// places: so the link is loaded after the head, if at all.
    #[inline(always)]
    pub fn search_entries<R>(
        self,
        hash: u64,
        mut look: impl FnMut(Bucket<'t, S>, usize) -> Option<R>,
    ) -> Result<Option<R>, Moved> {
        let head = self.home.head();
        if head & MOVED != 0 {
            return Err(Moved);
        }
        match self.home.search(0, head, hash, &mut look) {
            Some(found) if found.is_some() || self.home.link() & NEXT == 0 => Ok(found),
            _ => self.search_all(hash, look),
        }
    }

    /// [`search_entries`](Self::search_entries) for a change. If it finds none, it returns the version of the chain.
    #[inline(always)]
    pub fn observe<R>(
        self,
        hash: u64,
        mut look: impl FnMut(Bucket<'t, S>, usize) -> Option<R>,
    ) -> Result<(Option<R>, Version), Moved> {
        let (link, head) = self.begin()?;
        match self.home.search(link, head, hash, &mut look) {
            Some(found) if found.is_some() || link & NEXT == 0 => {
                Ok((found, Version { link, overflow: 0, is_final: head & LOCKED == 0 }))
            }
            _ => self.search_slow(hash, look),
        }
    }

    /// [`search`](Self::search) in all buckets. What it returns stays in registers.
    #[cold]
    #[inline(never)]
    fn search_all<R>(
        self,
        hash: u64,
        look: impl FnMut(Bucket<'t, S>, usize) -> Option<R>,
    ) -> Result<Option<R>, Moved> {
        Ok(self.search_slow(hash, look)?.0)
    }

    /// [`search_all`](Self::search_all), with the version.
    #[cold]
    fn search_slow<R>(
        self,
        hash: u64,
        mut look: impl FnMut(Bucket<'t, S>, usize) -> Option<R>,
    ) -> Result<(Option<R>, Version), Moved> {
        loop {
            let (begun, head) = self.begin_version()?;
            let Some(mut found) = self.home.search(begun.link, head, hash, &mut look) else { continue };
            let mut next = begun.link;
            while let (None, Some(bucket)) = (&found, self.overflow.bucket(next)) {
                // If the bucket has got a pair meanwhile, it is searched again, and not those before it.
                found = loop {
                    next = bucket.link();
                    if let Some(found) = bucket.search(next, bucket.head(), hash, &mut look) {
                        break found;
                    }
                };
            }
            let mut is_unchanged = true;
            step!("overflow-not-checked", is_unchanged = self.is_unchanged(begun.link));
            if is_unchanged {
                return Ok((found, begun));
            }
        }
    }

    /// Adds what the slots hold, and calls `f` with the head of each bucket. Returns the version, or `None` if that is
    /// not all of one.
    #[inline(always)]
    pub fn snapshot<'g>(
        self,
        section: &'g Section<S>,
        loaded: &mut Vec<S::Loaded<'g>>,
        mut f: impl FnMut(u64),
    ) -> Result<Option<Version>, Moved> {
        let (version, first) = self.begin_version()?;
        let (mut bucket, mut head, mut next) = (self.home, first, version.link);
        loop {
            let len = loaded.len();
            loaded.resize(len + S::SLOTS * S::SLOT, S::Loaded::default());
            let more = S::load(bucket, head, section, &mut loaded[len..]);
            loaded.truncate(len + more);
            f(head);
            let Some(overflow) = self.overflow.bucket(next) else { break };
            bucket = overflow;
            (next, head) = (bucket.link(), bucket.head());
        }
        Ok(self.has_version(version).then_some(version))
    }

    /// Adds what the slots hold at one time.
    #[inline(always)]
    pub fn load<'g>(self, section: &'g Section<S>, loaded: &mut Vec<S::Loaded<'g>>) -> Result<(), Moved> {
        let before = loaded.len();
        while self.snapshot(section, loaded, |_| {})?.is_none() {
            loaded.truncate(before);
        }
        Ok(())
    }

    /// Returns the first bucket.
    pub fn home(self) -> Bucket<'t, S> {
        self.home
    }

    /// Returns `true` if the chain has moved to the next table.
    pub fn has_moved(self) -> bool {
        self.home.head() & MOVED != 0
    }

    /// Returns `true` for the chain of the same bucket.
    #[inline(always)]
    pub fn is(self, other: Self) -> bool {
        self.home.is(other.home)
    }
}
