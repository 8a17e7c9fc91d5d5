//! Tests of when and how tables are resized.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use stillpoint::rcu::{self, Global};

use super::*;
use crate::bucket::CHAINED;
use crate::stripes::SUMS;
use crate::writer::Seen;

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
    let seen = Seen::look_up(map, hash, |entry| entry.0 == key, &section);
    let new = is_there.then(|| Owned::new(entry));
    assert!(seen.exchange(map, hash, new, &Global, &section).is_ok());
}

fn buckets(map: &Map) -> usize {
    map.current(&rcu::enter()).map_or(0, Table::len)
}

/// As on a machine with many CPUs.
#[test]
fn removals_from_a_nearly_sparse_table_seldom_count_all_stripes() {
    const STRIPES: usize = 256;
    let mut map = Map::new();
    map.stripes = Stripes::of(STRIPES);
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

#[test]
fn change_moves_no_more_than_its_bucket_and_its_share() {
    const MOST: usize = 1 << 14;
    let map = Map::new();
    let mut longest = 0;
    let mut counted = |key, is_there| {
        let before = MOVES.get();
        change(&map, key, is_there);
        longest = longest.max(MOVES.get() - before);
    };
    (0..MOST as u64).for_each(|key| counted(key, true));
    let grown = buckets(&map);
    (0..MOST as u64).for_each(|key| counted(key, false));
    assert_eq!(longest, 1 + SHARE);
    assert!(grown >= MOST / (2 * FULL) && buckets(&map) < grown / 2, "{grown} to {}", buckets(&map));
}

#[test]
fn overflow_buckets_belong_to_the_size_of_a_table_and_are_unlinked() {
    let (map, section) = (Map::new(), rcu::enter());
    change(&map, 0, true);
    let table = map.current(&section).expect("a table");
    let before = table.size();
    // So many of each bucket, on average, that some have no room.
    (1..(FULL * table.len()) as u64).for_each(|key| change(&map, key, true));
    assert!(table.size() >= before + size_of::<Bucket<Entry, Global>>(), "{before}, {}", table.size());
    // They are unlinked when they are empty.
    let is_chained = || table.buckets.iter().any(|bucket| bucket.own_header() & CHAINED != 0);
    assert!(is_chained());
    (0..(FULL * table.len()) as u64).for_each(|key| change(&map, key, false));
    assert!(!is_chained());
}
