//! Models of the hash map: lookups beside changes of a bucket, and beside the move to another table.
#![cfg(loom)]

use loom::sync::Arc;
use stillpoint::sync::loom_access::LoomAccess;
use stillpoint_collections::bucket::{Hashed, SLOTS};
use stillpoint_collections::model::{Model, Owned};
use stillpoint_collections::spot::Spot;
use stillpoint_collections::table::Tables;
use stillpoint_collections::walk::Walk;
use stillpoint_collections::writer::Seen;
use support::model::{check, race, race_all};

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

/// Inserts or replaces, as the map does: in the usual case first. Returns the old value.
fn insert(map: &Map, key: u64, value: u64) -> Option<u64> {
    let Some(spot) = Spot::look_up(map, key, |entry| entry.key == key, &()) else {
        return insert_slow(map, key, value);
    };
    match spot.insert(map, key, new(key, value), &Model, &()) {
        Ok(_) => spot.entry.as_ref().map(|old| old.value),
        Err(_) => insert_slow(map, key, value),
    }
}

fn insert_slow(map: &Map, key: u64, value: u64) -> Option<u64> {
    let mut entry = new(key, value);
    loop {
        let seen = Seen::look_up(map, key, |entry| entry.key == key, &());
        match seen.exchange(map, key, Some(entry), &Model, &()) {
            Ok(_) => return seen.entry.as_ref().map(|old| old.value),
            Err(unused) => entry = unused.expect("the entry comes back"),
        }
    }
}

fn resize(map: &Map, buckets: usize) {
    map.current(&()).expect("a table").resize(buckets, &());
}

fn remove(map: &Map, key: u64) -> Option<u64> {
    let Some(spot) = Spot::look_up(map, key, |entry| entry.key == key, &()) else {
        return remove_slow(map, key);
    };
    let value = spot.entry.as_ref()?.value;
    if spot.remove(map, key, &Model, &()) { Some(value) } else { remove_slow(map, key) }
}

fn remove_slow(map: &Map, key: u64) -> Option<u64> {
    loop {
        let seen = Seen::look_up(map, key, |entry| entry.key == key, &());
        let old = seen.entry.as_ref()?;
        if seen.exchange(map, key, None, &Model, &()).is_ok() {
            return Some(old.value);
        }
    }
}

/// A map with two buckets, each with a stripe of its own.
fn map(keys: &[u64]) -> Arc<Map> {
    map_with_room(1, keys)
}

/// A map that does not grow while it has no more than so many entries.
fn map_with_room(entries: usize, keys: &[u64]) -> Arc<Map> {
    let map = Map::with_capacity(entries);
    keys.iter().for_each(|&key| assert_eq!(insert(&map, key, key), None));
    Arc::new(map)
}

