//! How one table takes the place of another: see [`table`](super).

use core::mem;
use std::process::abort;

use super::bucket::{Bucket, Section, Shape, tag_of};
use super::chain::Moved;
use super::{Table, Tables};
#[cfg(not(loom))]
use crate::memory::{NoMemory, try_box};
#[cfg(loom)]
use crate::model::{NoMemory, try_box};
use crate::sync::{DeferOptions, Domain, Ordering::*, Owned, Shared, pause, step};

/// Chains that a writer moves for the others.
pub const SHARE: usize = if cfg!(loom) { 1 } else { 8 };

impl<S: Shape> Table<S> {
    /// Begins to resize the table, which was the current one, unless that has begun.
    fn try_resize(&self, buckets: usize, section: &Section<S>) -> Result<(), NoMemory> {
        if self.next.load(section).is_null() {
            let next = Owned::from(try_box(Self::try_new(buckets)?)?);
            // An error drops the table, as another thread was first.
            let _ = self.next.compare_exchange(Shared::null(), next, section);
        }
        Ok(())
    }

    /// [`try_resize`](Self::try_resize), which ends the program as the standard library does if there is no memory.
    #[track_caller]
    pub fn resize(&self, buckets: usize, section: &Section<S>) {
        if let Err(error) = self.try_resize(buckets, section) {
            error.fail();
        }
    }
}

/// Part of a chain is in the next table: the chain cannot be moved again, as its pairs may change meanwhile.
struct Incomplete;

impl Drop for Incomplete {
    /// There is no memory for an overflow bucket, and a hook for that panicked.
    fn drop(&mut self) {
        abort();
    }
}

