//! Code of the program that uses the map whose operation calls it, or panics.

use std::cell::Cell;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytemuck::{CheckedBitPattern, NoUninit};
use stillpoint_collections::CopyMap;
use support::deadline::deadline;

#[test]
fn closure_that_changes_its_own_entry_is_called_again() {
    let _running = deadline();
    let map = CopyMap::from([(1, 10)]);
    let mut calls = 0;
    let new = map.update(&1, |value| {
        calls += 1;
        if calls < 3 {
            map.insert(1, value + 100);
        }
        value + 1
    });
    assert_eq!((new, calls, map.get(&1)), (Some(211), 3, Some(211)));
    assert_eq!(map.compute(&1, |value| map.remove(&1).and(value)), None);
    assert_eq!(map.get_or_insert_with(2, || map.get_or_insert(2, 7) + 1), 7);
}

#[test]
fn closure_that_panics_leaves_the_map_as_it_was() {
    let _running = deadline();
    let map = CopyMap::from([(1, 10)]);
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    panics(&|| _ = map.update(&1, |_| panic!("on purpose")));
    panics(&|| _ = map.remove_if(&1, |_| panic!("on purpose")));
    panics(&|| _ = map.compute(&1, |_| panic!("on purpose")));
    panics(&|| _ = map.get_or_insert_with(2, || panic!("on purpose")));
    panics(&|| map.retain(|_, _| panic!("on purpose")));
    assert_eq!((map.insert(1, 11), map.get(&2), map.len()), (Some(10), None, 1));
}

thread_local! {
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Panics if it is told to.
#[derive(Default)]
struct Fragile(DefaultHasher);

impl Hasher for Fragile {
    fn finish(&self) -> u64 {
        assert!(!PANICS.get(), "on purpose");
        self.0.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

#[derive(Default)]
struct Hashes;

impl BuildHasher for Hashes {
    type Hasher = Fragile;

    fn build_hasher(&self) -> Fragile {
        Fragile::default()
    }
}

/// The hasher panics in the middle of a resize, in a thread that moves chains for others.
#[test]
fn hasher_that_panics_loses_no_entry_and_no_resize() {
    let _running = deadline();
    let map = CopyMap::with_hasher(Hashes);
    let entries = if cfg!(miri) { 300 } else { 5_000_u64 };
    (0..entries).for_each(|key| _ = map.insert(key, key));
    let room = map.capacity();
    for key in entries..2 * entries {
        assert!(map.get(&(key - entries)).is_some());
        PANICS.set(true);
        // The key is hashed, or one that moves.
        assert!(
            catch_unwind(AssertUnwindSafe(|| map.reserve(10 * entries as usize))).is_err() || key > entries
        );
        PANICS.set(false);
        map.insert(key, key);
    }
    assert!((0..2 * entries).all(|key| map.get(&key) == Some(key)));
    assert_eq!((map.len() as u64, map.iter().count() as u64), (2 * entries, 2 * entries));
    assert!(map.capacity() > room, "the table is still being resized");
}

/// A value whose check replaces the entry of key 1, if it is told to.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(transparent)]
struct Checked(u64);

thread_local!(static REPLACES: Cell<bool> = const { Cell::new(false) });

static CHECKED: CopyMap<u64, Checked, BuildHasherDefault<DefaultHasher>> =
    CopyMap::with_hasher(BuildHasherDefault::new());

// SAFETY: a number.
unsafe impl NoUninit for Checked {}

// SAFETY: all numbers are valid.
unsafe impl CheckedBitPattern for Checked {
    type Bits = u64;

    fn is_valid_bit_pattern(_: &u64) -> bool {
        if REPLACES.take() {
            CHECKED.insert(1, Checked(5));
        }
        true
    }
}

#[test]
fn check_of_a_value_may_use_the_map() {
    let _running = deadline();
    let value = Checked(1);
    let operations: [&dyn Fn(); 11] = [
        &|| _ = CHECKED.get(&1),
        &|| _ = CHECKED.get_many([&1, &2]),
        &|| _ = CHECKED.insert(1, value),
        &|| _ = CHECKED.remove(&1),
        &|| _ = CHECKED.remove_if(&1, |_| true),
        &|| _ = CHECKED.compare_exchange(1, None, value),
        &|| _ = CHECKED.get_or_insert(1, value),
        &|| _ = CHECKED.update(&1, |_| value),
        &|| CHECKED.retain(|_, _| false),
        &|| CHECKED.clear(),
        &|| assert_eq!(CHECKED.iter().count(), 1),
    ];
    for (number, operation) in operations.iter().enumerate() {
        CHECKED.insert(1, value);
        REPLACES.set(true);
        operation();
        assert!(!REPLACES.get(), "operation {number} checks no value");
    }
}
