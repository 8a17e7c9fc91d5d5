//! The hash map, whose closures, comparisons and destructors panic, or use the map.

use std::cell::Cell;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::hashers::{MASKS, Masked};
use stillpoint::Domain as _;
use stillpoint::rcu::{self, Global};
use stillpoint_collections::HashMap;
use support::deadline::deadline;

thread_local!(static COMPARISON: Cell<fn()> = const { Cell::new(|| {}) });

/// A key whose comparison does what the thread says. All hashes are equal.
#[derive(Debug, Clone)]
struct Key(u32);

type Keys = HashMap<Key, u32, BuildHasherDefault<DefaultHasher>>;

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        COMPARISON.get()();
        self.0 == other.0
    }
}

impl Eq for Key {}

#[test]
fn panic_or_change_in_a_comparison_leaves_the_map_whole() {
    static MAP: Keys = HashMap::with_hasher_in(BuildHasherDefault::new(), Global);
    let guard = rcu::enter();
    (0..20).for_each(|key| _ = MAP.insert(Key(key), key, &guard));
    let operations: [&dyn Fn(); 4] = [
        &|| _ = MAP.insert(Key(0), 7, &guard),
        &|| _ = MAP.insert(Key(30), 7, &guard),
        &|| _ = MAP.remove(&Key(0), &guard),
        &|| _ = MAP.get(&Key(0), &guard),
    ];
    for operation in operations {
        COMPARISON.set(|| panic!("comparison"));
        assert!(catch_unwind(AssertUnwindSafe(operation)).is_err());
        COMPARISON.set(|| {});
    }
    assert_eq!((MAP.len(), MAP.get(&Key(0), &guard)), (20, Some(&0)));
    // No lock is held: this does not deadlock.
    COMPARISON.set(|| {
        COMPARISON.set(|| {});
        MAP.insert(Key(100), 100, &rcu::enter());
    });
    assert_eq!(MAP.insert(Key(9), 10, &guard), Some(&9));
    assert_eq!(MAP.get(&Key(100), &guard), Some(&100));
    assert!(catch_unwind(AssertUnwindSafe(|| MAP.update(&Key(1), |_| panic!("closure"), &guard))).is_err());
    assert_eq!((MAP.len(), MAP.remove(&Key(1), &guard)), (21, Some(&1)));
}

#[test]
fn comparison_that_always_changes_an_entry_ends_in_a_panic() {
    static MAP: Keys = HashMap::with_hasher_in(BuildHasherDefault::new(), Global);
    fn change() {
        COMPARISON.set(|| {});
        MAP.remove(&Key(1), &rcu::enter());
        MAP.insert(Key(1), 1, &rcu::enter());
        COMPARISON.set(change);
    }
    let _running = deadline();
    let guard = rcu::enter();
    MAP.insert(Key(1), 1, &guard);
    let operations: [&dyn Fn(); 3] = [
        &|| _ = MAP.insert(Key(2), 2, &guard),
        &|| _ = MAP.get_or_insert_with(&Key(2), || 2, &guard),
        &|| _ = MAP.remove(&Key(1), &guard),
    ];
    for (number, operation) in operations.iter().enumerate() {
        COMPARISON.set(change);
        assert!(catch_unwind(AssertUnwindSafe(operation)).is_err(), "operation {number}");
        COMPARISON.set(|| {});
    }
    assert_eq!((MAP.len(), MAP.get(&Key(1), &guard)), (1, Some(&1)));
}

/// Each thread holds a reference to the entry that the other one replaces.
#[test]
fn insertions_wait_for_no_reference() {
    let _running = deadline();
    let (map, meet) = (HashMap::new(), Barrier::new(2));
    [0, 1].iter().for_each(|&key| assert!(map.insert(key, key, &rcu::enter()).is_none()));
    thread::scope(|scope| {
        for key in [0, 1] {
            let (map, meet) = (&map, &meet);
            scope.spawn(move || {
                let guard = rcu::enter();
                let held = map.get(&key, &guard).unwrap();
                meet.wait();
                assert!(map.insert(1 - key, 2, &guard).is_some());
                meet.wait();
                assert_eq!(*held, key);
            });
        }
    });
    assert_eq!([0, 1].map(|key| map.get(&key, &rcu::enter()).copied()), [Some(2); 2]);
}