/// Explores a map that the `first` thread changes while the `last` thread reads it.
///
/// Loom notices that two threads depend on each other where one loads after the other has stored. It forgets the loads of
/// a thread once another one loads. So the thread that reads is the last to run in the first execution.
fn explore(preemptions: usize, keys: &'static [u64], first: fn(&Map), last: fn(&Map)) {
    check(0, preemptions, move || {
        let map = map(keys);
        race(&map, first, last);
    });
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

const OLD: u64 = key(0, 9, 1);
const NEW: u64 = key(0, 9, 2);

/// Removes an entry, and inserts one with the same fingerprint in its place.
fn reuse(map: &Map) {
    assert_eq!(remove(map, OLD), Some(OLD));
    assert_eq!(insert(map, NEW, 1), None);
    assert_eq!(get(map, NEW), Some(1));
}

/// Refutes: slot-before-header
#[test]
fn entry_in_a_slot_that_is_used_again_stays_found() {
    explore(3, &[OLD], reuse, |map| stays_found(map, NEW));
}

/// Refutes: Bucket::find:Acquire, Bucket::set_header:Release
#[test]
fn entry_in_a_slot_that_is_used_again_stays_removed() {
    explore(3, &[OLD], reuse, |map| stays_removed(map, OLD));
}

/// Entries that leave no room in the first bucket of the chain, each with a fingerprint of its own.
const FULL: [u64; SLOTS + 1] =
    [key(0, 1, 0), key(0, 2, 0), key(0, 3, 0), key(0, 4, 0), key(0, 5, 0), key(0, 6, 0), OLD];

/// The entry goes to another bucket, which is unlinked and linked again.
/// Refutes: filled-before-linked
#[test]
fn entry_of_a_chained_bucket_stays_found() {
    explore(3, &FULL, reuse, |map| stays_found(map, NEW));
}

#[test]
fn entry_of_a_chained_bucket_stays_removed() {
    explore(3, &FULL, reuse, |map| stays_removed(map, OLD));
}

/// The second of three buckets is emptied, and the chain of another bucket takes a free one.
/// Refutes: middle-bucket-unlinked
#[test]
fn entry_behind_an_empty_bucket_is_found() {
    const OTHER: [u64; SLOTS + 1] = [
        key(1, 1, 0),
        key(1, 2, 0),
        key(1, 3, 0),
        key(1, 4, 0),
        key(1, 5, 0),
        key(1, 6, 0),
        // Of the same fingerprint as the one that is removed.
        key(1, 9, 0),
    ];
    const LAST: u64 = key(0, 10, 0);
    check(0, 2, || {
        let map = map_with_room(32, &FULL);
        let second = [11, 12, 13, 14, 15].map(|top| key(0, top, 0));
        second.into_iter().chain([LAST]).for_each(|key| assert_eq!(insert(&map, key, key), None));
        second.into_iter().for_each(|key| assert_eq!(remove(&map, key), Some(key)));
        OTHER[..SLOTS].iter().for_each(|&key| assert_eq!(insert(&map, key, key), None));
        let change = |map: &Map| {
            assert_eq!(remove(map, OLD), Some(OLD));
            assert_eq!(insert(map, OTHER[SLOTS], 1), None);
        };
        race(&map, change, |map| {
            assert_eq!(get(map, LAST), Some(LAST), "an entry is missing that stays");
            stays_removed(map, OLD);
        });
        assert_eq!((get(&map, OTHER[SLOTS]), get(&map, OLD)), (Some(1), None));
    });
}

/// The chain of another bucket gets the bucket as soon as it is unlinked, and not before.
/// Refutes: chained-freed-before-unlinked
#[test]
fn bucket_that_another_chain_takes_belongs_to_no_other() {
    const ADDED: [u64; 2] = [key(1, 9, 7), key(1, 10, 8)];
    check(0, 2, || {
        let map = map_with_room(32, &FULL);
        // Two buckets behind the first one, of which both are unlinked.
        let more = [11, 12, 13, 14, 15, 16].map(|top| key(0, top, 0));
        more.into_iter().for_each(|key| assert_eq!(insert(&map, key, key), None));
        more[..5].iter().for_each(|&key| assert_eq!(remove(&map, key), Some(key)));
        assert_eq!(remove(&map, OLD), Some(OLD));
        FULL[..SLOTS].iter().for_each(|&key| assert_eq!(insert(&map, key | 1, key), None));
        let remove = |map: &Map| assert_eq!(remove(map, more[5]), Some(more[5]));
        race(&map, remove, |map| ADDED.iter().for_each(|&key| assert_eq!(insert(map, key, key), None)));
        assert_eq!(ADDED.map(|key| get(&map, key)), ADDED.map(Some));
    });
}

/// A lookup in a bucket that the chain of another bucket takes.
#[test]
fn lookup_in_a_freed_bucket_finds_no_entry_of_another_chain() {
    const OTHER: u64 = key(1, 9, 7);
    check(0, 3, || {
        let map = map_with_room(32, &FULL);
        FULL[..SLOTS].iter().for_each(|&key| assert_eq!(insert(&map, key | 1, key), None));
        let change = |map: &Map| {
            assert_eq!(remove(map, OLD), Some(OLD));
            assert_eq!(insert(map, OTHER, 1), None);
        };
        race(&map, change, |map| stays_removed(map, OLD));
        assert_eq!((get(&map, OTHER), get(&map, OLD)), (Some(1), None));
    });
}

#[test]
fn value_is_replaced_at_once() {
    let change = |map: &Map| assert_eq!(insert(map, OLD, 7), Some(OLD));
    explore(3, &[OLD], change, |map| {
        let (first, second) = (get(map, OLD), get(map, OLD));
        assert!(second == Some(7) || first == Some(OLD) && second == first);
    });
}

/// Refutes: absence-here-not-confirmed
#[test]
fn one_of_two_insertions_is_the_first() {
    of_two_insertions(insert);
}

/// Refutes: absence-not-confirmed
#[test]
fn one_of_two_insertions_that_look_at_chains_is_the_first() {
    of_two_insertions(insert_slow);
}

fn of_two_insertions(insert: fn(&Map, u64, u64) -> Option<u64>) {
    check(0, 3, move || {
        let map = map(&[]);
        let (own, other) = race(&map, |map| insert(map, NEW, 2), move |map| insert(map, NEW, 1));
        assert!(own.is_none() != other.is_none(), "both insertions were the first");
        assert_eq!((get(&map, NEW), map.len()), (if own.is_none() { Some(1) } else { Some(2) }, 1));
    });
}

/// One of two removals finds the entry, and no entry that takes its slot is removed.
/// Refutes: presence-not-confirmed
#[test]
fn one_of_two_removals_is_the_first() {
    check(0, 3, || {
        let map = map(&[OLD]);
        let reuse = |map: &Map| {
            let removed = remove(map, OLD);
            assert_eq!(insert(map, NEW, 1), None);
            removed
        };
        let (own, other) = race(&map, reuse, |map| remove(map, OLD));
        assert!(own.is_none() != other.is_none(), "both removals were the first");
        assert_eq!((get(&map, OLD), get(&map, NEW), map.len()), (None, Some(1), 1));
    });
}

/// The table is resized after the lookup of a change.
#[test]
fn change_is_made_in_the_next_table_if_its_bucket_has_moved() {
    check(0, 3, || {
        let map = map(&[OLD]);
        let change = |map: &Map| {
            assert_eq!(remove(map, OLD), Some(OLD));
            assert_eq!(insert(map, NEW, 1), None);
        };
        race(&map, change, |map| {
            resize(map, 4);
            assert_eq!(insert(map, key(2, 2, 2), 1), None);
        });
        assert_eq!((get(&map, OLD), get(&map, NEW)), (None, Some(1)));
    });
}

/// Refutes: entry-not-copied, moved-before-copies
#[test]
fn entry_is_found_while_its_bucket_moves() {
    const MOVER: u64 = key(2, 2, 2);
    let change = |map: &Map| {
        resize(map, 4);
        assert_eq!(insert(map, MOVER, 1), None);
    };
    explore(3, &[OLD], change, |map| {
        assert_eq!(get(map, OLD), Some(OLD), "an entry is missing that stays");
        stays_found(map, MOVER);
    });
}

/// Refutes: bucket-not-moved-first
#[test]
fn entry_that_was_removed_from_the_next_table_stays_removed() {
    let change = |map: &Map| {
        resize(map, 4);
        assert_eq!(remove(map, OLD), Some(OLD));
    };
    explore(3, &[OLD], change, |map| stays_removed(map, OLD));
}

/// Each of two writers moves a bucket; the last one publishes the table, with the entries that both have moved.
/// Refutes: published-before-last-bucket, Tables::move_bucket:Acquire, Tables::move_bucket:Release
#[test]
fn next_table_is_published_with_all_entries() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(1, 1, 1);
    check(0, 2, || {
        let map = map(&[LEFT, RIGHT]);
        resize(&map, 4);
        let replace = |map: &Map, key| assert_eq!(insert(map, key, 7), Some(key));
        race_all(
            &map,
            |map| replace(map, LEFT),
            2,
            move |map, index| match index {
                0 => replace(map, RIGHT),
                _ => {
                    assert!(get(map, LEFT).is_some(), "an entry is missing that stays");
                    assert!(get(map, RIGHT).is_some(), "an entry is missing that stays");
                }
            },
        );
        assert_eq!([LEFT, RIGHT].map(|key| get(&map, key)), [Some(7); 2]);
    });
}

