//! The room of the hash map: its table grows and shrinks with its entries, and as its users ask.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use stillpoint::rcu;
use stillpoint_collections::HashMap;
use support::deadline::deadline;

#[test]
fn reserved_room_stays_until_the_map_is_shrunk() {
    let _running = deadline();
    for map in [HashMap::new(), HashMap::with_capacity(1_000)] {
        let guard = rcu::enter();
        map.reserve(100_000, &guard);
        let capacity = map.capacity(&guard);
        for key in 0..1000 {
            map.insert(key, (), &guard);
            map.remove(&key, &guard);
        }
        assert_eq!(map.capacity(&guard), capacity, "a removal has undone the reservation");
        (0..10_000).for_each(|key| _ = map.insert(key, (), &guard));
        map.shrink_to_fit(&guard);
        let shrunk = map.capacity(&guard);
        assert!((10_000..capacity / 2).contains(&shrunk), "{capacity} to {shrunk}");
        assert_eq!((map.len(), map.iter(&guard).count()), (10_000, 10_000));
        // From now on, the table follows its entries.
        (0..10_000).for_each(|key| _ = map.remove(&key, &guard));
        assert!(map.capacity(&guard) < shrunk / 2);
    }
}

#[test]
fn map_of_a_known_size_begins_with_its_room_and_does_not_keep_it() {
    const ENTRIES: u32 = if cfg!(miri) { 300 } else { 10_000 };
    let guard = rcu::enter();
    let capacity = HashMap::<u32, ()>::with_capacity(ENTRIES as usize).capacity(&guard);
    let map: HashMap<u32, ()> = (0..ENTRIES).map(|key| (key, ())).collect();
    assert_eq!((map.capacity(&guard), map.clone().capacity(&guard)), (capacity, capacity));
    (0..ENTRIES).for_each(|key| _ = map.remove(&key, &guard));
    assert!(map.capacity(&guard) < capacity / 2);
}

#[test]
fn table_shrinks_by_half_at_a_time() {
    let _running = deadline();
    let map = HashMap::new();
    let guard = rcu::enter();
    (0..50_000).for_each(|key| _ = map.insert(key, (), &guard));
    let mut capacity = map.capacity(&guard);
    let least = HashMap::from([(0, ())]).capacity(&guard);
    for key in 0..50_000 {
        map.remove(&key, &guard);
        let now = map.capacity(&guard);
        assert!(now == capacity || now == capacity / 2, "{capacity} to {now}");
        capacity = now;
    }
    assert!(capacity <= 64 * least, "{capacity} remain, {least} is the least");
}

#[test]
fn table_that_cannot_be_allocated_changes_nothing() {
    let _running = deadline();
    let map = HashMap::new();
    let guard = rcu::enter();
    map.insert(0, 0, &guard);
    let capacity = map.capacity(&guard);
    assert!(catch_unwind(AssertUnwindSafe(|| map.reserve(usize::MAX, &guard))).is_err());
    for key in 0..1000 {
        map.insert(key, key, &guard);
    }
    // What could not be reserved does not keep the table from growing.
    map.reserve(0, &guard);
    assert!(map.capacity(&guard) > capacity);
    assert_eq!(map.iter(&guard).count(), 1000);
    let capacity = map.capacity(&guard);
    // Too large for the address space, and for the kernel. Miri panics at the second.
    let sizes: &[usize] = if cfg!(miri) { &[usize::MAX] } else { &[usize::MAX, 1 << 56] };
    for &size in sizes {
        let error = map.try_reserve(size, &guard).expect_err("too large");
        assert!(error.to_string().contains("table"), "{error}");
    }
    assert_eq!((map.capacity(&guard), map.try_reserve(5000, &guard)), (capacity, Ok(())));
    assert!(map.capacity(&guard) >= 5000);
}

#[test]
fn reserve_returns_with_room_beside_other_threads() {
    let _running = deadline();
    for _ in 0..20 {
        let map = HashMap::new();
        thread::scope(|scope| {
            for thread in 0..3_usize {
                let map = &map;
                scope.spawn(move || {
                    for size in (1..8).map(|power| (300 + thread) << power) {
                        let guard = rcu::enter();
                        map.insert(size, (), &guard);
                        map.reserve(size, &guard);
                        let capacity = map.capacity(&guard);
                        assert!(capacity >= size, "room for {capacity}, not for {size}");
                    }
                });
            }
        });
    }
}

#[test]
fn table_does_not_grow_while_threads_remove_and_insert_their_keys() {
    const THREADS: u64 = 4;
    const SHARE: u64 = 256;
    let _running = deadline();
    let map: HashMap<u64, u64> = (0..THREADS * SHARE).map(|key| (key, key)).collect();
    let capacity = map.capacity(&rcu::enter());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                for round in 0..40 {
                    for key in thread * SHARE..(thread + 1) * SHARE {
                        assert!(map.remove(&key, &rcu::enter()).is_some());
                        assert_eq!(map.insert(key, round, &rcu::enter()), None);
                    }
                }
            });
        }
    });
    assert_eq!((map.len() as u64, map.capacity(&rcu::enter())), (THREADS * SHARE, capacity));
}
