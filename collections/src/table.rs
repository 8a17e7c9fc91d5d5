//! Tables of buckets, and how one takes the place of another.
//!
//! A hash belongs to a *stripe*, by its lowest bits, and to a bucket of each table, by its lowest bits too. Tables have
//! at least as many buckets as there are stripes. So the hashes of a bucket belong to one stripe, in every table, and a
//! writer holds one lock.
//!
//! To resize, a writer allocates another table and links it as `next` of the current one. Each bucket *moves* under the
//! lock of its stripe: its entries are copied to the next table, then it is marked. Writers move the bucket of their
//! key, and a few others. The writer that moves the last bucket makes the next table the current one, and retires the
//! table before it. What else a writer does is in [`writer`](crate::writer).
//!
//! # Invariants
//!
//! 1. The entries of a hash are in the first table, beginning with the current one, in which its bucket has not moved.
//! 2. A table is resized once, and only when it is the current one. So at most two tables have entries at a time.
//! 3. When a table becomes the current one, all buckets of the table before it have moved.
//! 4. No code of the program runs while a lock is held.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::bucket::{Bucket, Hashed, Moved};
#[cfg(not(loom))]
use crate::memory::{self, NoMemory};
#[cfg(loom)]
use crate::model::NoMemory;
use crate::overflow::{Overflow, Slab, allocate};
use crate::stripes::{Stripe, Stripes};
use crate::sync::{Atomic, AtomicUsize, DeferOptions, Domain, Ordering::*, Owned, Shared, step};

/// Entries for each bucket, on average, above which a table grows. A bucket has room for six.
pub const FULL: usize = 4;
/// Entries for each bucket below which a table shrinks.
pub const SPARSE: usize = 1;
/// Buckets that a writer moves for the others.
const SHARE: usize = if cfg!(loom) { 1 } else { 8 };

/// One table. It does not own the entries.
pub struct Table<E: Hashed, D: Domain> {
    /// A power of two of them.
    pub buckets: Slab<Bucket<E, D>>,
    pub overflow: Overflow<E, D>,
    pub next: Atomic<Table<E, D>, D>,
    /// Buckets that writers have undertaken to move.
    claimed: AtomicUsize,
    /// Buckets that have moved.
    moved: AtomicUsize,
}

impl<E: Hashed, D: Domain> Table<E, D> {
    #[track_caller]
    pub fn new(buckets: usize) -> Self {
        match Self::try_new(buckets) {
            Ok(table) => table,
            Err(error) => error.fail(),
        }
    }

    fn try_new(buckets: usize) -> Result<Self, NoMemory> {
        debug_assert!(buckets.is_power_of_two());
        Ok(Self {
            buckets: allocate(buckets)?,
            overflow: Overflow::new(buckets),
            next: Atomic::null(),
            claimed: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
        })
    }

    /// Allows huge pages for the buckets in which chains begin.
    pub fn allow_huge_pages(&self) {
        #[cfg(not(loom))]
        self.buckets.allow_huge_pages();
    }

    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    fn size(&self) -> usize {
        size_of_val(&*self.buckets) + self.overflow.bytes()
    }

    #[inline(always)]
    pub fn index(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    pub fn bucket(&self, hash: u64) -> &Bucket<E, D> {
        // SAFETY: the index is less than the length, which is a power of two.
        unsafe { self.buckets.get_unchecked(self.index(hash)) }
    }

    /// Adds an entry of a key that the table does not have. Returns `true` if it had no room in the first bucket. Under
    /// the lock of the stripe.
    pub fn insert(&self, new: Shared<'_, E>, entry: &E, section: &D::Section) -> bool {
        self.bucket(entry.hash()).insert(entry.hash(), new, &self.overflow, section)
    }

    /// Begins to resize the table, which was the current one, unless that has begun.
    #[track_caller]
    pub fn resize(&self, buckets: usize, section: &D::Section) {
        if let Err(error) = self.try_resize(buckets, section) {
            error.fail();
        }
    }

    fn try_resize(&self, buckets: usize, section: &D::Section) -> Result<(), NoMemory> {
        if self.next.load(section).is_null() {
            let next = Owned::new(Table::try_new(buckets)?);
            // An error drops the table, as another thread was first.
            let _ = self.next.compare_exchange(Shared::null(), next, section);
        }
        Ok(())
    }

    /// Returns the next table, which exists if a bucket has moved.
    #[inline(always)]
    pub fn next<'g>(&self, section: &'g D::Section) -> &'g Self {
        self.next.load(section).as_ref().expect("a bucket has moved")
    }
}

