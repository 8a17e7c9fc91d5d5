//! Tables of buckets, and how one takes the place of another.
//!
//! A hash belongs to a *stripe*, by its lowest bits, and to a bucket of each table, by its lowest bits too. Tables have
//! at least as many buckets as there are stripes. So the hashes of a bucket belong to one stripe, in every table, and a
//! writer holds one lock.
//!
//! To resize, a writer allocates another table and links it as `next` of the current one. Each bucket *moves* under the
//! lock of its stripe: its entries are copied to the next table, then it is marked. Writers move the bucket of their
//! key, and a few others. The writer that moves the last bucket makes the next table the current one, and retires the
//! table before it.
//!
//! # Invariants
//!
//! 1. The entries of a hash are in the first table, beginning with the current one, in which its bucket has not moved.
//! 2. A table is resized once, and only when it is the current one. So at most two tables have entries at a time.
//! 3. When a table becomes the current one, all buckets of the table before it have moved.
//! 4. No code of the program runs while a lock is held.
//!
//! # Writers
//!
//! A writer first looks its key up as a reader does ([`Tables::look_up`]). That compares keys, and brings the lines of
//! the bucket and of the entry into the cache. Then it takes the lock, and makes its change if the chain still has what
//! it has seen: the same entry for its key, or no entry of its hash that it has not compared. The section keeps the
//! addresses of entries from being used again. Otherwise the writer looks again.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::bucket::{Bucket, Hashed, Moved};
#[cfg(not(loom))]
use crate::memory::Zeroed;
use crate::stripes::Stripes;
use crate::sync::{Atomic, AtomicUsize, DeferOptions, Domain, Ordering::*, Owned, Shared, share, step};

/// Entries for each bucket, on average, above which a table grows. A bucket has room for six.
const FULL: usize = 4;
/// Entries for each bucket below which a table shrinks.
const SPARSE: usize = 1;
/// Buckets that a writer moves for the others.
const SHARE: usize = if cfg!(loom) { 1 } else { 8 };

/// One table. It does not own the entries.
pub struct Table<E: Hashed, D: Domain> {
    /// A power of two of them.
    pub(crate) buckets: Buckets<E, D>,
    next: Atomic<Table<E, D>, D>,
    /// Buckets that writers have undertaken to move.
    claimed: AtomicUsize,
    /// Buckets that have moved.
    moved: AtomicUsize,
}

impl<E: Hashed, D: Domain> Table<E, D> {
    #[track_caller]
    fn new(buckets: usize) -> Self {
        debug_assert!(buckets.is_power_of_two());
        Self {
            buckets: allocate(buckets),
            next: Atomic::null(),
            claimed: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
        }
    }

    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    #[inline(always)]
    fn index(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> &Bucket<E, D> {
        // SAFETY: the index is less than the length, which is a power of two.
        unsafe { self.buckets.get_unchecked(self.index(hash)) }
    }

    /// Begins to resize the table, which was the current one, unless that has begun.
    #[track_caller]
    pub fn resize(&self, buckets: usize, section: &D::Section) {
        if self.next.load(section).is_null() {
            let next = Owned::new(Table::new(buckets));
            // An error drops the table, as another thread was first.
            let _ = self.next.compare_exchange(Shared::null(), next, section);
        }
    }

    /// Returns the next table, which exists if a bucket has moved.
    #[inline(always)]
    pub fn next<'g>(&self, section: &'g D::Section) -> &'g Self {
        self.next.load(section).as_ref().expect("a bucket has moved")
    }
}

#[cfg(not(loom))]
type Buckets<E, D> = Zeroed<Bucket<E, D>>;

/// The options with which an entry is retired: what its key and its value own counts, if it is known.
fn options<E: Hashed>(entry: Shared<'_, E>) -> DeferOptions {
    let options = DeferOptions::new();
    match entry.as_ref().and_then(Hashed::heap_bytes) {
        Some(bytes) => options.heap_bytes(bytes),
        None => options,
    }
}

#[cfg(loom)]
type Buckets<E, D> = Box<[Bucket<E, D>]>;

