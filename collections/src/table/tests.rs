//! Tests of when and how tables are resized, and of lookups beside a locked chain.

use std::cell::Cell;

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, Global, enter};

use super::bucket::{LOCKED, MOVED, Slots};
use super::entries::{Entries, Hashed};
use super::resize::{MOVES, SHARE};
use super::walk::Walk;
use super::*;
use crate::copy_map::plain::{Pair, encode};
use crate::hash::mix;

struct Entry(u64);

impl Hashed for Entry {
    fn hash(&self) -> u64 {
        mix(self.0)
    }
}

type Map = Tables<Entries<Entry, Global>>;
type Pairs = Pair<u64, u64, Global>;
type Numbers = Tables<Pairs>;

/// Inserts a key, or removes it.
fn change(map: &Map, key: u64, is_there: bool) {
    let section = enter();
    let observed = map.observe(mix(key), |entry| entry.0 == key, &section);
    let new = is_there.then(|| Owned::new(Entry(key)));
    assert!(map.exchange(mix(key), &observed, new, &section).is_ok());
    // SAFETY: it is unlinked.
    unsafe { Global.retire_shared(observed.entry, DeferOptions::new()) };
}

fn buckets<S: Shape<Domain = Global>>(map: &Tables<S>) -> usize {
    map.current(&enter()).map_or(0, Table::len)
}

/// Inserts so many keys, and removes them.
fn grow_and_shrink<S: Shape<Domain = Global>>(map: &Tables<S>, change: impl Fn(u64, bool)) {
    const MOST: u64 = 1 << 14;
    let longest = Cell::new(0);
    let counted = |key, is_there| {
        let before = MOVES.get();
        change(key, is_there);
        longest.set(longest.get().max(MOVES.get() - before));
    };
    (0..MOST).for_each(|key| counted(key, true));
    let grown = buckets(map);
    assert_eq!(map.len() as u64, MOST);
    (0..MOST).for_each(|key| counted(key, false));
    assert_eq!((longest.get(), map.len()), (1 + SHARE, 0));
    assert!(
        grown * S::ROOM / 4 >= MOST as usize / 2 && buckets(map) < grown / 2,
        "{grown} to {}",
        buckets(map)
    );
}

#[test]
fn change_moves_no_more_than_its_chain_and_its_share() {
    let map = Map::new(Global);
    grow_and_shrink(&map, |key, is_there| change(&map, key, is_there));
    let map = Numbers::new(Global);
    grow_and_shrink(&map, |key, is_there| {
        let (hash, key, section) = (mix(key), encode(&key), enter());
        if is_there {
            map.upsert(hash, &key, |_| key, &|key| mix(key[0]), &section);
        } else {
            assert!(map.remove(hash, &key, &|key| mix(key[0]), &section).is_some());
        }
    });
}

#[test]
fn overflow_buckets_belong_to_the_size_of_a_table_and_are_unlinked() {
    let tables = Numbers::with_capacity(100, Global);
    let section = enter();
    let insert = |key: u64| tables.upsert(0, &encode(&key), |_| encode(&key), &|_| 0, &section);
    insert(0);
    let table = tables.current(&section).expect("a table");
    let before = table.size();
    (1..20).for_each(|key| _ = insert(key));
    assert!(table.size() >= before + 2 * 128, "{before}, {}", table.size());
    // They are unlinked when they are empty.
    (0..20).for_each(|key| _ = tables.remove(0, &encode(&key), &|_| 0, &section));
    let mut buckets = 0;
    assert!(
        table
            .chain(0)
            .snapshot(&section, &mut Vec::new(), |_| buckets += 1)
            .is_ok_and(|version| version.is_some())
    );
    assert_eq!(buckets, 1);
}

/// The entry is in the last bucket.
#[test]
fn walk_over_an_empty_table_makes_no_more_steps_than_asked() {
    let tables = Numbers::with_capacity(20_000, Global);
    let section = enter();
    let last = buckets(&tables) as u64 - 1;
    tables.upsert(last, &encode(&7u64), |_| encode(&8u64), &|_| last, &section);
    let (mut walk, mut loads, mut found) = (Walk::new(&tables, &section), 0, 0);
    let mut load = |walk: &mut Walk<u64>| {
        loads += 1;
        while !walk.load(&tables, &|_| last, &section, 100) {
            loads += 1;
        }
    };
    while let Some(pair) = walk.next(Pairs::SLOT, &mut load) {
        assert_eq!(pair, [7, 8]);
        found += 1;
    }
    assert_eq!((found, loads), (1, (last as usize + 1).div_ceil(100) + 1));
}

/// As in a signal handler that has interrupted a writer of the bucket, or in the child of a fork.
#[test]
fn lookup_beside_a_locked_chain_does_not_wait() {
    let tables = Numbers::new(Global);
    let (key, value, other) = (encode(&1_u64), encode(&2_u64), encode(&3_u64));
    let section = enter();
    tables.upsert(0, &key, |_| value, &|_| 0, &section);
    let chain = tables.current(&section).expect("a table").chain(0);
    let mut locked = chain.lock().expect("it has not moved");
    let get = |key| tables.get(0, key, &section);
    assert_eq!((get(&key), get(&other)), (Some(value), None));
    locked.add(0, [&other, &value]);
    assert_eq!((get(&key), get(&other)), (Some(value), None));
    drop(locked);
    assert_eq!((get(&key), get(&other)), (Some(value), Some(value)));

    let map = Map::new(Global);
    change(&map, 1, true);
    let has = |key| map.find(mix(key), |entry| entry.0 == key, &section).is_some();
    let locked = map.current(&section).expect("a table").chain(mix(1)).lock();
    assert_eq!((has(1), has(2)), (true, false));
    drop(locked);
}

/// The comparison of each key inserts another one: a lookup starts over only if a bucket of its chain is unlinked.
#[test]
fn lookup_in_a_long_chain_ends_beside_insertions() {
    const HASH: u64 = 7;
    let (map, section) = (Map::with_capacity(1000, Global), enter());
    let insert = |key| {
        let observed = map.observe(HASH, |entry| entry.0 == key, &section);
        assert!(map.exchange(HASH, &observed, Some(Owned::new(Entry(key))), &section).is_ok());
    };
    (0..100).for_each(insert);
    let compared = Cell::new(0);
    let found = map.find(
        HASH,
        |entry| {
            compared.set(compared.get() + 1);
            insert(1000 + compared.get());
            entry.0 == 0
        },
        &section,
    );
    assert!(found.is_some() && compared.get() <= 110, "{} comparisons", compared.get());
}

#[test]
fn slots_are_found_by_tag() {
    let head = LOCKED | MOVED | 0x01_07_00_01_FF_80_07;
    let slots = |tag| Slots::with::<Pairs>(head, tag).collect::<Vec<_>>();
    let found = [0x07, 0x80, 0xFF, 0x01, 0x00, 0x09].map(slots);
    assert_eq!(found, [vec![0, 5], vec![1], vec![2], vec![3, 6], vec![4], vec![]]);
}

#[test]
fn pairs_of_numbers_fill_two_lines() {
    assert_eq!((Pairs::WORDS, Pairs::SPARE, Pairs::ROOM), (16, 0, 20));
}
