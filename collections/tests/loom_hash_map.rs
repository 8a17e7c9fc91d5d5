//! Models of the hash map: lookups beside changes of a bucket, and beside the move to another table.
#![cfg(loom)]

#[path = "../../stillpoint/tests/model/mod.rs"]
mod model;

use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::sync::loom_access::LoomAccess;
use stillpoint_collections::bucket::{Hashed, SLOTS};
use stillpoint_collections::model::{Model, Owned};
use stillpoint_collections::table::Tables;
use stillpoint_collections::walk::Walk;

/// The key is its hash: the lowest bit chooses the stripe, and with the next ones the bucket; the byte at the top is
/// the fingerprint.
struct Entry {
    key: u64,
    value: u64,
    access: LoomAccess,
}

// SAFETY: a number, and what loom checks.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Hashed for Entry {
    fn hash(&self) -> u64 {
        self.key
    }
}

type Map = Tables<Entry, Model>;

/// A key of a bucket. Two keys with the same `top` have the same fingerprint.
const fn key(bucket: u64, top: u64, number: u64) -> u64 {
    top << 56 | number << 8 | bucket
}

/// Returns the value of a key.
fn get(map: &Map, key: u64) -> Option<u64> {
    let entry = map.find(key, |entry| entry.key == key, &())?;
    entry.access.shared();
    Some(entry.value)
}

fn new(key: u64, value: u64) -> Owned<Entry> {
    let entry = Entry { key, value, access: LoomAccess::new() };
    entry.access.exclusive();
    Owned::new(entry)
}

/// Inserts or replaces; returns the old value.
fn insert(map: &Map, key: u64, value: u64) -> Option<u64> {
    let mut entry = new(key, value);
    loop {
        let seen = map.look_up(key, |entry| entry.key == key, &());
        match map.exchange(key, &seen, Some(entry), &Model, &()) {
            Ok(_) => return seen.entry.as_ref().map(|old| old.value),
            Err(unused) => entry = unused.expect("the entry comes back"),
        }
    }
}

fn remove(map: &Map, key: u64) -> Option<u64> {
    loop {
        let seen = map.look_up(key, |entry| entry.key == key, &());
        let old = seen.entry.as_ref()?;
        if map.exchange(key, &seen, None, &Model, &()).is_ok() {
            return Some(old.value);
        }
    }
}

/// A map with two buckets, each with a stripe of its own.
fn map(keys: &[u64]) -> Arc<Map> {
    let map = Map::with_capacity(1);
    keys.iter().for_each(|&key| assert_eq!(insert(&map, key, key), None));
    Arc::new(map)
}

fn spawn(map: &Arc<Map>, body: impl FnOnce(&Map) + 'static) -> thread::JoinHandle<()> {
    let map = map.clone();
    thread::spawn(move || body(&map))
}

/// Two lookups of a key that is inserted: the second finds it if the first did.
fn stays_found(map: &Map, key: u64) {
    let first = get(map, key);
    let second = get(map, key);
    assert!(second.is_some() || first.is_none(), "an entry was found, and then it was not");
}

/// Two lookups of a key that is removed.
fn stays_removed(map: &Map, key: u64) {
    let first = get(map, key);
    let second = get(map, key);
    assert!(second.is_none() || first.is_some(), "an entry was removed, and then it was found");
}

#[test]
fn entry_in_a_slot_that_is_used_again_stays_found() {
    const OLD: u64 = key(0, 1, 1);
    const NEW: u64 = key(0, 1, 2);
    check(0, 3, || {
        let map = map(&[OLD]);
        let writer = spawn(&map, |map| {
            assert_eq!(remove(map, OLD), Some(OLD));
            assert_eq!(insert(map, NEW, 1), None);
        });
        stays_found(&map, NEW);
        writer.join().unwrap();
        assert_eq!(get(&map, NEW), Some(1));
    });
}

#[test]
fn entry_in_a_slot_that_is_used_again_stays_removed() {
    const OLD: u64 = key(0, 1, 1);
    const NEW: u64 = key(0, 1, 2);
    check(0, 3, || {
        let map = map(&[OLD]);
        let writer = spawn(&map, |map| {
            assert_eq!(remove(map, OLD), Some(OLD));
            assert_eq!(insert(map, NEW, 1), None);
        });
        stays_removed(&map, OLD);
        writer.join().unwrap();
    });
}