/// Allocates empty buckets.
#[track_caller]
fn allocate<E: Hashed, D: Domain>(buckets: usize) -> Buckets<E, D> {
    #[cfg(loom)]
    return (0..buckets).map(|_| Bucket::new()).collect();
    // SAFETY: an empty bucket consists of zeros: a header without bits, and null pointers.
    #[cfg(not(loom))]
    unsafe {
        Zeroed::new(buckets)
    }
}

impl<E: Hashed, D: Domain> Drop for Table<E, D> {
    fn drop(&mut self) {
        for bucket in &mut *self.buckets {
            let mut next = bucket.take_next();
            while let Some(mut bucket) = next {
                next = bucket.take_next();
            }
        }
    }
}

/// What a writer has seen of a hash.
#[derive(Debug)]
pub struct Seen<'g, E> {
    /// The entry of the writer's key, or null.
    pub entry: Shared<'g, E>,
    /// The entries of other keys with the same hash, if the key has none.
    others: Vec<Shared<'g, E>>,
}

/// What a change has left to do once the lock is released.
struct After<'g, E: Hashed, D: Domain> {
    /// Whether the map was as seen, so that the change was made.
    is_done: bool,
    /// Whether the table is being resized.
    is_moving: bool,
    /// Whether it should be.
    must_resize: bool,
    /// A bucket to retire.
    unlinked: Shared<'g, Bucket<E, D>>,
    /// Tables to retire: rarely one, seldom two.
    replaced: Vec<Shared<'g, Table<E, D>>>,
}

/// The entries of a map: see the [module](self).
pub struct Tables<E: Hashed, D: Domain> {
    /// Null before the first entry.
    current: Atomic<Table<E, D>, D>,
    stripes: Stripes,
    /// The number of buckets for the room that was asked for. Tables do not shrink below it, nor below the number of
    /// stripes.
    reserved: AtomicUsize,
}