impl<S: Shape> Tables<S> {
    /// Moves a chain, unless it has moved.
    #[cold]
    pub fn move_chain(
        &self,
        table: &Table<S>,
        next: &Table<S>,
        index: usize,
        rehash: S::Rehash<'_>,
        section: &Section<S>,
    ) {
        let chain = table.chain_at(index);
        #[cfg(all(test, not(loom)))]
        MOVES.set(MOVES.get() + usize::from(!chain.has_moved()));
        let (mut loaded, mut heads, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        // Hashes are computed before the chain is locked if that runs code of the user.
        let mut locked = loop {
            if S::IS_ENTRY {
                match chain.lock() {
                    Err(Moved) => return,
                    Ok(locked) => break locked,
                }
            }
            loaded.clear();
            heads.clear();
            hashes.clear();
            let version = match chain.snapshot(section, &mut loaded, |head| heads.push(head)) {
                Err(Moved) => return,
                Ok(None) => continue,
                Ok(Some(version)) => version,
            };
            let mut pairs = loaded.chunks_exact(S::SLOT);
            let mut hash = || pairs.next().map_or(0, |pair| S::hash(pair, rehash));
            for head in &heads {
                hashes.extend((0..S::SLOTS).map(|slot| if tag_of(*head, slot) != 0 { hash() } else { 0 }));
            }
            match chain.lock() {
                Err(Moved) => return,
                // Since then, pairs may have been removed, and values replaced. No slot has another key.
                Ok(locked) if locked.has_version(version) => break locked,
                Ok(_) => {}
            }
        };
        let mut hashes = hashes.iter();
        let incomplete = Incomplete;
        // The bits that the chains of both tables have in common, whatever the hasher says: no other thread may
        // change those chains of the next table.
        let common = table.len().min(next.len()) as u64 - 1;
        locked.for_each(|bucket, slot, has_tag| {
            let hash = hashes.next().copied();
            if !has_tag {
                return;
            }
            let hash = if S::IS_ENTRY { S::entry_hash(bucket, slot, section) } else { hash };
            let Some(mut hash) = hash else { return };
            step!("hash-of-another-chain", hash = hash & !common | index as u64 & common);
            let (target, copy) =
                (next.chain(hash), |to: Bucket<'_, S>, free| S::copy(bucket, slot, to, free));
            if next.len() >= table.len() {
                step!("pair-not-copied", target.add_unshared(hash, copy));
            } else {
                // Several chains become one, and some of them may have moved.
                target.lock().expect("the next table is not being resized").insert(hash, copy);
            }
        });
        locked.set_moved();
        mem::forget(incomplete);
        drop(locked);
        // Release, Acquire: the writer that publishes the next table has the copies of all others; pairs with itself.
        if table.moved.fetch_add(1, AcqRel) + 1 == table.len() {
            let replaced = self.current.load(section);
            self.current.store(table.next.load(section));
            // Not before: the writers that move chains would wait until huge pages are filled with zeros.
            next.allow_huge_pages();
            let options = DeferOptions::new().heap_bytes(table.size());
            // SAFETY: no pointer leads to it, but for those of open sections, and of tables that were retired before.
            unsafe { self.domain.retire_shared(replaced, options) };
        }
    }

    /// Doubles a table that many overflow buckets belong to, unless it has few entries. Then their hashes are to
    /// blame, or entries come and go, and chains keep the buckets that they needed at times. Without memory, the
    /// table stays as it is.
    #[cold]
    pub fn grow(&self, table: &Table<S>, are_numbers_scarce: bool, section: &Section<S>) {
        let most = if are_numbers_scarce { table.room() / 2 } else { table.room() };
        if self.is_current(table, section) && self.len() > most {
            let _ = table.try_resize(table.len() * 2, section);
        }
    }

    /// Halves a table that has less than one entry for each bucket. Without memory, it stays as it is.
    #[cold]
    pub fn shrink(&self, table: &Table<S>, section: &Section<S>) {
        if self.is_current(table, section) && self.len() < table.len() && table.len() > self.buckets_for(0) {
            let _ = table.try_resize(table.len() / 2, section);
        }
    }

    /// Moves a few chains of the current table, if it is being resized. Returns `false` if it is not.
    #[cold]
    pub fn help(&self, rehash: S::Rehash<'_>, section: &Section<S>) -> bool {
        let Some(table) = self.current(section) else { return false };
        let Some(next) = table.next.load(section).as_ref() else { return false };
        // Relaxed: a chain is moved under its lock.
        let begin = table.claimed.fetch_add(SHARE, Relaxed);
        (begin..begin + SHARE).for_each(|index| self.move_chain(table, next, index, rehash, section));
        true
    }

    /// Completes the resize of the current table, if it is being resized.
    fn complete_resize(&self, rehash: S::Rehash<'_>, section: &Section<S>) {
        let Some(table) = self.current(section) else { return };
        let Some(next) = table.next.load(section).as_ref() else { return };
        (0..table.len()).for_each(|index| self.move_chain(table, next, index, rehash, section));
        // Another thread may have moved the last chain, and be about to publish the next table.
        step!("resize-not-awaited", (0..).take_while(|_| self.is_current(table, section)).for_each(pause));
    }

    /// Makes room for more entries, and keeps it until [`shrink_to_fit`](Self::shrink_to_fit).
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn reserve(
        &self,
        additional: usize,
        rehash: S::Rehash<'_>,
        section: &Section<S>,
    ) -> Result<(), NoMemory> {
        let buckets = self.buckets_for(self.len().saturating_add(additional));
        loop {
            self.complete_resize(rehash, section);
            match self.current(section) {
                None => {
                    let first = Owned::from(try_box(Table::try_new(buckets)?)?);
                    // An error drops the table, as another thread was first.
                    let _ = self.current.compare_exchange(Shared::null(), first, section);
                }
                Some(table) if table.len() < buckets => table.try_resize(buckets, section)?,
                Some(_) => {
                    // Relaxed: only the number. The table is looked at again once it is set, as it may have shrunk.
                    let reserved = self.reserved.load(Relaxed);
                    if reserved >= buckets {
                        return Ok(());
                    }
                    let _ = self.reserved.compare_exchange(reserved, buckets, Relaxed, Relaxed);
                }
            }
        }
    }

    /// Shrinks the table to its entries, and keeps no room.
    pub fn shrink_to_fit(&self, rehash: S::Rehash<'_>, section: &Section<S>) {
        // Relaxed: only the number.
        self.reserved.store(0, Relaxed);
        self.complete_resize(rehash, section);
        let Some(table) = self.current(section) else { return };
        let buckets = self.buckets_for(self.len());
        if table.len() > buckets {
            table.resize(buckets, section);
            self.complete_resize(rehash, section);
        }
    }
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// How many chains this thread has moved.
    pub static MOVES: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}
