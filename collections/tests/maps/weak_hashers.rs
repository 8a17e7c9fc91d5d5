//! Hashers that leave bits as they are, or that lie.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::{Map, both};
use stillpoint::rcu;
use stillpoint_collections::HashMap;
use support::deadline::deadline;

both! {
    table_grows_although_some_bits_of_hashes_are_constant: <u64, u64, Identity>;
    hasher_that_lies_loses_entries_and_ends: <u64, u64, Lying>;
    operation_on_a_key_of_two_hashes_ends: <u64, u64, Alternating>;
}

/// The hash is the key.
#[derive(Debug, Clone, Copy, Default)]
struct Identity;

struct Own(u64);

impl BuildHasher for Identity {
    type Hasher = Own;

    fn build_hasher(&self) -> Own {
        Own(0)
    }
}

impl Hasher for Own {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

fn table_grows_although_some_bits_of_hashes_are_constant<M: Map<u64, u64, Identity>>() {
    const ENTRIES: u64 = if cfg!(miri) { 500 } else { 60_000 };
    for (shift, constant) in [(0, 5 << 32), (0, 5 << 56), (12, 0x7F5 << 36), (32, 0), (40, 0)] {
        let map = M::with_hasher(Identity);
        (0..ENTRIES).for_each(|number| _ = map.insert(number << shift | constant, number));
        let room = map.capacity() as u64;
        assert!((ENTRIES * 4 / 5..8 * ENTRIES.max(100)).contains(&room), "{shift} {constant:#x}: {room}");
        assert!((0..ENTRIES).all(|number| map.get(number << shift | constant) == Some(number)));
    }
}

/// Never gives the same hash twice.
#[derive(Default)]
struct Lying(AtomicU64);

struct Lie(u64);

impl BuildHasher for Lying {
    type Hasher = Lie;

    fn build_hasher(&self) -> Lie {
        Lie(self.0.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl Hasher for Lie {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}
}

/// Entries are where no operation looks for them, and move while other threads have the chains that they move to.
fn hasher_that_lies_loses_entries_and_ends<M: Map<u64, u64, Lying>>() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 300 };
    let _running = deadline();
    for _ in 0..if cfg!(miri) { 1 } else { 5 } {
        let map = M::with_hasher(Lying::default());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for key in 0..ROUNDS {
                        map.insert(key, 0);
                        map.update_or_insert(key, |value| value + 1, 0);
                        map.remove(key);
                        map.compute(key, |value| value.map_or(Some(1), |_| None));
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..ROUNDS / 5 {
                    map.reserve(2000);
                    map.shrink_to_fit();
                }
            });
        });
        // Nothing is locked any more, and each entry is in one place.
        assert_eq!(map.entries().len(), map.len());
        map.retain(|_, _| true);
        map.shrink_to_fit();
        (0..ROUNDS).for_each(|key| _ = map.insert(key, 0));
    }
}

/// Entries have their hashes with them.
#[test]
fn retain_of_a_hash_map_finds_entries_that_a_lookup_does_not() {
    const ENTRIES: u64 = if cfg!(miri) { 50 } else { 1000 };
    let map = HashMap::<u64, u64, _>::with_hasher(Lying::default());
    let guard = rcu::enter();
    (0..ENTRIES).for_each(|key| _ = map.insert(key, key, &guard));
    map.retain(|key, _| key % 3 == 0, &guard);
    let left = ENTRIES.div_ceil(3) as usize;
    assert_eq!((map.len(), map.iter(&guard).count()), (left, left));
    map.retain(|_, _| false, &guard);
    assert_eq!((map.len(), map.iter(&guard).count()), (0, 0));
}

/// Each key has one hash at every other time.
#[derive(Default)]
struct Alternating(Cell<bool>);

// SAFETY: the test has one thread.
unsafe impl Sync for Alternating {}

impl BuildHasher for Alternating {
    type Hasher = Lie;

    fn build_hasher(&self) -> Lie {
        Lie(u64::from(self.0.replace(!self.0.get())) << 40)
    }
}

fn operation_on_a_key_of_two_hashes_ends<M: Map<u64, u64, Alternating>>() {
    let _running = deadline();
    for operation in 0..5 {
        for before in 0..2 {
            let map = M::with_hasher(Alternating::default());
            (0..=before).for_each(|_| _ = map.insert(1, 1));
            match operation {
                0 => _ = map.update_or_insert(1, |value| value + 1, 0),
                1 => _ = map.compute(1, |value| Some(value.map_or(0, |value| value + 1))),
                2 => _ = map.remove_if(1, |_| true),
                3 => _ = map.get_or_insert_with(1, || 0),
                _ => map.retain(|_, _| false),
            }
        }
    }
}
