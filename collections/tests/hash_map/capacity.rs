//! The room of the hash map: its table grows and shrinks with its entries, and as its users ask.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stillpoint::rcu;
use stillpoint_collections::HashMap;
use support::deadline::deadline;

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
fn shrink_to_fit_completes_the_growth_that_an_insertion_began() {
    let _running = deadline();
    let map = HashMap::new();
    let guard = rcu::enter();
    map.insert(0, 0, &guard);
    let capacity = map.capacity(&guard);
    for key in 1.. {
        map.insert(key, key, &guard);
        // It takes several insertions to move all buckets.
        assert_eq!(map.capacity(&guard), capacity);
        map.shrink_to_fit(&guard);
        if map.capacity(&guard) > capacity {
            break;
        }
    }
    assert_eq!(map.capacity(&guard), 2 * capacity);
}
