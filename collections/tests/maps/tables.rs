//! The memory of tables: how large they are.

use std::hash::{BuildHasher, RandomState};
use std::thread;

use crate::hashers::{MASKS, Masked};
use crate::{Map, both};
use support::deadline::deadline;

both! {
    table_grows_and_shrinks_with_its_entries: <u64, u64, Masked>;
    table_grows_no_more_for_equal_hashes: <u64, u64, Masked>;
    table_does_not_grow_before_it_is_full: <u64, u64, RandomState>;
    reserved_table_is_no_larger_than_one_that_grew: <u64, u64, Masked>;
    reserved_room_stays_until_the_map_is_shrunk: <u64, u64, RandomState>;
    table_shrinks_by_half_at_a_time: <u64, u64, RandomState>;
    reserve_returns_with_room_beside_other_threads: <u64, u64, RandomState>;
    table_does_not_grow_while_threads_replace_their_keys: <u64, u64, RandomState>;
}

fn filled<S: BuildHasher, M: Map<u64, u64, S>>(map: M, entries: u64) -> M {
    (0..entries).for_each(|key| _ = map.insert(key, key));
    map
}

fn table_grows_and_shrinks_with_its_entries<M: Map<u64, u64, Masked>>() {
    for &mask in MASKS {
        let count = if mask == u64::MAX && !cfg!(miri) { 10_000 } else { 500 };
        let map = M::with_hasher(Masked(mask));
        (0..count).for_each(|key| assert_eq!(map.insert(key, key + 1), None));
        assert!((0..count).all(|key| map.get(key) == Some(key + 1)));
        assert_eq!((map.get(count), map.len() as u64), (None, count));
        let grown = map.capacity();
        // No more than for random hashes.
        assert!(count == 10_000 || grown <= 1024, "{grown}, mask {mask:#x}");
        (0..count - 1).for_each(|key| assert_eq!(map.remove(key), Some(key + 1)));
        assert_eq!(map.entries(), [(count - 1, count)]);
        let shrunk = map.capacity();
        assert!(count < 10_000 || grown as u64 >= count && shrunk < grown / 16, "{grown} to {shrunk}");
    }
}

fn table_grows_no_more_for_equal_hashes<M: Map<u64, u64, Masked>>() {
    let map = M::with_hasher(Masked(0));
    (0..500).for_each(|key| _ = map.insert(key, key));
    assert!(map.capacity() <= 1024, "{}", map.capacity());
    assert!((0..500).all(|key| map.get(key) == Some(key)));
    (0..500).rev().for_each(|key| assert_eq!(map.remove(key), Some(key)));
    assert_eq!(map.len(), 0);
}

fn table_does_not_grow_before_it_is_full<M: Map<u64, u64, RandomState>>() {
    for asked in [1, 3, 64, 1000, if cfg!(miri) { 1001 } else { 20_000 }] {
        let map = M::with_capacity(asked, RandomState::new());
        let room = map.capacity();
        assert!(room >= asked, "{room} of {asked}");
        let map = filled(map, room as u64);
        assert_eq!((map.len(), map.capacity()), (room, room));
    }
}

fn reserved_table_is_no_larger_than_one_that_grew<M: Map<u64, u64, Masked>>() {
    for entries in (1..if cfg!(miri) { 2 } else { 12 }).map(|part| 36 * part * part * part) {
        // Those that are about to grow have not yet.
        let grown = filled(M::with_hasher(Masked(u64::MAX)), entries + entries / 16).capacity();
        let reserved = M::with_capacity(entries as usize, Masked(u64::MAX)).capacity();
        assert!(reserved <= grown, "{entries} entries: {reserved} reserved, {grown} grown");
    }
}

fn reserved_room_stays_until_the_map_is_shrunk<M: Map<u64, u64, RandomState>>() {
    const ENTRIES: u64 = if cfg!(miri) { 200 } else { 10_000 };
    let _running = deadline();
    for asked in [0, ENTRIES as usize] {
        let map = M::with_capacity(asked, RandomState::new());
        map.reserve(10 * ENTRIES as usize);
        let room = map.capacity();
        let map = filled(map, ENTRIES);
        (0..ENTRIES).for_each(|key| _ = map.remove(key));
        assert!(room >= 10 * ENTRIES as usize && map.capacity() == room, "{room}, then {}", map.capacity());
        let map = filled(map, ENTRIES);
        map.shrink_to_fit();
        let shrunk = map.capacity();
        assert!((ENTRIES as usize..room / 2).contains(&shrunk), "{room} to {shrunk}");
        assert_eq!((map.len(), map.entries().len()), (ENTRIES as usize, ENTRIES as usize));
        // From now on, the table follows its entries.
        (0..ENTRIES).for_each(|key| _ = map.remove(key));
        assert!(cfg!(miri) || map.capacity() < shrunk / 2);
    }
}

fn table_shrinks_by_half_at_a_time<M: Map<u64, u64, RandomState>>() {
    const ENTRIES: u64 = if cfg!(miri) { 500 } else { 50_000 };
    let _running = deadline();
    let map = filled(M::with_hasher(RandomState::new()), ENTRIES);
    let mut capacity = map.capacity();
    let least = filled(M::with_hasher(RandomState::new()), 1).capacity();
    for key in 0..ENTRIES {
        map.remove(key);
        let now = map.capacity();
        assert!(now == capacity || now == capacity / 2, "{capacity} to {now}");
        capacity = now;
    }
    assert!(capacity <= 64 * least, "{capacity} remain, {least} is the least");
}

fn reserve_returns_with_room_beside_other_threads<M: Map<u64, u64, RandomState>>() {
    let _running = deadline();
    for _ in 0..if cfg!(miri) { 1 } else { 20 } {
        let map = M::with_hasher(RandomState::new());
        thread::scope(|scope| {
            for thread in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    for size in (1..8).map(|power| (300 + thread) << power) {
                        let _section = M::enter();
                        map.insert(size, 0);
                        map.reserve(size as usize);
                        let room = map.capacity();
                        assert!(room >= size as usize, "room for {room}, not for {size}");
                    }
                });
            }
        });
    }
}

fn table_does_not_grow_while_threads_replace_their_keys<M: Map<u64, u64, RandomState>>() {
    const THREADS: u64 = 4;
    const SHARE: u64 = 256;
    let _running = deadline();
    let map = M::with_capacity((THREADS * SHARE) as usize, RandomState::new());
    let map = filled(map, THREADS * SHARE);
    let capacity = map.capacity();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 1 } else { 40 } {
                    for key in thread * SHARE..(thread + 1) * SHARE {
                        assert!(map.remove(key).is_some());
                        assert_eq!(map.insert(key, round), None);
                    }
                }
            });
        }
    });
    assert_eq!((map.len() as u64, map.capacity()), (THREADS * SHARE, capacity));
}
