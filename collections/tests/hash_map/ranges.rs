//! Threads with keys of their own beside others: behaviour that the tests of scc 3 and dashmap 6 check too.
//!
//! Of those tests, some have no counterpart: those of locks (`try_get`, guards that are held), of entries and
//! cursors, of `async` methods, and of values that borrow, which are not `'static` as ours must be. Equivalent keys,
//! reserved room, values that are dropped once, and what the owner of a map does, are checked in the other files.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

use stillpoint::rcu;
use stillpoint_collections::HashMap;
use support::deadline::deadline;

const THREADS: u64 = 4;
/// Keys of a thread.
const SHARE: u64 = 256;

type Map = HashMap<u64, u64>;

/// Runs `body` in several threads at once, each with keys of its own.
fn with_ranges(body: impl Fn(Range<u64>) + Sync) {
    let _running = deadline();
    let (start, body) = (Barrier::new(THREADS as usize), &body);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                body(thread * SHARE..(thread + 1) * SHARE);
            });
        }
    });
}

#[test]
fn iteration_and_retain_find_all_own_entries_beside_other_threads() {
    let map = Map::new();
    let own = |range: &Range<u64>| {
        let guard = rcu::enter();
        map.keys(&guard).filter(|key| range.contains(key)).count() as u64
    };
    for _ in 0..20 {
        with_ranges(|range| {
            for key in range.clone() {
                assert_eq!(map.insert(key, key, &rcu::enter()), None);
            }
            assert_eq!(own(&range), SHARE);
            let mut removed = 0;
            let mut is_other = |key: &u64, _: &u64| {
                removed += u64::from(range.contains(key));
                !range.contains(key)
            };
            map.retain(&mut is_other, &rcu::enter());
            assert_eq!((removed, own(&range)), (SHARE, 0));
        });
        assert_eq!(map.len(), 0);
    }
}

#[test]
fn key_that_all_threads_insert_is_inserted_by_one() {
    const COMMON: u64 = THREADS * SHARE;
    for _ in 0..20 {
        let (map, first) = (Map::new(), AtomicU64::new(0));
        with_ranges(|range| {
            for key in range {
                let guard = rcu::enter();
                assert!(map.try_insert(key, key, &guard).is_ok());
                let error = map.try_insert(key, 0, &guard).expect_err("the key has an entry");
                assert_eq!((*error.current, error.not_inserted), (key, 0));
                first.fetch_add(map.try_insert(COMMON, key, &guard).is_ok().into(), Relaxed);
            }
        });
        assert_eq!((first.into_inner(), map.len()), (1, COMMON as usize + 1));
    }
}

#[test]
fn operations_on_own_keys_return_what_the_thread_has_left_there() {
    let map = Map::new();
    with_ranges(|range| {
        for key in range.clone() {
            assert_eq!(map.update(&key, |value| value + 1, &rcu::enter()), None);
        }
        for key in range.clone() {
            let guard = rcu::enter();
            match key % 3 {
                0 => assert_eq!(map.get_or_insert(&key, key, &guard), &key),
                1 => assert_eq!(map.update_or_insert(&key, |_| 0, key, &guard), &key),
                _ => assert_eq!(map.insert(key, key, &guard), None),
            }
        }
        for key in range.clone() {
            let guard = rcu::enter();
            let changed = if key % 2 == 0 {
                map.update(&key, |value| value + 1, &guard)
            } else {
                map.modify(&key, |value| *value += 1, &guard)
            };
            assert_eq!(changed, Some(&(key + 1)));
        }
        for key in range {
            let guard = rcu::enter();
            assert_eq!(map.get(&key, &guard), Some(&(key + 1)));
            assert_eq!(map.remove_if(&key, |_, &value| value == key, &guard), Err((&key, &(key + 1))));
            let removed = map.remove_if(&key, |_, &value| value == key + 1, &guard);
            assert_eq!(removed, Ok(Some((&key, &(key + 1)))));
            assert_eq!((map.get(&key, &guard), map.remove(&key, &guard)), (None, None));
        }
    });
    assert_eq!(map.len(), 0);
}

#[test]
fn table_does_not_grow_while_threads_remove_and_insert_their_keys() {
    let map: Map = (0..THREADS * SHARE).map(|key| (key, key)).collect();
    let capacity = map.capacity(&rcu::enter());
    with_ranges(|range| {
        for round in 0..40 {
            for key in range.clone() {
                assert!(map.remove(&key, &rcu::enter()).is_some());
                assert_eq!(map.insert(key, round, &rcu::enter()), None);
            }
        }
    });
    assert_eq!((map.len() as u64, map.capacity(&rcu::enter())), (THREADS * SHARE, capacity));
}

/// A thread inserts keys in order, and removes them in the reverse order, while others look at the map.
fn beside_growth(keys: u64, body: impl Fn(&Map, &AtomicU64) + Sync) {
    let (map, inserted, start) = (Map::new(), AtomicU64::new(0), Barrier::new(2));
    let _running = deadline();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            start.wait();
            // At least once, and until all keys are gone again.
            loop {
                body(&map, &inserted);
                if inserted.load(Acquire) == u64::MAX {
                    break;
                }
            }
        });
        start.wait();
        for key in 0..keys {
            map.insert(key, key, &rcu::enter());
            inserted.store(key + 1, Release);
        }
        for key in (0..keys).rev() {
            // Before the removal: what is counted is there.
            inserted.store(key, Release);
            map.remove(&key, &rcu::enter());
        }
        inserted.store(u64::MAX, Release);
        reader.join().expect("the reader has not panicked");
    });
    assert_eq!(map.len(), 0);
}

#[test]
fn retain_asks_about_all_entries_that_stay_while_the_table_grows_and_shrinks() {
    beside_growth(20_000, |map, inserted| {
        let before = inserted.load(Acquire);
        let mut asked = HashSet::new();
        let note = |&key: &u64, _: &u64| {
            asked.insert(key);
            true
        };
        map.retain(note, &rcu::enter());
        let after = inserted.load(Acquire);
        // Those that were there before and after were there all the time, if they were not removed in between.
        if before != u64::MAX && after != u64::MAX {
            assert!((0..before.min(after)).all(|key| asked.contains(&key)), "{before} to {after}");
        }
    });
}

#[test]
fn first_entries_are_found_while_the_table_grows_and_shrinks() {
    beside_growth(100_000, |map, inserted| {
        let guard = rcu::enter();
        let there = inserted.load(Acquire);
        let first = (there != u64::MAX).then(|| map.get(&0, &guard).copied());
        // The count went down before the removal: as long as it is not zero, the first key was there.
        if there > 0 && !matches!(inserted.load(Acquire), 0 | u64::MAX) {
            assert_eq!(first, Some(Some(0)));
        }
    });
}
