//! Changes of a chain of buckets, in which entries for which there is no room in the first one are in an
//! [overflow](crate::overflow) bucket.
//!
//! Only the holder of the stripe's lock calls these, or the owner of the map.

use core::ptr;

use crate::bucket::{Bucket, CHAINED, Hashed, Slots, fingerprint, node_mut};
use crate::overflow::Overflow;
#[cfg(not(loom))]
use crate::sync::Atomic;
use crate::sync::{Domain, Owned, Shared};

impl<E: Hashed, D: Domain> Bucket<E, D> {
    /// Returns `true` if each entry with `hash` is one of `others`, in their order.
    pub fn has_only(&self, hash: u64, others: &[Shared<'_, E>], section: &D::Section) -> bool {
        let mut others = others.iter();
        let mut bucket = self;
        loop {
            let header = bucket.own_header();
            for slot in Slots::with(header, fingerprint(hash)) {
                let loaded = bucket.slots[slot].load(section);
                if loaded.as_ref().is_some_and(|entry| entry.hash() == hash)
                    && !others.any(|other| *other == loaded)
                {
                    return false;
                }
            }
            match bucket.next(header, section) {
                Some(next) => bucket = next,
                None => return true,
            }
        }
    }

    /// Returns the bucket and the slot in which `old` is, whose hash this is.
    fn position<'g>(
        &'g self,
        hash: u64,
        old: Shared<'_, E>,
        section: &'g D::Section,
    ) -> Option<(&'g Self, usize)> {
        let mut bucket = self;
        loop {
            let header = bucket.own_header();
            let mut slots = Slots::with(header, fingerprint(hash));
            if let Some(slot) = slots.find(|&slot| bucket.slots[slot].load(section) == old) {
                return Some((bucket, slot));
            }
            bucket = bucket.next(header, section)?;
        }
    }

    /// Replaces `old` by `new`, which has the same hash. Returns `false` if the chain does not have `old`.
    pub fn replace(&self, hash: u64, old: Shared<'_, E>, new: Shared<'_, E>, section: &D::Section) -> bool {
        let position = self.position(hash, old, section);
        if let Some((bucket, slot)) = position {
            bucket.replace_here(slot, new);
        }
        position.is_some()
    }

    /// Adds an entry of a key that the chain does not have. Returns `true` if the first bucket had no room.
    pub fn insert(
        &self,
        hash: u64,
        new: Shared<'_, E>,
        overflow: &Overflow<E, D>,
        section: &D::Section,
    ) -> bool {
        let mut bucket = self;
        loop {
            let header = bucket.own_header();
            if let Some(slot) = Slots::with(header, 0).next() {
                bucket.fill(slot, hash, new);
                return !ptr::eq(bucket, self);
            }
            if let Some(next) = bucket.next(header, section) {
                bucket = next;
                continue;
            }
            // Linked while it is empty, as a lookup may still be in it that came from here before it was freed.
            let next = overflow.take();
            bucket.set_header(header | CHAINED);
            bucket.next.store(next);
            bucket = next.as_ref().expect("a bucket");
        }
    }

    /// Removes `old`. Returns `false` if the chain does not have it.
    pub fn remove(
        &self,
        hash: u64,
        old: Shared<'_, E>,
        overflow: &Overflow<E, D>,
        section: &D::Section,
    ) -> bool {
        let position = self.position(hash, old, section);
        if position.is_some_and(|(bucket, slot)| bucket.empty(slot)) {
            self.unlink_empty(overflow, section);
        }
        position.is_some()
    }

    /// Frees empty buckets at the end of the chain that this one begins.
    fn unlink_empty(&self, overflow: &Overflow<E, D>, section: &D::Section) {
        let (mut kept, mut bucket) = (self, self);
        // The last one that has an entry, or the first.
        while let Some(next) = bucket.next(bucket.own_header(), section) {
            bucket = next;
            if !bucket.is_empty() {
                kept = bucket;
            }
        }
        let mut empty = kept.unlink_next(section);
        while let Some(bucket) = empty {
            empty = bucket.unlink_next(section);
            overflow.give_back(bucket);
        }
    }

    fn unlink_next<'g>(&self, section: &'g D::Section) -> Option<&'g Self> {
        let header = self.own_header();
        let next = self.next(header, section)?;
        self.set_header(header & !CHAINED);
        self.next.store(Shared::null());
        Some(next)
    }
}

/// What only the owner of the map may do.
impl<E: Hashed, D: Domain> Bucket<E, D> {
    /// Adds an entry of a key that the chain does not have. Returns `true` if the first bucket had no room.
    #[cfg(not(loom))]
    pub fn add(&mut self, entry: Owned<E>, overflow: &Overflow<E, D>) -> bool {
        let header = self.header.get_mut();
        if let Some(slot) = Slots::with(*header, 0).next() {
            *header |= fingerprint(entry.hash()) << (8 * slot);
            self.slots[slot] = Atomic::new(entry);
            return false;
        }
        if *header & CHAINED == 0 {
            *header |= CHAINED;
            self.next.store(overflow.take());
        }
        // SAFETY: as in `for_each_mut`.
        let next = unsafe { node_mut(self.next.get_mut()) };
        next.expect("a chain continues").add(entry, overflow);
        true
    }

    /// Takes the entries of the chain out. Its buckets stay, with headers that are out of date.
    pub fn drain(&mut self, f: &mut impl FnMut(Owned<E>)) {
        let mut next = Some(self);
        while let Some(Self { slots, next: after, .. }) = next {
            for slot in slots {
                // SAFETY: the map belongs to the caller, and no other bucket that is drained has the entry.
                if let Some(entry) = unsafe { slot.take() } {
                    f(entry);
                }
            }
            // SAFETY: as in `for_each_mut`.
            next = unsafe { node_mut(after.get_mut()) };
        }
    }
}
