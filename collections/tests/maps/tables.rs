//! The memory of tables: how large they are.

use std::hash::RandomState;

use crate::{Map, both};

both! {
    table_does_not_grow_before_it_is_full: <u64, u64, RandomState>;
    reserved_table_is_no_larger_than_one_that_grew: <u64, u64, RandomState>;
    reserved_room_stays_while_entries_come_and_go: <u64, u64, RandomState>;
}

fn filled<M: Map<u64, u64, RandomState>>(map: M, entries: u64) -> M {
    (0..entries).for_each(|key| _ = map.insert(key, key));
    map
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

fn reserved_table_is_no_larger_than_one_that_grew<M: Map<u64, u64, RandomState>>() {
    for entries in (1..if cfg!(miri) { 2 } else { 12 }).map(|part| 36 * part * part * part) {
        // Those that are about to grow have not yet.
        let grown = filled(M::with_hasher(RandomState::new()), entries + entries / 16).capacity();
        let reserved = M::with_capacity(entries as usize, RandomState::new()).capacity();
        assert!(reserved <= grown, "{entries} entries: {reserved} reserved, {grown} grown");
    }
}

fn reserved_room_stays_while_entries_come_and_go<M: Map<u64, u64, RandomState>>() {
    const ENTRIES: u64 = if cfg!(miri) { 200 } else { 2000 };
    let map = M::with_hasher(RandomState::new());
    map.reserve(10 * ENTRIES as usize);
    let room = map.capacity();
    let map = filled(map, ENTRIES);
    (0..ENTRIES).for_each(|key| _ = map.remove(key));
    assert!(room >= 10 * ENTRIES as usize && map.capacity() == room, "{room}, then {}", map.capacity());
    map.shrink_to_fit();
    assert!(map.capacity() < room);
}