/// The entries of a map: see the [module](self).
pub struct Tables<E: Hashed, D: Domain> {
    /// Null before the first entry.
    pub current: Atomic<Table<E, D>, D>,
    pub stripes: Stripes,
    /// The number of buckets for the room that was asked for. Tables do not shrink below it, nor below the number of
    /// stripes.
    reserved: AtomicUsize,
    /// How entries are retired whose types are not known.
    pub options: DeferOptions,
}

impl<E: Hashed, D: Domain> Tables<E, D> {
    /// Does not allocate.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        let reserved = AtomicUsize::new(0);
        Self { current: Atomic::null(), stripes: Stripes::new(), reserved, options: DeferOptions::new() }
    }

    /// Allocates room for `entries`.
    #[track_caller]
    pub fn with_capacity(entries: usize) -> Self {
        let reserved = AtomicUsize::new(0);
        let options = DeferOptions::new();
        let tables = Self { current: Atomic::null(), stripes: Stripes::new(), reserved, options };
        if entries > 0 {
            let buckets = tables.buckets_for(entries);
            // Relaxed: no other thread has the map.
            tables.reserved.store(buckets, Relaxed);
            let table = Table::new(buckets);
            table.allow_huge_pages();
            tables.current.store(Owned::new(table));
        }
        tables
    }

    /// Returns how many buckets have room for as many entries.
    pub fn buckets_for(&self, entries: usize) -> usize {
        // Relaxed: only the number.
        let reserved = self.reserved.load(Relaxed);
        entries.div_ceil(FULL).next_power_of_two().max(reserved).max(self.stripes.len())
    }

    /// Returns the number of entries: exact if no thread changes it at the same time.
    pub fn len(&self) -> usize {
        self.stripes.entries()
    }

    /// Returns the number of entries that the current table has room for.
    pub fn capacity(&self, section: &D::Section) -> usize {
        self.current(section).map_or(0, |table| table.len() * FULL)
    }

    /// Returns the entry that `is_it`, of those that may have `hash`.
    #[inline(always)]
    pub fn find<'g>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(&'g E) -> bool,
        section: &'g D::Section,
    ) -> Option<&'g E> {
        self.find_in_bucket(hash, |_, entry| is_it(entry), section)?.as_ref()
    }

    #[inline(always)]
    pub fn find_in_bucket<'g>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(Shared<'g, E>, &'g E) -> bool,
        section: &'g D::Section,
    ) -> Option<Shared<'g, E>> {
        let mut table = self.current(section)?;
        loop {
            #[expect(
                clippy::redundant_closure,
                reason = "calls through `&mut` are inlined only at link time"
            )]
            let found = table.bucket(hash).find(hash, |shared, entry| is_it(shared, entry), section);
            match found {
                Ok(found) => return found,
                Err(Moved) => table = table.next(section),
            }
        }
    }

    /// Begins to fetch what lookups of these hashes will need: the buckets, and then the entries.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn prefetch(&self, hashes: &[u64], section: &D::Section) {
        let Some(table) = self.current(section) else { return };
        hashes.iter().for_each(|&hash| memory::prefetch(table.bucket(hash)));
        hashes.iter().for_each(|&hash| table.bucket(hash).prefetch_entry(hash, section));
    }

    /// Returns the number of entries, if other stripes have as many as this one.
    pub fn estimate(&self, entries: usize) -> usize {
        entries * self.stripes.len()
    }

    /// Returns `true` if the table, which has few entries in a stripe, may be too large. Under the lock of the stripe.
    #[cold]
    pub fn is_sparse(&self, table: &Table<E, D>, stripe: &Stripe) -> bool {
        table.len() > self.buckets_for(0) && stripe.counts_all(self.stripes.len())
    }

    /// Returns the current table, which it makes if there is none.
    pub fn current_or_first<'g>(&self, section: &'g D::Section) -> &'g Table<E, D> {
        if let Some(table) = self.current(section) {
            return table;
        }
        let first = Owned::new(Table::new(self.buckets_for(0)));
        let current = match self.current.compare_exchange(Shared::null(), first, section) {
            Ok(first) => first,
            Err(error) => error.current,
        };
        current.as_ref().expect("not null")
    }

    /// Moves a bucket, whose lock the caller holds, unless it has moved. Returns the table that was replaced, if this
    /// was its last bucket.
    pub fn move_bucket<'g>(
        &self,
        table: &'g Table<E, D>,
        next: &'g Table<E, D>,
        index: usize,
        section: &'g D::Section,
    ) -> Option<Shared<'g, Table<E, D>>> {
        let bucket = &table.buckets[index];
        if bucket.has_moved() {
            return None;
        }
        #[cfg(all(test, not(loom)))]
        MOVES.set(MOVES.get() + 1);
        bucket.for_each(section, |loaded, entry| {
            step!("entry-not-copied", next.insert(loaded, entry, section));
        });
        bucket.set_moved();
        // Release, Acquire: the writer that publishes the next table has the copies of all others; pairs with itself.
        if table.moved.fetch_add(1, AcqRel) + 1 < table.len() {
            return None;
        }
        let replaced = self.current.load(section);
        self.current.store(table.next.load(section));
        Some(replaced)
    }

    /// Retires a table that `move_bucket` has replaced.
    pub fn retire_table(table: Shared<'_, Table<E, D>>, domain: &D, section: &D::Section) {
        let Some(replaced) = table.as_ref() else { return };
        // Not before: the writers that move buckets would wait until huge pages are filled with zeros.
        replaced.next(section).allow_huge_pages();
        // SAFETY: no pointer leads to it, but for those of open sections, and of tables that were retired before.
        unsafe { domain.retire_shared(table, DeferOptions::new().heap_bytes(replaced.size())) };
    }

    /// Begins to halve the current table, or to double it, if its number of entries is that of a smaller or larger one.
    ///
    /// Not in one step to the table that the number asks for: until all buckets have moved, the entries of writers go
    /// to the next table, however many they are.
    #[cold]
    pub fn resize_if_needed(&self, may_shrink: bool, section: &D::Section) {
        // The table first: a number that is out of date is then compared with a table that has been resized.
        let table = self.current_or_first(section);
        let (entries, buckets) = (self.len(), table.len());
        if may_shrink && entries < buckets * SPARSE && buckets > self.buckets_for(0) {
            table.resize(buckets / 2, section);
        } else if !may_shrink && entries > buckets * FULL {
            table.resize(buckets * 2, section);
        }
    }

    /// Moves a few buckets. Returns `false` if none is left for this thread.
    #[cold]
    pub fn help(&self, domain: &D, section: &D::Section) -> bool {
        let Some(table) = self.current(section) else { return false };
        let Some(next) = table.next.load(section).as_ref() else { return false };
        // Relaxed: a bucket is moved under its lock, by each thread that finds it where it was.
        if table.claimed.load(Relaxed) >= table.len() {
            return false;
        }
        let begin = table.claimed.fetch_add(SHARE, Relaxed);
        let end = (begin + SHARE).min(table.len());
        (begin..end).for_each(|index| self.lock_and_move(table, next, index, domain, section));
        begin < table.len()
    }

    fn lock_and_move<'g>(
        &self,
        table: &'g Table<E, D>,
        next: &'g Table<E, D>,
        index: usize,
        domain: &D,
        section: &'g D::Section,
    ) {
        let locked = self.stripes.of_hash(index as u64).lock();
        let replaced = self.move_bucket(table, next, index, section);
        drop(locked);
        if let Some(replaced) = replaced {
            Self::retire_table(replaced, domain, section);
        }
    }

    /// Completes the resize of the current table, if it is being resized.
    fn complete_resize(&self, domain: &D, section: &D::Section) {
        while self.help(domain, section) {}
        let Some(table) = self.current(section) else { return };
        let Some(next) = table.next.load(section).as_ref() else { return };
        // Other threads have undertaken to move the rest. A thread that moves a bucket holds its lock until the table is
        // replaced, if the bucket is the last one. So once each lock was taken, it has been replaced.
        (0..table.len()).for_each(|index| self.lock_and_move(table, next, index, domain, section));
    }

    /// Makes room for more entries, and keeps it until [`shrink_to_fit`](Self::shrink_to_fit).
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn reserve(&self, additional: usize, domain: &D, section: &D::Section) -> Result<(), NoMemory> {
        let buckets = self.buckets_for(self.len().saturating_add(additional));
        loop {
            self.complete_resize(domain, section);
            let table = self.current_or_first(section);
            if table.len() < buckets {
                table.try_resize(buckets, section)?;
                continue;
            }
            // Relaxed, both: only the number. Once it is set, the table is looked at again, as it may have shrunk. Not
            // set before the table is allocated, as there may be no memory.
            let reserved = self.reserved.load(Relaxed);
            if reserved >= buckets {
                return Ok(());
            }
            let _ = self.reserved.compare_exchange(reserved, buckets, Relaxed, Relaxed);
        }
    }

    /// Shrinks the table to its entries, by half at a time, and keeps no room.
    pub fn shrink_to_fit(&self, domain: &D, section: &D::Section) {
        // Relaxed: only the number.
        self.reserved.store(0, Relaxed);
        let Some(table) = self.current(section) else { return };
        // No more often than was necessary at first: another thread may reserve room at the same time.
        for _ in 0..table.len().ilog2() {
            self.complete_resize(domain, section);
            let table = self.current_or_first(section);
            if table.len() <= self.buckets_for(self.len()) {
                break;
            }
            table.resize(table.len() / 2, section);
        }
        self.complete_resize(domain, section);
    }

    /// Returns the table that is not the next of another one.
    #[inline(always)]
    pub fn current<'g>(&self, section: &'g D::Section) -> Option<&'g Table<E, D>> {
        self.current.load(section).as_ref()
    }

    /// Takes all entries out of a map that is then dropped: their number stays.
    pub fn drain(&mut self, mut f: impl FnMut(Owned<E>)) {
        // SAFETY: no section is open in which this map is borrowed.
        let Some(mut table) = (unsafe { self.current.take() }) else { return };
        // SAFETY: as above.
        let mut next = unsafe { table.next.take() };
        // The entries of buckets that have moved are in the next table, and only they.
        table.drain(|bucket| !bucket.has_moved(), &mut f);
        if let Some(next) = &mut next {
            next.drain(|_| true, &mut f);
        }
    }
}

impl<E: Hashed, D: Domain> Table<E, D> {
    pub fn drain(&mut self, which: impl Fn(&Bucket<E, D>) -> bool, f: &mut impl FnMut(Owned<E>)) {
        for bucket in &mut *self.buckets {
            if which(bucket) {
                bucket.drain(f);
            }
        }
    }
}

impl<E: Hashed, D: Domain> Drop for Tables<E, D> {
    /// Drops the entries, also those after one whose destructor panics, and then continues the panic.
    fn drop(&mut self) {
        let mut panic = None;
        self.drain(|entry| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(entry))) {
                panic.get_or_insert(payload);
            }
        });
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl<E: Hashed, D: Domain> fmt::Debug for Tables<E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// How many buckets this thread has moved.
    static MOVES: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

#[cfg(all(test, not(loom)))]
mod tests;
