//! The memory of tables: how large they are, what replaced ones weigh.

use std::hash::RandomState;
use std::thread;

use stillpoint::rcu;

use crate::{Map, both};
use support::deadline::deadline;
use support::until::until;

both! {
    table_does_not_grow_before_it_is_full: <u64, u64, RandomState>;
    reserved_table_is_no_larger_than_one_that_grew: <u64, u64, RandomState>;
    replaced_table_counts_towards_the_limits: <u64, u64, RandomState>;
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
    for entries in (1..if cfg!(miri) { 2 } else { 20 }).map(|part| 36 * part * part * part) {
        // Those that are about to grow have not yet.
        let grown = filled(M::with_hasher(RandomState::new()), entries + entries / 16).capacity();
        let reserved = M::with_capacity(entries as usize, RandomState::new()).capacity();
        assert!(reserved <= grown, "{entries} entries: {reserved} reserved, {grown} grown");
    }
}

/// While a reader is inside, so that the table waits.
fn replaced_table_counts_towards_the_limits<M: Map<u64, u64, RandomState>>() {
    /// More than all else that the tests of this program retire.
    const BUCKETS: usize = if cfg!(miri) { 64 } else { 1 << 17 };
    let _running = deadline();
    let map = M::with_capacity(4 * BUCKETS, RandomState::new());
    thread::scope(|scope| {
        let guard = rcu::enter();
        scope.spawn(|| map.shrink_to_fit());
        until(|| rcu::stats().queued_bytes >= (64 * BUCKETS) as u64);
        drop(guard);
    });
}
