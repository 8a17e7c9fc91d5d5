//! A panic of a broken contract has the place of the call in the program.
#![cfg(not(loom))]

use std::cell::Cell;

use stillpoint::{rcu, srcu};
use stillpoint_collections::hash_map::Operation;
use stillpoint_collections::{CopyMap, HashMap, HashSet};
use support::panics::panic_of;

/// Checks that the call panics where it stands, with a message that has this in it.
macro_rules! refused {
    ($part:expr, $call:expr) => {{
        // As the call is in the same line.
        let here = format!("{}:{}", file!(), line!());
        let (place, text) = panic_of(|| _ = $call);
        assert_eq!(place, here, "{text}");
        assert!(text.contains($part), "{text}");
    }};
}

#[test]
fn guard_of_another_domain_is_refused_at_the_call() {
    let (own, other) = (srcu::Domain::new(), srcu::Domain::new());
    let map = HashMap::new_in(own.clone());
    map.insert(1, 1, &own.enter());
    let guard = other.enter();
    let part = "another srcu::Domain";
    refused!(part, map.capacity(&guard));
    refused!(part, map.iter(&guard));
    refused!(part, map.keys(&guard));
    refused!(part, map.values(&guard));
    refused!(part, map.get(&1, &guard));
    refused!(part, map.get_key_value(&1, &guard));
    refused!(part, map.contains_key(&1, &guard));
    refused!(part, map.get_many([&1, &2], &guard));
    refused!(part, map.insert(1, 2, &guard));
    refused!(part, map.replace(1, 2, &guard));
    refused!(part, map.try_insert(1, 2, &guard));
    refused!(part, map.try_insert_with(1, || 2, &guard));
    refused!(part, map.get_or_insert(&1, 2, &guard));
    refused!(part, map.update_or_insert(&1, |_| 2, 2, &guard));
    refused!(part, map.update_or_insert_with(&1, |_| 2, || 2, &guard));
    refused!(part, map.remove_if(&1, |_, _| true, &guard));
    refused!(part, map.try_reserve(1, &guard));
    refused!(part, map.get_or_insert_with(&1, || 2, &guard));
    refused!(part, map.update(&1, |_| 2, &guard));
    refused!(part, map.modify(&1, |value| *value = 2, &guard));
    refused!(part, map.compute(&1, |_| Operation::<_, ()>::Remove, &guard));
    refused!(part, map.remove(&1, &guard));
    refused!(part, map.remove_entry(&1, &guard));
    refused!(part, map.take(&1, &guard));
    refused!(part, map.retain(|_, _| false, &guard));
    refused!(part, map.clear(&guard));
    refused!(part, map.reserve(1, &guard));
    refused!(part, map.shrink_to_fit(&guard));
    assert_eq!(map.get(&1, &own.enter()), Some(&1));
}

#[test]
fn guard_of_another_domain_is_refused_by_a_set() {
    let (own, other) = (srcu::Domain::new(), srcu::Domain::new());
    let set = HashSet::new_in(own.clone());
    set.insert(1, &own.enter());
    let guard = other.enter();
    let part = "another srcu::Domain";
    refused!(part, set.capacity(&guard));
    refused!(part, set.iter(&guard));
    refused!(part, set.contains(&1, &guard));
    refused!(part, set.get(&1, &guard));
    refused!(part, set.insert(1, &guard));
    refused!(part, set.replace(1, &guard));
    refused!(part, set.remove(&1, &guard));
    refused!(part, set.take(&1, &guard));
    refused!(part, set.retain(|_| false, &guard));
    refused!(part, set.clear(&guard));
    refused!(part, set.reserve(1, &guard));
    refused!(part, set.try_reserve(1, &guard));
    refused!(part, set.shrink_to_fit(&guard));
    assert!(set.contains(&1, &own.enter()));
}

#[test]
fn section_of_another_domain_is_refused_by_a_map_of_pairs() {
    let (own, other) = (srcu::Domain::new(), srcu::Domain::new());
    let map = CopyMap::<u64, u64, _, _>::new_in(own.clone());
    let guard = other.enter();
    refused!("another srcu::Domain", map.within(&guard));
    assert_eq!(map.within(&own.enter()).insert(1, 1), None);
}

#[test]
fn closure_that_defeats_its_operation_a_thousand_times_is_refused_at_the_call() {
    let (map, copies, calls) = (HashMap::from([(1, 0)]), CopyMap::from([(1, 0)]), Cell::new(0));
    let guard = rcu::enter();
    let replace = || {
        calls.set(calls.get() + 1);
        map.insert(1, 0, &guard);
        copies.insert(1, calls.get());
        1
    };
    let insert = || Operation::<_, ()>::Insert(replace());
    let remove = || (replace(), Operation::<_, ()>::Remove).1;
    let pinned = map.pin();
    macro_rules! defeated {
        ($call:expr) => {
            refused!("its own key again and again", $call);
            assert_eq!(calls.take(), 1000);
        };
    }
    defeated!(map.update(&1, |_| replace(), &guard));
    defeated!(map.modify(&1, |value| *value = replace(), &guard));
    defeated!(map.compute(&1, |_| insert(), &guard));
    defeated!(map.compute(&1, |_| remove(), &guard));
    defeated!(map.update_or_insert(&1, |_| replace(), 0, &guard));
    defeated!(map.remove_if(&1, |_, _| replace() == 1, &guard));
    defeated!(map.retain(|_, _| replace() == 0, &guard));
    defeated!(pinned.update(&1, |_| replace()));
    defeated!(copies.update(&1, |_| -replace()));
    defeated!(copies.remove_if(&1, |_| replace() == 1));
    defeated!(copies.retain(|_, _| replace() == 0));
    assert_eq!(map.get(&1, &guard), Some(&0));
}

#[test]
fn room_for_too_many_entries_is_refused_at_the_call() {
    let map = HashMap::from([(1, 0)]);
    let guard = rcu::enter();
    let part = "the table does not fit into the address space";
    refused!(part, map.reserve(usize::MAX, &guard));
    refused!(part, HashMap::<u32, u32>::with_capacity(usize::MAX));
    refused!(part, HashMap::<u32, u32, _, _>::with_capacity_in(usize::MAX, rcu::Global));
    refused!(part, HashMap::<u32, u32, _>::with_capacity_and_hasher(usize::MAX, map.hasher().clone()));
    let hasher = map.hasher().clone();
    refused!(part, HashMap::<u32, u32, _, _>::with_capacity_and_hasher_in(usize::MAX, hasher, rcu::Global));
}