#[test]
fn value_is_replaced_at_once() {
    const KEY: u64 = key(0, 1, 1);
    check(0, 3, || {
        let map = map(&[KEY]);
        let writer = spawn(&map, |map| assert_eq!(insert(map, KEY, 7), Some(KEY)));
        let (first, second) = (get(&map, KEY), get(&map, KEY));
        assert!(second == Some(7) || first == Some(KEY) && second == first);
        writer.join().unwrap();
    });
}

/// A bucket without room: the entry goes to another one, which is unlinked and made again.
#[test]
fn entry_of_a_chained_bucket_stays_found() {
    const OLD: u64 = key(0, 9, 1);
    const NEW: u64 = key(0, 9, 2);
    check(0, 2, || {
        let full: Vec<u64> = (1..=SLOTS as u64).map(|top| key(0, top, 0)).chain([OLD]).collect();
        let map = map(&full);
        let writer = spawn(&map, |map| {
            assert_eq!(remove(map, OLD), Some(OLD));
            assert_eq!(insert(map, NEW, 1), None);
        });
        stays_found(&map, NEW);
        writer.join().unwrap();
        assert_eq!(get(&map, NEW), Some(1));
    });
}

#[test]
fn one_of_two_insertions_is_the_first() {
    const KEY: u64 = key(0, 1, 1);
    check(0, 2, || {
        let map = map(&[]);
        let other = map.clone();
        let other = thread::spawn(move || insert(&other, KEY, 1));
        let (own, other) = (insert(&map, KEY, 2), other.join().unwrap());
        assert!(own.is_none() != other.is_none());
        assert_eq!((get(&map, KEY), map.len()), (if own.is_none() { Some(1) } else { Some(2) }, 1));
    });
}

#[test]
fn entry_is_found_while_its_bucket_moves() {
    const STAYS: u64 = key(0, 1, 1);
    const MOVER: u64 = key(2, 2, 2);
    check(0, 3, || {
        let map = map(&[STAYS]);
        map.resize(4, &());
        let writer = spawn(&map, |map| assert_eq!(insert(map, MOVER, 1), None));
        assert_eq!(get(&map, STAYS), Some(STAYS), "an entry is missing that stays");
        stays_found(&map, MOVER);
        writer.join().unwrap();
    });
}

#[test]
fn entry_that_was_removed_from_the_next_table_stays_removed() {
    const KEY: u64 = key(0, 1, 1);
    check(0, 3, || {
        let map = map(&[KEY]);
        map.resize(4, &());
        let writer = spawn(&map, |map| assert_eq!(remove(map, KEY), Some(KEY)));
        stays_removed(&map, KEY);
        writer.join().unwrap();
    });
}

/// Each of two writers moves a bucket; the last one publishes the table, with the entries that both have moved.
#[test]
fn next_table_is_published_with_all_entries() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(1, 1, 1);
    check(0, 2, || {
        let map = map(&[LEFT, RIGHT]);
        map.resize(4, &());
        let threads =
            [LEFT, RIGHT].map(|key| spawn(&map, move |map| assert_eq!(insert(map, key, 7), Some(key))));
        assert!(get(&map, LEFT).is_some() && get(&map, RIGHT).is_some(), "an entry is missing that stays");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!([LEFT, RIGHT].map(|key| get(&map, key)), [Some(7); 2]);
    });
}

/// Two buckets become one.
#[test]
fn walk_sees_what_stays_while_the_table_shrinks() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(2, 1, 2);
    check(0, 2, || {
        let map = Map::with_capacity(1);
        map.resize(4, &());
        // Moves both buckets.
        insert(&map, LEFT, 1);
        insert(&map, RIGHT, 1);
        insert(&map, key(1, 1, 3), 1);
        map.resize(2, &());
        let map = Arc::new(map);
        let writer = spawn(&map, |map| assert_eq!(insert(map, RIGHT, 7), Some(1)));
        let (mut walk, mut entries) = (Walk::new(&map, &()), Vec::new());
        while walk.next(&mut entries) {}
        let count = |key| entries.iter().filter(|entry| entry.key == key).count();
        assert_eq!((count(LEFT), count(RIGHT)), (1, 1));
        writer.join().unwrap();
    });
}
