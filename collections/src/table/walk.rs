//! Walks over all entries of a map.
//!
//! A walk has a step for each value of the lowest bits of hashes: as many as its table had buckets when it began. A
//! step looks at the buckets of the current table whose entries may have these bits: one bucket, if the table has not
//! been resized since, several if it has grown, or a part of one if it has shrunk. Chains that have moved stand for
//! those of the next table.
//!
//! Many steps are made at once, so that many entries are fetched at the same time. No branch depends on how many of
//! them a bucket has, as it would often be mispredicted.

use core::ops::Range;

use super::bucket::{Section, Shape};
use super::chain::Moved;
use super::{Table, Tables};

/// Slots that are loaded, at least, when some are returned.
const LOADED: usize = if cfg!(loom) { 1 } else { 64 };

/// Entries that are still being fetched then: they are returned after the next ones have been loaded.
const FETCHED: usize = LOADED / 2;

/// Buckets ahead of a walk that are fetched.
const AHEAD: usize = 32;

/// The steps that are left of a walk, and what slots held in those that were made: their words.
pub struct Walk<W> {
    mask: usize,
    steps: Range<usize>,
    loaded: Vec<W>,
    /// Those of `loaded` that are returned next.
    ready: Range<usize>,
}

impl<W: Copy> Walk<W> {
    pub fn new<'g, S: Shape<Loaded<'g> = W>>(tables: &Tables<S>, section: &'g Section<S>) -> Self {
        let buckets = tables.current(section).map_or(0, Table::len);
        let loaded = Vec::with_capacity(LOADED.min(buckets.saturating_mul(S::SLOTS)) * S::SLOT);
        Self { mask: buckets.wrapping_sub(1), steps: 0..buckets, loaded, ready: 0..0 }
    }

    /// Returns the next slot, which has so many words. If none is ready, `load` is called, which [makes steps](Self::load).
    ///
    /// A key that is in the map during all of the walk is returned once.
    #[inline(always)]
    pub fn next(&mut self, words: usize, load: impl FnOnce(&mut Self)) -> Option<&[W]> {
        if self.ready.is_empty() {
            load(self);
        }
        let next = self.ready.start;
        self.ready.start = (next + words).min(self.ready.end);
        self.loaded[..self.ready.end].get(next..next + words)
    }

    /// Makes the next steps, at most `most`. Returns `false` if no slot is ready, and steps are left.
    pub fn load<'g, S: Shape<Loaded<'g> = W>>(
        &mut self,
        tables: &Tables<S>,
        rehash: S::Rehash<'_>,
        section: &'g Section<S>,
        most: usize,
    ) -> bool {
        self.loaded.drain(..self.ready.start);
        self.ready = 0..0;
        let Some(table) = tables.current(section) else { return true };
        let end = self.steps.start.saturating_add(most).min(self.steps.end);
        while self.loaded.len() < LOADED * S::SLOT && self.steps.start < end {
            let value = self.steps.start;
            self.steps.start += 1;
            table.chain_at(value + AHEAD).home().prefetch();
            // The table has as many buckets as when the walk began, in the usual case.
            if table.len() - 1 != self.mask || table.chain_at(value).load(section, &mut self.loaded).is_err()
            {
                collect(table, self.mask, value, rehash, section, &mut self.loaded);
            }
        }
        let fetched = if S::IS_ENTRY && !self.steps.is_empty() { FETCHED } else { 0 };
        self.ready.end = self.loaded.len().saturating_sub(fetched);
        !self.ready.is_empty() || self.steps.is_empty()
    }
}

/// Adds what has a hash with the bits `value` of `mask`: from a table, or from the next one if their chain has moved.
#[cold]
fn collect<'g, S: Shape>(
    table: &'g Table<S>,
    mask: usize,
    value: usize,
    rehash: S::Rehash<'_>,
    section: &'g Section<S>,
    loaded: &mut Vec<S::Loaded<'g>>,
) {
    let buckets = table.len() - 1;
    for index in (value & buckets..table.len()).step_by(mask + 1) {
        // Those of one bucket. If the table is smaller than one before it, the bucket has others too.
        let (mask, value) = if buckets > mask { (buckets, index) } else { (mask, value) };
        let before = loaded.len();
        if let Err(Moved) = table.chain_at(index).load(section, loaded) {
            collect(table.next(section), mask, value, rehash, section, loaded);
        } else if buckets != mask {
            let all = loaded.split_off(before);
            let is_kept = |slot: &&[_]| S::hash(slot, rehash) as usize & mask == value;
            loaded.extend(all.chunks_exact(S::SLOT).filter(is_kept).flatten());
        }
    }
}
