//! Changes of single entries, each of which may have the table grow or shrink.

use super::chain::{Locked, Moved};
use super::overflow::NEXT;
use super::shape::{Shape, Words};
use super::tables::{LEAST, Rehash, Tables};
use crate::sync::{Domain, step};

/// A table grows when it has an overflow bucket for so many of its buckets, and more entries than it has room for. If the
/// hashes are random, and nothing was removed, a table of pairs of numbers has both at the same time: five entries for each
/// bucket of seven slots.
const CHAINED: usize = 8;

/// Or when it has so many, half of those that have a number, and entries for half of its room.
const MOST: usize = NEXT as usize / 2;

/// Tables above that many buckets count their entries, before they grow, in some insertions only.
const LARGE: usize = 4096;

/// What a change has done, and what it left.
pub struct Change {
    /// What the number of entries grows by.
    entries: isize,
    /// Overflow buckets in use, if that has grown.
    overflow: Option<usize>,
    /// Whether the first bucket is empty now.
    is_empty: bool,
}

impl Change {
    const NONE: Self = Self { entries: 0, overflow: None, is_empty: false };
}

impl<S: Shape, D: Domain> Tables<S, D> {
    /// Calls `f` with the locked chain of a hash, and does what the change leaves to do.
    #[inline(always)]
    #[track_caller]
    fn change<R>(
        &self,
        hash: u64,
        rehash: Rehash<'_>,
        section: &D::Section,
        f: impl FnOnce(&mut Locked<'_, S>) -> (R, Change),
    ) -> R {
        let mut table = self.current(section).unwrap_or_else(|| self.first(section));
        let mut is_moving = false;
        let mut locked = loop {
            if let Some(next) = table.next.load(section).as_ref() {
                step!("chain-not-moved-first", self.move_chain(table, next, hash as usize, rehash, section));
                (table, is_moving) = (next, true);
                continue;
            }
            match table.chain(hash).lock() {
                Ok(locked) => break locked,
                Err(Moved) => table = table.next(section),
            }
        };
        let (result, change) = f(&mut locked);
        drop(locked);
        if change.entries != 0 {
            self.entries.add(change.entries);
        }
        if is_moving {
            self.help(rehash, section);
        } else if change.overflow.is_some_and(|used| used > (table.len() / CHAINED).min(MOST)) {
            if table.len() <= LARGE || is_sample(hash) {
                self.grow(table, change.overflow > Some(MOST), section);
            }
        } else if change.is_empty && table.len() > LEAST && is_sample(hash) {
            self.shrink(table, section);
        }
        result
    }

    /// Makes `value` the value of a key. Returns the old one.
    #[inline(always)]
    #[track_caller]
    pub fn insert(
        &self,
        hash: u64,
        [key, value]: [&Words; 2],
        rehash: Rehash<'_>,
        section: &D::Section,
    ) -> Option<Words> {
        self.change(hash, rehash, section, |chain| match chain.find(hash, key) {
            Some(place) => {
                let old = chain.value(&place);
                chain.replace(&place, value);
                (Some(old), Change::NONE)
            }
            None => {
                let overflow = chain.insert(hash, key, value);
                (None, Change { entries: 1, overflow, is_empty: false })
            }
        })
    }

    /// Removes a key, if its value is the one that is `expected`, or any. Returns the value that it had.
    ///
    /// # Errors
    ///
    /// If it has another value.
    #[inline(always)]
    pub fn remove(
        &self,
        hash: u64,
        key: &Words,
        expected: Option<&Words>,
        rehash: Rehash<'_>,
        section: &D::Section,
    ) -> Result<Option<Words>, Option<Words>> {
        // Nothing is locked for most keys that are not there. A caller that expects a value has looked already.
        if expected.is_none() && !self.may_have(hash, section) {
            return Ok(None);
        }
        self.change(hash, rehash, section, |chain| {
            let place = chain.find(hash, key);
            let old = place.as_ref().map(|place| chain.value(place));
            match place {
                _ if expected.is_some() && old.as_ref() != expected => (Err(old), Change::NONE),
                None => (Ok(None), Change::NONE),
                Some(place) => {
                    let is_empty = chain.remove(place);
                    (Ok(old), Change { entries: -1, overflow: None, is_empty })
                }
            }
        })
    }

    /// Makes `value` the value of a key, if it has the one that is `expected`, or none.
    ///
    /// # Errors
    ///
    /// If it has another value, or one, or none.
    #[track_caller]
    pub fn exchange(
        &self,
        hash: u64,
        [key, value]: [&Words; 2],
        expected: Option<&Words>,
        rehash: Rehash<'_>,
        section: &D::Section,
    ) -> Result<(), Option<Words>> {
        self.change(hash, rehash, section, |chain| {
            let place = chain.find(hash, key);
            let old = place.as_ref().map(|place| chain.value(place));
            if old.as_ref() != expected {
                return (Err(old), Change::NONE);
            }
            if let Some(place) = place {
                chain.replace(&place, value);
                return (Ok(()), Change::NONE);
            }
            let overflow = chain.insert(hash, key, value);
            (Ok(()), Change { entries: 1, overflow, is_empty: false })
        })
    }
}

/// Returns `true` for one of a few hashes: changes of these count the entries, which takes a load for each CPU.
fn is_sample(hash: u64) -> bool {
    cfg!(loom) || (hash >> 32) as usize & (crate::stripes::usual() - 1) == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use stillpoint::rcu::{Global, enter};

    use super::*;
    use crate::copy_map::plain::{Pair, encode};

    #[test]
    fn overflow_buckets_belong_to_the_size_of_a_table_and_are_unlinked() {
        let tables = Tables::<Pair<u64, u64>, _>::new(Global);
        let section = enter();
        let insert = |key: u64| tables.insert(0, [&encode(&key); 2], &|_| 0, &section);
        insert(0);
        let table = tables.current(&section).expect("a table");
        let before = table.size();
        (1..20).for_each(|key| _ = insert(key));
        assert!(table.size() >= before + 2 * 128, "{before}, {}", table.size());
        // They are unlinked when they are empty.
        (0..20).for_each(|key| _ = tables.remove(0, &encode(&key), None, &|_| 0, &section));
        let mut slots = 0;
        assert!(table.chain(0).snapshot(|_| slots += 1).is_ok_and(|version| version.is_some()));
        assert_eq!(slots, <Pair<u64, u64>>::SLOTS);
    }

    /// As in a signal handler that has interrupted a writer of the bucket, or in the child of a fork.
    #[test]
    fn lookup_beside_a_locked_chain_does_not_wait() {
        let tables = Tables::<Pair<u64, u64>, _>::new(Global);
        let (key, value, other) = (encode(&1_u64), encode(&2_u64), encode(&3_u64));
        let section = enter();
        tables.insert(0, [&key, &value], &|_| 0, &section);
        let chain = tables.current(&section).expect("a table").chain(0);
        let mut locked = chain.lock().expect("it has not moved");
        let get = |key| tables.get(0, key, &section);
        assert_eq!((get(&key), get(&other)), (Some(value), None));
        locked.insert(0, &other, &value);
        assert_eq!((get(&key), get(&other)), (Some(value), None));
        drop(locked);
        assert_eq!((get(&key), get(&other)), (Some(value), Some(value)));
    }
}
