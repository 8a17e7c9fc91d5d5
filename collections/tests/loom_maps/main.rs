//! Models of the tables: lookups beside changes of a chain, and beside the move to another table.
#![cfg(loom)]

mod chain;
mod moves;

use loom::sync::Arc;
use stillpoint::sync::loom_access::LoomAccess;
use stillpoint_collections::model::{Model, Owned};
use stillpoint_collections::table::Tables;
use stillpoint_collections::table::bucket::{MAX_WORDS, Shape, Words};
use stillpoint_collections::table::entries::{Entries, Hashed};
use stillpoint_collections::table::pairs::{Pairs, Sizes};
use stillpoint_collections::table::walk::Walk;
use support::model::{check, race, race_all};

/// Buckets with room for one pair, so that the second one overflows, or for two.
type Small<const ROOM: usize = 1> = Pairs<SmallSizes<ROOM>>;
struct SmallSizes<const ROOM: usize>;

impl<const ROOM: usize> Sizes for SmallSizes<ROOM> {
    type Domain = Model;
    const KEY: usize = 1;
    const VALUE: usize = 1;
    const SLOTS: usize = ROOM;
}

/// Values of two words, which are replaced in another slot.
type Wide = Pairs<WideSizes>;
struct WideSizes;

impl Sizes for WideSizes {
    type Domain = Model;
    const KEY: usize = 1;
    const VALUE: usize = 2;
    const SLOTS: usize = 2;
}

/// Buckets with room for one entry, or for two.
type Boxed<const ROOM: usize = 1> = Entries<Entry<ROOM>, Model>;
struct Entry<const ROOM: usize> {
    key: u64,
    value: u64,
    access: LoomAccess,
}

// SAFETY: a number, and what loom checks.
unsafe impl<const ROOM: usize> Send for Entry<ROOM> {}
// SAFETY: as above.
unsafe impl<const ROOM: usize> Sync for Entry<ROOM> {}

impl<const ROOM: usize> Hashed for Entry<ROOM> {
    const SLOTS: usize = ROOM;

    fn hash(&self) -> u64 {
        self.key
    }
}

/// Maps of numbers. A key is its hash: the lowest bits choose the bucket, and the byte at the top is the tag.
trait Kind: Shape<Domain = Model> {
    fn rehash() -> Self::Rehash<'static>;
    fn get(map: &Tables<Self>, key: u64) -> Option<u64>;
    /// Inserts or replaces. Returns the old value.
    fn insert(map: &Tables<Self>, key: u64, value: u64) -> Option<u64>;
    fn remove(map: &Tables<Self>, key: u64) -> Option<u64>;
}

fn words<const N: usize>(values: [u64; N]) -> Words {
    let mut words = [0; MAX_WORDS];
    words[..N].copy_from_slice(&values);
    words
}

impl<T: Sizes<Domain = Model>> Kind for Pairs<T> {
    fn rehash() -> Self::Rehash<'static> {
        &|key| key[0]
    }

    fn get(map: &Tables<Self>, key: u64) -> Option<u64> {
        let value = map.get(key, &words([key]), &())?;
        assert!(T::VALUE == 1 || value[0] == value[1], "a value consists of two");
        Some(value[0])
    }

    fn insert(map: &Tables<Self>, key: u64, value: u64) -> Option<u64> {
        let value = if T::VALUE == 1 { words([value]) } else { words([value; 2]) };
        Some(map.upsert(key, &words([key]), |_| value, Self::rehash(), &())?[0])
    }

    fn remove(map: &Tables<Self>, key: u64) -> Option<u64> {
        Some(map.remove(key, &words([key]), Self::rehash(), &())?[0])
    }
}

impl<const ROOM: usize> Kind for Boxed<ROOM> {
    fn rehash() {}

    fn get(map: &Tables<Self>, key: u64) -> Option<u64> {
        let entry = map.find(key, |entry| entry.key == key, &())?;
        entry.access.shared();
        Some(entry.value)
    }

    fn insert(map: &Tables<Self>, key: u64, value: u64) -> Option<u64> {
        let entry = Entry { key, value, access: LoomAccess::new() };
        entry.access.exclusive();
        let mut new = Some(Owned::new(entry));
        loop {
            let observed = map.observe(key, |entry| entry.key == key, &());
            match map.exchange(key, &observed, new, &()) {
                Ok(_) => return observed.entry.as_ref().map(|old| old.value),
                Err(unused) => new = unused,
            }
        }
    }