impl<E: Hashed, D: Domain> Tables<E, D> {
    /// Does not allocate.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { current: Atomic::null(), stripes: Stripes::new(), reserved: AtomicUsize::new(0) }
    }

    /// Allocates room for `entries`.
    #[track_caller]
    pub fn with_capacity(entries: usize) -> Self {
        let reserved = AtomicUsize::new(0);
        let tables = Self { current: Atomic::null(), stripes: Stripes::new(), reserved };
        if entries > 0 {
            let buckets = tables.buckets_for(entries);
            // Relaxed: no other thread has the map.
            tables.reserved.store(buckets, Relaxed);
            tables.current.store(Owned::new(Table::new(buckets)));
        }
        tables
    }

    /// Returns how many buckets have room for as many entries.
    fn buckets_for(&self, entries: usize) -> usize {
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
    fn find_in_bucket<'g>(
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

    /// Looks a key up that the caller will change.
    #[inline(always)]
    pub fn look_up<'g>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(&'g E) -> bool,
        section: &'g D::Section,
    ) -> Seen<'g, E> {
        let mut others = Vec::new();
        let found = self.find_in_bucket(
            hash,
            |loaded, entry| {
                let is_it = is_it(entry);
                if !is_it && entry.hash() == hash {
                    others.push(loaded);
                }
                is_it
            },
            section,
        );
        Seen { entry: found.unwrap_or_default(), others }
    }

    /// Looks the key of `entry` up, without comparing keys. Returns `None` if it is no longer the entry.
    pub fn look_again<'g>(
        &self,
        hash: u64,
        entry: Shared<'g, E>,
        section: &'g D::Section,
    ) -> Option<Seen<'g, E>> {
        let entry = self.find_in_bucket(hash, |loaded, _| loaded == entry, section)?;
        Some(Seen { entry, others: Vec::new() })
    }

    /// Makes `new` the entry of the key with which `seen` was looked up, or removes that entry. The domain disposes of
    /// the old entry.
    ///
    /// # Errors
    ///
    /// If the map has changed since. Returns `new`.
    pub fn exchange<'g>(
        &self,
        hash: u64,
        seen: &Seen<'g, E>,
        new: Option<Owned<E>>,
        domain: &D,
        section: &'g D::Section,
    ) -> Result<Option<&'g E>, Option<Owned<E>>> {
        if new.is_none() && seen.entry.is_null() {
            return Ok(None);
        }
        let new = new.map_or(Shared::null(), |new| share::<E, D>(new, section));
        let after = self.exchange_locked(hash, seen, new, section);
        for table in after.replaced {
            Self::retire_table(table, domain);
        }
        if !after.is_done {
            // SAFETY: it comes from `share` above, and was not stored.
            return Err((!new.is_null()).then(|| unsafe { new.into_owned() }));
        }
        // SAFETY: both are unlinked.
        unsafe {
            domain.retire_shared(seen.entry, options(seen.entry));
            domain.retire_shared(after.unlinked, DeferOptions::new());
        }
        if after.is_moving {
            self.help(domain, section);
        } else if after.must_resize {
            self.resize_if_needed(new.is_null(), section);
        }
        Ok(new.as_ref())
    }

    fn exchange_locked<'g>(
        &self,
        hash: u64,
        seen: &Seen<'g, E>,
        new: Shared<'g, E>,
        section: &'g D::Section,
    ) -> After<'g, E, D> {
        let first = self.current_or_first(section);
        let (stripe, _locked) = self.stripes.lock(hash);
        // Under the lock, as another thread may have replaced it.
        let mut table = self.current(section).unwrap_or(first);
        let mut replaced = Vec::new();
        let mut is_moving = false;
        while let Some(next) = table.next.load(section).as_ref() {
            replaced.extend(self.move_bucket(table, next, table.index(hash), section));
            table = next;
            is_moving = true;
        }
        let bucket = table.bucket(hash);
        let (mut unlinked, mut must_resize) = (Shared::null(), false);
        let is_done = if seen.entry.is_null() {
            let is_absent = bucket.has_only(hash, &seen.others, section);
            if is_absent {
                let is_full = bucket.insert(hash, new, section);
                let entries = stripe.count(1);
                must_resize = is_full && self.estimate(entries) > table.len() * FULL / 4 * 3;
            }
            is_absent
        } else if new.is_null() {
            let removed = bucket.remove(hash, seen.entry, section);
            if let Some(bucket) = removed {
                unlinked = bucket;
                let entries = stripe.count(-1);
                must_resize = self.estimate(entries) < table.len() * SPARSE
                    && table.len() > self.buckets_for(0)
                    && stripe.counts_all(self.stripes.len());
            }
            removed.is_some()
        } else {
            bucket.replace(hash, seen.entry, new, section)
        };
        After { is_done, is_moving: is_moving && replaced.is_empty(), must_resize, unlinked, replaced }
    }

    /// Returns the number of entries, if other stripes have as many as this one.
    fn estimate(&self, entries: usize) -> usize {
        entries * self.stripes.len()
    }

    /// Returns the current table, which it makes if there is none.
    fn current_or_first<'g>(&self, section: &'g D::Section) -> &'g Table<E, D> {
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
    fn move_bucket<'g>(
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
        bucket.for_each(section, |loaded, entry| {
            step!("entry-not-copied", next.bucket(entry.hash()).insert(entry.hash(), loaded, section));
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
    fn retire_table(table: Shared<'_, Table<E, D>>, domain: &D) {
        let bytes = table.as_ref().map_or(0, |table| size_of_val(&*table.buckets));
        // SAFETY: no pointer leads to it, but for those of open sections, and of tables that were retired before.
        unsafe { domain.retire_shared(table, DeferOptions::new().heap_bytes(bytes)) };
    }

    /// Begins to halve the current table, or to double it, if its number of entries is that of a smaller or larger one.
    ///
    /// Not in one step to the table that the number asks for: until all buckets have moved, the entries of writers go
    /// to the next table, however many they are.
    #[cold]
    fn resize_if_needed(&self, may_shrink: bool, section: &D::Section) {
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
    fn help(&self, domain: &D, section: &D::Section) -> bool {
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
        let (_, locked) = self.stripes.lock(index as u64);
        let replaced = self.move_bucket(table, next, index, section);
        drop(locked);
        if let Some(replaced) = replaced {
            Self::retire_table(replaced, domain);
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
    #[track_caller]
    pub fn reserve(&self, additional: usize, domain: &D, section: &D::Section) {
        let buckets = self.buckets_for(self.len().saturating_add(additional));
        loop {
            self.complete_resize(domain, section);
            let table = self.current_or_first(section);
            if table.len() < buckets {
                table.resize(buckets, section);
                continue;
            }
            // Relaxed, both: only the number. Once it is set, the table is looked at again, as it may have shrunk. Not
            // set before the table is allocated, which panics if it is too large.
            let reserved = self.reserved.load(Relaxed);
            if reserved >= buckets {
                return;
            }
            let _ = self.reserved.compare_exchange(reserved, buckets, Relaxed, Relaxed);
        }
    }

    /// Shrinks the table to its entries, by half at a time, and keeps no room.
    pub fn shrink_to_fit(&self, domain: &D, section: &D::Section) {
        // Relaxed: only the number.
        self.reserved.store(0, Relaxed);
        let Some(table) = self.current(section) else { return };
        // No more often than was necessary at first: another thread may reserve room meanwhile.
        for _ in 0..table.len().ilog2() {
            self.complete_resize(domain, section);
            let table = self.current_or_first(section);
            if table.len() <= self.buckets_for(self.len()) {
                return;
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
    fn drain(&mut self, which: impl Fn(&Bucket<E, D>) -> bool, f: &mut impl FnMut(Owned<E>)) {
        for bucket in &mut *self.buckets {
            if which(bucket) {
                bucket.drain(f);
            }
        }
    }
}

impl<E: Hashed, D: Domain> Drop for Tables<E, D> {
    /// Drops the entries, also those after one whose destructor panics, and then goes on with the panic.
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
mod tests {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

    use stillpoint::rcu::{self, Global};

    use super::*;
    use crate::stripes::SUMS;

    struct Entry(u64);

    impl Hashed for Entry {
        fn hash(&self) -> u64 {
            BuildHasherDefault::<DefaultHasher>::new().hash_one(self.0)
        }
    }

    type Map = Tables<Entry, Global>;

    /// Inserts a key, or removes it.
    fn change(map: &Map, key: u64, is_there: bool) {
        let (entry, section) = (Entry(key), rcu::enter());
        let hash = entry.hash();
        let seen = map.look_up(hash, |entry| entry.0 == key, &section);
        let new = is_there.then(|| Owned::new(entry));
        assert!(map.exchange(hash, &seen, new, &Global, &section).is_ok());
    }

    fn buckets(map: &Map) -> usize {
        map.current(&rcu::enter()).map_or(0, Table::len)
    }

    /// As on a machine with many CPUs.
    #[test]
    fn removals_from_a_nearly_sparse_table_seldom_count_all_stripes() {
        const STRIPES: usize = 256;
        let map =
            Map { current: Atomic::null(), stripes: Stripes::of(STRIPES), reserved: AtomicUsize::new(0) };
        let mut keys = 0..;
        let mut insert = || change(&map, keys.next().expect("no end"), true);
        while buckets(&map) < 8 * STRIPES {
            insert();
        }
        let mut oldest = 0..;
        let mut remove = || change(&map, oldest.next().expect("no end"), false);
        let nearly = buckets(&map) + buckets(&map) / 16;
        while map.len() > nearly {
            remove();
        }
        let (table, before) = (buckets(&map), SUMS.get());
        let rounds = 4_000;
        for _ in 0..rounds {
            insert();
            remove();
        }
        let sums = SUMS.get() - before;
        assert!(sums < rounds / 16, "{sums} of {rounds} removals have counted all stripes");
        assert_eq!(buckets(&map), table);
        // The table still shrinks once it is sparse.
        while map.len() > 0 {
            remove();
        }
        assert!(buckets(&map) <= table / 2, "{table} to {}", buckets(&map));
    }
}
