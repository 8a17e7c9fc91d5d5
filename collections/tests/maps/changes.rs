//! Changes of an entry that is replaced while a closure is asked about it, and keys and values that differ in a word.

use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::hashers::Masked;
use crate::{Map, both};
use support::deadline::deadline;

both! {
    value_that_was_replaced_since_the_closure_was_asked_is_not_removed: <u64, Pair, RandomState>;
    retain_asks_again_about_a_value_that_was_replaced: <u64, Pair, RandomState>;
    retain_beside_resizes_and_replacements_removes_what_it_is_told: <u64, u64, RandomState>;
    closure_of_a_change_is_asked_again_about_the_value_that_came_since: <u64, Pair, RandomState>;
    slow_update_succeeds_beside_fast_writers: <u64, u64, RandomState>;
    keys_that_differ_in_one_word_are_different: <Key, u64, Masked>;
}

/// Values that have one word in common.
type Pair = [u64; 2];
const OLD: Pair = [1, 1];
const NEW: [Pair; 2] = [[1, 2], [2, 1]];

fn value_that_was_replaced_since_the_closure_was_asked_is_not_removed<M: Map<u64, Pair, RandomState>>() {
    let _running = deadline();
    for new in NEW {
        let map = M::with_hasher(RandomState::new());
        // Each removes `OLD` only, which is replaced as soon as the first question is asked.
        let mut asked = Vec::new();
        let mut is_old = |value| {
            if asked.is_empty() {
                map.insert(7, new);
            }
            asked.push(value);
            value == OLD
        };
        map.insert(7, OLD);
        assert_eq!((map.remove_if(7, &mut is_old), map.get(7)), (None, Some(new)));
        assert_eq!(asked, [OLD, new]);
        let mut asked = Vec::new();
        map.insert(7, OLD);
        let last = map.compute(7, |value| {
            if asked.is_empty() {
                map.insert(7, new);
            }
            asked.push(value);
            value.filter(|&value| value != OLD)
        });
        assert_eq!((last, map.get(7), map.len()), (Some(new), Some(new), 1));
        assert_eq!(asked, [Some(OLD), Some(new)]);
        // Removed, and inserted by another operation: not the removal's.
        map.insert(7, OLD);
        let mut is_first = true;
        let removed = map.remove_if(7, |_| {
            if std::mem::take(&mut is_first) {
                map.remove(7);
            }
            true
        });
        assert_eq!((removed, map.len()), (None, 0));
    }
}

fn retain_asks_again_about_a_value_that_was_replaced<M: Map<u64, Pair, RandomState>>() {
    let _running = deadline();
    for new in NEW {
        for stays in [true, false] {
            let map = M::with_hasher(RandomState::new());
            map.insert(7, OLD);
            let mut asked = Vec::new();
            map.retain(|_, value| {
                if asked.is_empty() {
                    map.insert(7, new);
                }
                asked.push(value);
                stays && value == new
            });
            assert_eq!((asked, map.get(7)), (vec![OLD, new], stays.then_some(new)));
            assert_eq!(map.len(), usize::from(stays));
        }
    }
}

fn retain_beside_resizes_and_replacements_removes_what_it_is_told<M: Map<u64, u64, RandomState>>() {
    /// Keys whose values are always even, and keys whose values are odd.
    const STAY: u64 = if cfg!(miri) { 50 } else { 200 };
    const GO: u64 = 300;
    let _running = deadline();
    for _ in 0..if cfg!(miri) { 1 } else { 5 } {
        let (map, stop) = (M::with_hasher(RandomState::new()), AtomicBool::new(false));
        (0..STAY).for_each(|key| _ = map.insert(key, 0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    map.reserve(4000);
                    map.shrink_to_fit();
                }
            });
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    for key in 0..STAY / 2 {
                        assert!(map.update(key, |value| value + 2).is_some(), "{key} is lost");
                    }
                }
            });
            for _ in 0..if cfg!(miri) { 1 } else { 20 } {
                (STAY..STAY + GO).for_each(|key| _ = map.insert(key, 1));
                map.retain(|_, value| value % 2 == 0);
                assert!((STAY..STAY + GO).all(|key| !map.contains_key(key)), "one is missed");
            }
            stop.store(true, Relaxed);
        });
        assert!((0..STAY).all(|key| map.contains_key(key)));
        assert_eq!((map.len() as u64, map.entries().len() as u64), (STAY, STAY));
        map.clear();
        assert_eq!((map.len(), map.entries().len()), (0, 0));
    }
}

fn closure_of_a_change_is_asked_again_about_the_value_that_came_since<M: Map<u64, Pair, RandomState>>() {
    let _running = deadline();
    for new in NEW {
        let map = M::with_hasher(RandomState::new());
        let add = |value: Pair| value.map(|word| word + 10);
        let replace = |is_first: &mut bool| {
            if std::mem::take(is_first) {
                map.insert(7, new);
            }
        };
        let mut is_first = true;
        map.insert(7, OLD);
        let updated = map.update(7, |value| {
            replace(&mut is_first);
            add(value)
        });
        assert_eq!((updated, map.get(7)), (Some(add(new)), Some(add(new))));
        let mut is_first = true;
        map.insert(7, OLD);
        let updated = map.update_or_insert(
            7,
            |value| {
                replace(&mut is_first);
                add(value)
            },
            OLD,
        );
        assert_eq!((updated, map.get(7)), (add(new), Some(add(new))));
        // There was no value when it was asked.
        let mut is_first = true;
        map.remove(7);
        let computed = map.compute(7, |value| {
            replace(&mut is_first);
            value.map_or(Some(OLD), |value| Some(add(value)))
        });
        assert_eq!((computed, map.get(7), map.len()), (Some(add(new)), Some(add(new)), 1));
        map.remove(7);
        let first = map.get_or_insert_with(7, || {
            map.insert(7, new);
            OLD
        });
        assert_eq!((first, map.get(7), map.len()), (new, Some(new), 1));
    }
}

fn slow_update_succeeds_beside_fast_writers<M: Map<u64, u64, RandomState>>() {
    const MOST: u64 = 200;
    const END: u64 = 1 << 63;
    let _running = deadline();
    let (map, next) = (M::with_hasher(RandomState::new()), AtomicU64::new(1));
    map.insert(7, 0);
    let calls = thread::scope(|scope| {
        for _ in 0..2 {
            // No value comes again.
            scope.spawn(|| while map.insert(7, next.fetch_add(1, Relaxed)) < Some(END) {});
        }
        let mut calls = 0;
        map.update(7, |_| {
            calls += 1;
            if calls < MOST {
                thread::sleep(Duration::from_millis(20));
            } else {
                next.fetch_or(END, Relaxed);
            }
            next.fetch_add(1, Relaxed)
        });
        next.fetch_or(END, Relaxed);
        calls
    });
    assert!(calls < MOST, "the update loses for ever");
}

/// As that of a UUID, and longer.
type Key = [u64; 3];

/// Although their hashes are equal.
fn keys_that_differ_in_one_word_are_different<M: Map<Key, u64, Masked>>() {
    let map = M::with_hasher(Masked(0));
    let keys: [Key; 4] = [[1, 1, 1], [1, 1, 2], [1, 2, 1], [2, 1, 1]];
    (0..).zip(keys).for_each(|(number, key)| assert_eq!(map.insert(key, number), None));
    (0..).zip(keys).for_each(|(number, key)| assert_eq!(map.get(key), Some(number)));
    assert_eq!((map.len(), map.get([2, 2, 2])), (4, None));
    assert_eq!((map.remove(keys[1]), map.get(keys[1]), map.len()), (Some(1), None, 3));
}