    fn remove(map: &Tables<Self>, key: u64) -> Option<u64> {
        loop {
            let observed = map.observe(key, |entry| entry.key == key, &());
            let old = observed.entry.as_ref()?;
            if map.exchange(key, &observed, None, &()).is_ok() {
                return Some(old.value);
            }
        }
    }
}

/// Explores a model of both kinds.
macro_rules! both {
    ($kind:ident, $($model:tt)+) => {{
        {
            type $kind = Small;
            $($model)+;
        }
        {
            type $kind = Boxed;
            $($model)+;
        }
    }};
}

/// Checks a model of both kinds, with so many preemptions.
macro_rules! check_both {
    ($kind:ident, $preemptions:literal, $model:expr) => {
        both!($kind, check(0, $preemptions, $model))
    };
}
use {both, check_both};

/// A key of a bucket. Two keys with the same `top` have the same tag.
const fn key(bucket: u64, top: u64, number: u64) -> u64 {
    top << 56 | number << 8 | bucket
}

const OLD: u64 = key(0, 9, 1);
const NEW: u64 = key(0, 9, 2);
/// Of which the second has no room in the first bucket.
const BOTH: [u64; 2] = [key(0, 1, 0), OLD];

fn resize<M: Kind>(map: &Tables<M>, buckets: usize) {
    map.current(&()).expect("a table").resize(buckets, &());
}

/// Returns the words of all slots that a walk returns.
fn walk<M: Kind>(map: &Tables<M>) -> Vec<M::Loaded<'_>> {
    rest(Walk::new(map, &()), map)
}

/// Returns the words of all slots that the rest of a walk returns.
fn rest<'g, M: Kind>(mut walk: Walk<M::Loaded<'g>>, map: &'g Tables<M>) -> Vec<M::Loaded<'g>> {
    let mut words = Vec::new();
    while let Some(slot) = walk.next(M::SLOT, |walk| _ = walk.load(map, M::rehash(), &(), usize::MAX)) {
        words.extend(slot);
    }
    words
}

/// Returns how many of these slots have a key.
fn count<M: Kind>(slots: &[M::Loaded<'_>], key: u64) -> usize {
    slots.chunks(M::SLOT).filter(|slot| M::hash(slot, M::rehash()) == key).count()
}

/// A map with keys that are their values.
fn map<M: Kind>(buckets: usize, keys: &[u64]) -> Arc<Tables<M>> {
    let map = Tables::of(buckets, Model);
    keys.iter().for_each(|&key| assert_eq!(M::insert(&map, key, key), None));
    Arc::new(map)
}

/// Explores a map of one bucket that the `first` thread changes while the `last` thread reads it.
///
/// Loom notices that two threads depend on each other where one loads after the other has stored. It forgets the
/// loads of a thread once another one loads. So the thread that reads is the last to run in the first execution.
fn explore<M: Kind>(keys: &'static [u64], first: fn(&Tables<M>), last: fn(&Tables<M>)) {
    // Changes of overflow buckets have more steps.
    check(0, if keys.len() > 1 { 2 } else { 3 }, move || {
        let map = map(1, keys);
        race(&map, first, last);
    });
}

/// Removes an entry, and inserts one with the same tag in its slot.
fn reuse<M: Kind>(map: &Tables<M>) {
    assert_eq!(M::remove(map, OLD), Some(OLD));
    assert_eq!(M::insert(map, NEW, NEW), None);
}

fn replace<M: Kind>(map: &Tables<M>, key: u64) {
    assert_eq!(M::insert(map, key, 7), Some(key));
}

/// Two lookups of a key that is inserted: the second finds it if the first did.
fn stays_found<M: Kind>(map: &Tables<M>) {
    let (first, second) = (M::get(map, NEW), M::get(map, NEW));
    assert!(second.is_some() || first.is_none(), "an entry was found, and then it was not");
}

/// Two lookups of a key that is removed.
fn stays_removed<M: Kind>(map: &Tables<M>) {
    let (first, second) = (M::get(map, OLD), M::get(map, OLD));
    assert!(first.is_some() || second.is_none(), "an entry was removed, and then it was found");
}

fn insert_twice<M: Kind>(map: &Arc<Tables<M>>) {
    let entries = map.len();
    let (own, other) = race(map, |map| M::insert(map, NEW, 2), |map| M::insert(map, NEW, 1));
    assert!(own.is_none() != other.is_none(), "both insertions were the first");
    assert_eq!((M::get(map, NEW), map.len()), (if own.is_none() { Some(1) } else { Some(2) }, entries + 1));
}