/// Two buckets become one.
/// Refutes: entries-of-other-buckets-kept, Bucket::has_moved:Acquire
#[test]
fn walk_sees_what_stays_while_the_table_shrinks() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(2, 1, 2);
    check(0, 3, || {
        let map = Map::with_capacity(1);
        resize(&map, 4);
        // These move both buckets.
        insert(&map, LEFT, 1);
        insert(&map, RIGHT, 1);
        insert(&map, key(1, 1, 3), 1);
        resize(&map, 2);
        let replace = |map: &Map| assert_eq!(insert(map, RIGHT, 7), Some(1));
        race(&Arc::new(map), replace, |map| {
            let (mut walk, mut entries) = (Walk::new(map, &()), Vec::new());
            while walk.next(|_, entry| entries.push(entry)) {}
            let count = |key| entries.iter().filter(|entry| entry.key == key).count();
            assert_eq!((count(LEFT), count(RIGHT)), (1, 1));
        });
    });
}

/// The other thread has undertaken to move the last bucket.
/// Refutes: claimed-buckets-left, table-not-confirmed
#[test]
fn reserve_moves_buckets_that_other_threads_have_claimed() {
    const MOVER: u64 = key(0, 1, 1);
    check(0, 2, || {
        let map = map(&[]);
        resize(&map, 4);
        let reserve = |map: &Map| {
            map.reserve(9, &Model, &()).expect("memory");
            assert!(map.capacity(&()) >= 9, "no room");
        };
        race(&map, reserve, |map| assert_eq!(insert(map, MOVER, 1), None));
        assert_eq!(get(&map, MOVER), Some(1));
    });
}
