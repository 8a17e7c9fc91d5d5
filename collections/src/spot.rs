//! Changes in the usual case: the bucket of the key begins no chain, and the table is not being resized.
//!
//! A lookup remembers the slot of its entry, so that the change looks at that slot only. Everything else is left to
//! [`writer`](crate::writer), which does the same in any table. Both make the same stores in the same order.
//!
//! Under the lock, the table of the lookup is the current one, and the bucket has not moved, if the table has no next
//! one: a table is replaced, and a bucket moves, only after the next table was linked, and while the lock of the bucket
//! is held.

use crate::bucket::{Bucket, Hashed};
use crate::sync::{Domain, Owned, Shared, share, step};
use crate::table::{SPARSE, Table, Tables};
use crate::writer;

/// Where a lookup has ended.
pub struct Spot<'g, E: Hashed, D: Domain> {
    table: &'g Table<E, D>,
    bucket: &'g Bucket<E, D>,
    /// The entry of the key, or null.
    pub entry: Shared<'g, E>,
    /// Its slot.
    slot: usize,
}

impl<'g, E: Hashed, D: Domain> Spot<'g, E, D> {
    /// Looks a key up that the caller will change. Returns `None` if the case is not the usual one.
    #[inline(always)]
    pub fn look_up(
        tables: &Tables<E, D>,
        hash: u64,
        mut is_it: impl FnMut(&'g E) -> bool,
        section: &'g D::Section,
    ) -> Option<Self> {
        let table = tables.current(section)?;
        let bucket = table.bucket(hash);
        #[expect(clippy::redundant_closure, reason = "calls through `&mut` are inlined only at link time")]
        let (slot, entry) = bucket.find_here(hash, |entry| is_it(entry), section)?;
        Some(Self { table, bucket, entry, slot })
    }

    /// Returns `true` if the table is still the current one, and is not being resized. Under the lock.
    #[inline(always)]
    fn is_current(&self, section: &'g D::Section) -> bool {
        let mut is_current = true;
        step!("table-not-confirmed", is_current = self.table.next.load(section).is_null());
        is_current
    }

    /// Makes `new` the entry of the key. The domain disposes of the old entry.
    ///
    /// # Errors
    ///
    /// Nothing was changed: the caller looks again. Returns `new`.
    #[inline(always)]
    pub fn insert(
        &self,
        tables: &Tables<E, D>,
        hash: u64,
        new: Owned<E>,
        domain: &D,
        section: &'g D::Section,
    ) -> Result<&'g E, Owned<E>> {
        let stripe = tables.stripes.of_hash(hash);
        let locked = stripe.lock();
        let slot = if !self.is_current(section) {
            None
        } else if self.entry.is_null() {
            self.bucket.room_here(hash)
        } else {
            self.bucket.has(self.slot, self.entry, section).then_some(self.slot)
        };
        let Some(slot) = slot else { return Err(new) };
        let new = share::<E, D>(new, section);
        if self.entry.is_null() {
            self.bucket.fill(slot, hash, new);
            stripe.count(1);
        } else {
            self.bucket.replace_here(slot, new);
        }
        drop(locked);
        // SAFETY: it is unlinked.
        unsafe { writer::retire(tables, self.entry, domain) };
        Ok(new.as_ref().expect("not null"))
    }

    /// Removes the entry of the key, which has one. The domain disposes of it. Returns `false` if nothing was changed.
    #[inline(always)]
    pub fn remove(&self, tables: &Tables<E, D>, hash: u64, domain: &D, section: &'g D::Section) -> bool {
        let stripe = tables.stripes.of_hash(hash);
        let locked = stripe.lock();
        if !self.is_current(section) || !self.bucket.has(self.slot, self.entry, section) {
            return false;
        }
        self.bucket.empty(self.slot);
        let entries = stripe.count(-1);
        let is_sparse =
            tables.estimate(entries) < self.table.len() * SPARSE && tables.is_sparse(self.table, stripe);
        drop(locked);
        // SAFETY: it is unlinked.
        unsafe { writer::retire(tables, self.entry, domain) };
        if is_sparse {
            tables.resize_if_needed(true, section);
        }
        true
    }
}