#[test]
fn closure_that_stops_changing_its_own_entry_succeeds() {
    let _running = deadline();
    let map = HashMap::from([(1, 0)]);
    let guard = rcu::enter();
    let calls = Cell::new(0);
    let update = |_: &u32| {
        calls.set(calls.get() + 1);
        // Another entry in each call, and the own one in the first calls.
        map.insert(2, calls.get(), &guard);
        if calls.get() <= 900 {
            map.insert(1, calls.get(), &guard);
        }
        7
    };
    assert_eq!((map.update(&1, update, &guard), calls.get()), (Some(&7), 901));
}

/// The closure changes other entries, which the walk has passed, has read with that one, or has not reached yet.
#[test]
fn retain_asks_about_each_entry_that_it_reads_once() {
    // Some 64, and the others of a bucket.
    const READ: usize = 80;
    for &mask in MASKS {
        let map = HashMap::with_hasher(Masked(mask));
        let guard = rcu::enter();
        let fill = || (0..100).for_each(|key| _ = map.insert(key, 0, &guard));
        let (asked, kept) = (Cell::new(0), Cell::new(0));
        let is_first = || asked.replace(asked.get() + 1) == 0;
        fill();
        let replaces = |_: &u32, value: &u32| {
            if is_first() {
                (0..100).for_each(|key| _ = map.insert(key, 1, &guard));
            }
            kept.set(kept.get() + usize::from(*value == 0));
            *value == 0
        };
        map.retain(replaces, &guard);
        assert_eq!((map.len(), asked.get()), (kept.get(), 100), "mask {mask:#x}");
        assert!(kept.get() > 0 && (kept.get() < READ || mask != u64::MAX), "mask {mask:#x}: {kept:?}");
        fill();
        for stays in [true, false] {
            asked.set(0);
            let removes = |_: &u32, _: &u32| {
                if is_first() {
                    (0..100).for_each(|key| _ = map.remove(&key, &guard));
                }
                stays
            };
            map.retain(removes, &guard);
            assert!(map.is_empty() && asked.get() <= kept.get().max(READ), "mask {mask:#x}: {asked:?}");
            fill();
        }
    }
}

/// An operation that loses again and again gets its turn, for which writers of other keys do not wait.
#[test]
fn retain_asks_about_each_entry_once_beside_the_turn_of_another_key() {
    let map: HashMap<u32, u32> = (0..100).map(|key| (key, 0)).collect();
    let guard = rcu::enter();
    let (calls, asked) = (Cell::new(0), Cell::new(0));
    let is_among_ten = || asked.replace(asked.get() + 1) < 10;
    let update = |_: &u32| {
        match calls.replace(calls.get() + 1) {
            0..9 => _ = map.insert(1, 1, &guard),
            9 => map.retain(|_, _| !is_among_ten(), &guard),
            _ => {}
        }
        2
    };
    map.update(&1, update, &guard);
    assert_eq!((calls.get(), asked.get(), map.len()), (10, 100, 90));
}

/// A value whose destructor counts, and then may panic.
struct Fragile(&'static AtomicUsize, bool);

impl Drop for Fragile {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
        assert!(!self.1, "a destructor");
    }
}

#[test]
fn destructor_that_panics_leaks_no_other_entry() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    for &mask in MASKS {
        DROPPED.store(0, Relaxed);
        let map = HashMap::with_hasher(Masked(mask));
        let count = if cfg!(miri) { 100 } else { 300 };
        (0..count).for_each(|key| {
            map.insert(key, Fragile(&DROPPED, key % 100 == 7), &rcu::enter());
        });
        assert!(catch_unwind(AssertUnwindSafe(|| drop(map))).is_err());
        assert_eq!(DROPPED.load(Relaxed), count);
    }
}

/// The destructor of an entry uses the map that the entry was in.
#[test]
fn destructor_may_use_the_map() {
    static MAP: HashMap<u32, Reinserted, BuildHasherDefault<DefaultHasher>> =
        HashMap::with_hasher_in(BuildHasherDefault::new(), Global);
    struct Reinserted(bool);
    impl Drop for Reinserted {
        fn drop(&mut self) {
            if self.0 {
                MAP.insert(1, Reinserted(false), &rcu::enter());
            }
        }
    }
    let _running = deadline();
    MAP.insert(1, Reinserted(true), &rcu::enter());
    MAP.clear(&rcu::enter());
    Global.barrier();
    assert!(MAP.contains_key(&1, &rcu::enter()));
}
