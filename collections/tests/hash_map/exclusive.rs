//! What the owner of a map does with it, without guards.

use std::collections::hash_map::RandomState;

use crate::counted::{Alive, Counted};
use crate::hashers::{MASKS, Masked};
use crate::set::Value;
use std::sync::atomic::Ordering::Relaxed;
use stillpoint::{qsbr, rcu, srcu};
use stillpoint_collections::HashMap;

/// A map with as many entries, in the middle of a resize if `moving`.
fn filled(mask: u64, entries: u32, moving: bool) -> HashMap<u32, u32, Masked> {
    let mut map = HashMap::with_hasher(Masked(mask));
    map.extend((0..entries).map(|key| (key, key)));
    if moving {
        let guard = rcu::enter();
        let before = map.capacity(&guard);
        // The first removal that finds the table sparse begins to shrink it.
        for key in 0..entries - entries / 8 {
            map.remove(&key, &guard);
            if map.capacity(&guard) != before {
                break;
            }
        }
    }
    map
}

#[test]
fn owner_finds_and_changes_all_entries() {
    for &mask in MASKS {
        for moving in [false, true] {
            let mut map = filled(mask, 600, moving);
            let keys: Vec<u32> = map.pin().keys().copied().collect();
            assert_eq!(keys.len(), map.len());
            for key in &keys {
                *map.get_mut(key).expect("an entry") += 1;
            }
            assert_eq!(map.get_mut(&1000), None);
            assert_eq!(map.iter_mut().len(), keys.len());
            map.iter_mut().for_each(|(key, value)| *value += key);
            map.values_mut().for_each(|value| *value += 1);
            assert!(keys.iter().all(|key| map.pin().get(key) == Some(&(2 * key + 2))));
        }
    }
}

#[test]
fn table_grows_with_the_entries_that_its_owner_adds() {
    let map = filled(u64::MAX, if cfg!(miri) { 600 } else { 20_000 }, false);
    let (room, grown) = (map.capacity(&rcu::enter()), HashMap::<u32, ()>::with_capacity(map.len()));
    assert_eq!(room, grown.capacity(&rcu::enter()));
}

/// As with `insert`.
#[test]
fn entry_that_its_owner_replaces_gets_the_new_key() {
    let map = HashMap::from([(Value(0, 1), 1), (Value(0, 2), 2)]);
    assert_eq!(map.pin().iter().map(|(key, value)| (key.1, *value)).collect::<Vec<_>>(), [(2, 2)]);
}

#[test]
fn owner_replaces_and_adds_entries_while_a_table_moves() {
    for &mask in MASKS {
        let mut map = filled(mask, 600, true);
        let before: Vec<u32> = map.pin().keys().copied().collect();
        map.extend((0..700).map(|key| (key, 7)));
        assert_eq!(map.len(), 700);
        assert!((0..700).all(|key| map.pin().get(&key) == Some(&7)), "{before:?}");
        // Other operations continue with what the owner has left.
        let pinned = map.pin();
        assert!((0..700).all(|key| pinned.remove(&key) == Some(&7)));
        assert!(pinned.is_empty());
    }
}

#[test]
fn drained_map_is_empty_and_can_be_used() {
    static ALIVE: Alive = Alive::new(0);
    let mut map = HashMap::from([(0, Counted::new(0, &ALIVE))]);
    map.extend((1..100).map(|key| (key, Counted::new(key, &ALIVE))));
    let drained = map.drain();
    assert_eq!((drained.len(), ALIVE.load(Relaxed)), (100, 100));
    drop(drained);
    assert_eq!((ALIVE.load(Relaxed), map.len(), map.pin().iter().count()), (0, 0, 0));
    map.extend([(5, Counted::new(5, &ALIVE))]);
    assert_eq!(map.pin().get(&5).map(Counted::get), Some(5));
    map.clear_mut();
    assert_eq!((ALIVE.load(Relaxed), map.len()), (0, 0));
    std::mem::forget(map.drain());
}

#[test]
fn map_is_collected_in_domains_of_all_kinds() {
    let pairs = || (0..100).map(|key| (key, key));
    let srcu: HashMap<_, _, RandomState, srcu::Domain> = pairs().collect();
    assert_eq!(srcu.get(&99, &srcu.domain().enter()), Some(&99));
    let qsbr: HashMap<_, _, RandomState, qsbr::Global> = pairs().collect();
    assert_eq!(format!("{qsbr:?}"), "HashMap { len: 100, .. }");
    let handle = qsbr::register();
    assert_eq!(qsbr.iter(&handle).count(), 100);
    drop(handle);
    let rcu: HashMap<u32, u32> = pairs().collect();
    assert!(rcu == srcu && rcu == rcu.clone() && srcu.clone() == rcu);
    rcu.pin().update(&7, |_| 8);
    assert!(rcu != srcu);
    rcu.pin().remove(&7);
    assert!(rcu != srcu);
    assert_eq!(format!("{:?}", HashMap::from([(1, 2)])), "{1: 2}");
    let mut copied: HashMap<u32, u32> = HashMap::new();
    copied.extend(&std::collections::HashMap::from([(1, 2)]));
    assert_eq!(copied, HashMap::from([(1, 2)]));
}
