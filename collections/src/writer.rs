//! Writers: they look a key up, lock its stripe, and change its entry if it is as they have seen it.
//!
//! A writer first looks its key up as a reader does ([`Seen::look_up`]). That compares keys, and brings the lines of
//! the bucket and of the entry into the cache. Then it takes the lock, and makes its change if the chain still has what
//! it has seen: the same entry for its key, or no entry of its hash that it has not compared. The section keeps the
//! addresses of entries from being used again. Otherwise the writer looks again.

use crate::bucket::Hashed;
#[cfg(not(loom))]
use crate::recycled;
use crate::sync::{Domain, Owned, Shared, share};
use crate::table::{FULL, SPARSE, Table, Tables};

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
    /// Tables to retire: rarely one, seldom two.
    replaced: Vec<Shared<'g, Table<E, D>>>,
}

/// Has the domain dispose of an unlinked entry.
///
/// # Safety
///
/// As for `Domain::retire_shared`.
#[inline(always)]
pub unsafe fn retire<E: Hashed, D: Domain>(tables: &Tables<E, D>, entry: Shared<'_, E>, domain: &D) {
    let Some(bytes) = entry.as_ref().and_then(Hashed::heap_bytes) else {
        // SAFETY: the caller's contract.
        return unsafe { domain.retire_shared(entry, tables.options) };
    };
    // It only owns memory, as far as is known of its type.
    let options = tables.options.heap_bytes(bytes).run_on_retiring_thread();
    // SAFETY: the caller's contract; entries come from a `Box`.
    #[cfg(not(loom))]
    unsafe {
        let entry = entry.as_ptr().cast_mut().cast();
        domain.retire_raw_with(entry, size_of::<E>(), recycled::drop::<E>, options);
    }
    // SAFETY: the caller's contract.
    #[cfg(loom)]
    unsafe {
        domain.retire_shared(entry, options);
    }
}

impl<'g, E: Hashed> Seen<'g, E> {
    /// Looks a key up that the caller will change.
    #[inline(always)]
    pub fn look_up<D: Domain>(
        tables: &Tables<E, D>,
        hash: u64,
        mut is_it: impl FnMut(&'g E) -> bool,
        section: &'g D::Section,
    ) -> Self {
        let mut others = Vec::new();
        let found = tables.find_in_bucket(
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
        Self { entry: found.unwrap_or_default(), others }
    }

    /// Looks the key of `entry` up, without comparing keys. Returns `None` if it is no longer the entry.
    pub fn look_again<D: Domain>(
        tables: &Tables<E, D>,
        hash: u64,
        entry: Shared<'g, E>,
        section: &'g D::Section,
    ) -> Option<Self> {
        let entry = tables.find_in_bucket(hash, |loaded, _| loaded == entry, section)?;
        Some(Self { entry, others: Vec::new() })
    }

    /// Makes `new` the entry of the key that was looked up, or removes that entry. The domain disposes of the old entry.
    ///
    /// # Errors
    ///
    /// If the map has changed since. Returns `new`.
    pub fn exchange<D: Domain>(
        &self,
        tables: &Tables<E, D>,
        hash: u64,
        new: Option<Owned<E>>,
        domain: &D,
        section: &'g D::Section,
    ) -> Result<Option<&'g E>, Option<Owned<E>>> {
        if new.is_none() && self.entry.is_null() {
            return Ok(None);
        }
        let new = new.map_or(Shared::null(), |new| share::<E, D>(new, section));
        let after = self.exchange_locked(tables, hash, new, section);
        for table in after.replaced {
            Tables::retire_table(table, domain, section);
        }
        if !after.is_done {
            // SAFETY: it comes from `share` above, and was not stored.
            return Err((!new.is_null()).then(|| unsafe { new.into_owned() }));
        }
        // SAFETY: it is unlinked.
        unsafe { retire(tables, self.entry, domain) };
        if after.is_moving {
            tables.help(domain, section);
        } else if after.must_resize {
            tables.resize_if_needed(new.is_null(), section);
        }
        Ok(new.as_ref())
    }

    fn exchange_locked<D: Domain>(
        &self,
        tables: &Tables<E, D>,
        hash: u64,
        new: Shared<'g, E>,
        section: &'g D::Section,
    ) -> After<'g, E, D> {
        let first = tables.current_or_first(section);
        let stripe = tables.stripes.of_hash(hash);
        let _locked = stripe.lock();
        // Under the lock, as another thread may have replaced it.
        let mut table = tables.current(section).unwrap_or(first);
        let mut replaced = Vec::new();
        let mut is_moving = false;
        while let Some(next) = table.next.load(section).as_ref() {
            replaced.extend(tables.move_bucket(table, next, table.index(hash), section));
            table = next;
            is_moving = true;
        }
        let bucket = table.bucket(hash);
        let mut must_resize = false;
        let is_done = if self.entry.is_null() {
            let is_absent = bucket.has_only(hash, &self.others, section);
            if is_absent {
                let is_full = bucket.insert(hash, new, &table.overflow, section);
                let entries = stripe.count(1);
                must_resize = is_full && tables.estimate(entries) > table.len() * FULL / 4 * 3;
            }
            is_absent
        } else if new.is_null() {
            let is_removed = bucket.remove(hash, self.entry, &table.overflow, section);
            if is_removed {
                let entries = stripe.count(-1);
                must_resize =
                    tables.estimate(entries) < table.len() * SPARSE && tables.is_sparse(table, stripe);
            }
            is_removed
        } else {
            bucket.replace(hash, self.entry, new, section)
        };
        After { is_done, is_moving: is_moving && replaced.is_empty(), must_resize, replaced }
    }
}
