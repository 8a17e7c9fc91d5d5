//! Changes in the usual case: the bucket of the key begins no chain, and the table is not being resized.
//!
//! A lookup remembers the slot of its entry, so that the change looks at that slot only. Everything else is left to
//! [`writer`](crate::writer), which does the same in any table. Both make the same stores in the same order.
//!
//! Under the lock, the table of the lookup is the current one, and the bucket has not moved, if the table has no next
//! one: a table is replaced, and a bucket moves, only after the next table was linked, and while the lock of the bucket
//! is held.

use core::ptr::NonNull;

use crate::bucket::{Bucket, Hashed};
use crate::pool::{Batch, Pool};
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
        new: E,
        domain: &D,
        section: &'g D::Section,
    ) -> Result<&'g E, E> {
        let stripe = tables.stripes.of_hash(hash);
        // Both not under the lock.
        let memory = (!stripe.has_free()).then(Box::<E>::new_uninit);
        let heap_bytes = self.heap_bytes();
        let mut pool = stripe.lock();
        let slot = if !self.is_current(section) {
            None
        } else if self.entry.is_null() {
            self.bucket.room_here(hash)
        } else {
            self.bucket.has(self.slot, self.entry, section).then_some(self.slot)
        };
        let Some(slot) = slot else { return Err(new) };
        let Some(memory) = memory.or_else(|| pool.take()) else { return Err(new) };
        let new = share::<E, D>(Owned::from(Box::write(memory, new)), section);
        let batch = if self.entry.is_null() {
            self.bucket.fill(slot, hash, new);
            stripe.count(1);
            None
        } else {
            self.bucket.replace_here(slot, new);
            self.retire(heap_bytes, &mut pool)
        };
        stripe.update_free(&pool);
        drop(pool);
        if !self.entry.is_null() {
            self.dispose(tables, hash, heap_bytes, batch, domain);
        }
        Ok(new.as_ref().expect("not null"))
    }

    /// Removes the entry of the key, which has one. The domain disposes of it. Returns `false` if nothing was changed.
    #[inline(always)]
    pub fn remove(&self, tables: &Tables<E, D>, hash: u64, domain: &D, section: &'g D::Section) -> bool {
        let stripe = tables.stripes.of_hash(hash);
        let heap_bytes = self.heap_bytes();
        let mut pool = stripe.lock();
        if !self.is_current(section) || !self.bucket.has(self.slot, self.entry, section) {
            return false;
        }
        self.bucket.empty(self.slot);
        let entries = stripe.count(-1);
        let is_sparse =
            tables.estimate(entries) < self.table.len() * SPARSE && tables.is_sparse(self.table, stripe);
        let batch = self.retire(heap_bytes, &mut pool);
        drop(pool);
        self.dispose(tables, hash, heap_bytes, batch, domain);
        if is_sparse {
            tables.resize_if_needed(true, section);
        }
        true
    }

    /// Returns what the entry owns on the heap, if that is known; then it goes to the pool.
    #[inline(always)]
    fn heap_bytes(&self) -> Option<usize> {
        self.entry.as_ref()?.heap_bytes()
    }

    /// Gives the entry, which is unlinked, to the pool, unless its heap bytes are unknown. Returns the batch if it is full.
    #[inline(always)]
    fn retire(&self, heap_bytes: Option<usize>, pool: &mut Pool<E>) -> Option<Batch<E>> {
        let entry = NonNull::new(self.entry.as_ptr().cast_mut())?;
        // SAFETY: entries come from a `Box`, and it is unlinked.
        unsafe { pool.retire(entry, heap_bytes?) }
    }

    /// Disposes of a full batch, or of the entry if it was not given to the pool.
    #[inline(always)]
    fn dispose(
        &self,
        tables: &Tables<E, D>,
        hash: u64,
        heap_bytes: Option<usize>,
        batch: Option<Batch<E>>,
        domain: &D,
    ) {
        if let Some(batch) = batch {
            tables.stripes.defer(hash, batch, tables.options, domain);
        } else if heap_bytes.is_none() {
            // SAFETY: it is unlinked.
            unsafe { writer::retire(tables, self.entry, domain) };
        }
    }
}
