//! The hash map, as its users call it.

use std::collections::BTreeSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::counted::{Alive, Counted};
use crate::hashers::{MASKS, Masked};
use stillpoint::rcu::Global;
use stillpoint::{Domain as _, rcu};
use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::{self, Compute, Operation};
use support::deadline::deadline;

#[test]
fn entry_gets_the_key_of_the_last_insertion() {
    let map = HashMap::new();
    let guard = rcu::enter();
    let (first, second) = ("key".to_owned(), "key".to_owned());
    let address = second.as_ptr();
    map.insert(first, 1, &guard);
    map.insert(second, 2, &guard);
    assert_eq!(map.get_key_value("key", &guard).map(|(key, _)| key.as_ptr()), Some(address));
}

#[test]
fn key_that_was_inserted_meanwhile_in_a_chained_bucket_is_found() {
    // All hashes are equal, so the key comes into the first bucket of a chain, or into a later one.
    for others in 0..20 {
        let map = HashMap::with_hasher(Masked(0));
        let guard = rcu::enter();
        (0..others).for_each(|key| _ = map.insert(key, key, &guard));
        let inserts = || {
            map.insert(others, 1, &guard);
            2
        };
        assert_eq!(map.get_or_insert_with(&others, inserts, &guard), &1, "{others} others");
        assert_eq!(map.len(), others as usize + 1, "a key is there twice");
    }
}

#[test]
fn value_is_inserted_only_if_the_key_has_none() {
    for &mask in MASKS {
        let map = HashMap::with_hasher(Masked(mask));
        let guard = rcu::enter();
        for key in 0..30_u32 {
            assert_eq!(map.try_insert(key, key.to_string(), &guard), Ok(&key.to_string()));
            let error = map.try_insert(key, "other".to_owned(), &guard).expect_err("an entry");
            assert_eq!((error.current, &*error.not_inserted), (&key.to_string(), "other"));
            assert_eq!(map.get_or_insert(&key, "other".to_owned(), &guard), &key.to_string());
            assert_eq!(map.replace(key, "new".to_owned(), &guard), Some((&key, &key.to_string())));
        }
        assert_eq!(map.get_or_insert(&30, "new".to_owned(), &guard), "new");
        assert!((0..31).all(|key| map.get(&key, &guard).is_some_and(|value| value == "new")));
        assert_eq!(map.replace(31, "new".to_owned(), &guard), None);
    }
}

#[test]
fn entry_is_removed_if_the_closure_accepts_it() {
    for &mask in MASKS {
        let map = HashMap::with_hasher(Masked(mask));
        map.pin().get_or_insert(&0, 0);
        let guard = rcu::enter();
        (1..30).for_each(|key| _ = map.insert(key, key, &guard));
        for key in 0..30 {
            assert_eq!(
                map.remove_if(&key, |_, value| value % 2 == 1, &guard),
                if key % 2 == 1 { Ok(Some((&key, &key))) } else { Err((&key, &key)) }
            );
        }
        assert_eq!(map.remove_if(&30, |_, _| unreachable!("no entry"), &guard), Ok(None));
        assert_eq!(map.len(), 15);
    }
}

#[test]
fn value_is_updated_or_inserted() {
    let map = HashMap::new();
    let pinned = map.pin();
    for count in 1..10 {
        assert_eq!(pinned.update_or_insert(&"a", |old| old + 1, 1), &count);
        assert_eq!(pinned.update_or_insert_with(&"b", |old| old + 2, || 2), &(2 * count));
    }
    assert_eq!(pinned.modify(&"a", |value| *value *= 2), Some(&18));
    assert_eq!(pinned.compute(&"b", |_| Operation::<_, ()>::Remove), Compute::Removed(Some((&"b", &18))));
    assert_eq!(pinned.keys().copied().chain(["-"]).collect::<Vec<_>>(), ["a", "-"]);
    assert_eq!((pinned.values().sum::<i32>(), pinned.len(), pinned.is_empty()), (18, 1, false));
}

#[test]
fn borrowed_keys_are_owned_where_an_entry_is_inserted_and_entries_keep_them() {
    let map = HashMap::<Arc<str>, i32>::new();
    let pinned = map.pin();
    let key: Arc<str> = "a".into();
    assert_eq!(pinned.try_insert_with(key.clone(), || 1), Ok(&1));
    assert_eq!(pinned.try_insert_with("a".into(), || panic!("not called")), Err(&1));
    assert_eq!(pinned.get_or_insert(&Arc::from("a"), 3), &1);
    assert_eq!(pinned.update("a", |old| old + 1), Some(&2));
    assert_eq!(pinned.modify("a", |value| *value += 1), Some(&3));
    assert_eq!(pinned.update_or_insert(&Arc::from("a"), |old| old + 1, 0), &4);
    assert!(pinned.get_key_value("a").is_some_and(|(own, value)| Arc::ptr_eq(own, &key) && *value == 4));
    let words = HashMap::<String, i32>::new();
    let counts = ["a", "b", "a"].map(|word| *words.pin().update_or_insert(word, |count| count + 1, 1));
    assert_eq!(counts, [1, 1, 2]);
    assert_eq!(words.pin().get_or_insert("b", 7), &1);
}

#[test]
fn string_is_passed_on_to_the_entry_that_takes_the_place_of_its_own() {
    static ALIVE: Alive = Alive::new(0);
    stillpoint::domain! { struct Own; }
    let counted = |number| Counted::new(number, &ALIVE);
    for is_removed in [false, true] {
        let map = HashMap::new_in(Own);
        let guard = Own::enter();
        map.insert("key".to_owned(), counted(0), &guard);
        let (key, value) = map.get_key_value("key", &guard).expect("an entry");
        for number in 1..10 {
            assert_eq!(map.update("key", |_| counted(number), &guard).map(Counted::get), Some(number));
        }
        let new = map.get_key_value("key", &guard).expect("an entry").0;
        assert!(!ptr::eq(key, new) && key.as_ptr() == new.as_ptr());
        // Another key is the same, but not this one: the first attempt fails.
        let mut inserts = Some("key".to_owned());
        let disturbed = |old: &Counted| {
            inserts.take().map(|key| map.insert(key, counted(20), &guard));
            counted(old.get() + 1)
        };
        assert_eq!(map.update("key", disturbed, &guard).map(Counted::get), Some(21));
        let disturbed = |old: &Counted| {
            map.remove("key", &guard);
            counted(old.get())
        };
        assert!(!is_removed || map.update("key", disturbed, &guard).is_none());
        assert_eq!((&**key, value.get()), ("key", 0));
        drop(guard);
        Own.barrier();
        assert_eq!(ALIVE.load(Relaxed), i64::from(!is_removed));
        drop(map);
        assert_eq!(ALIVE.load(Relaxed), 0);
    }
}

#[test]
fn entry_that_is_taken_belongs_to_the_caller_when_its_readers_are_gone() {
    static ALIVE: Alive = Alive::new(0);
    stillpoint::domain! { struct Own; }
    let counted = |number| Counted::new(number, &ALIVE);
    let map = HashMap::new_in(Own);
    let guard = Own::enter();
    (0..3).for_each(|key| _ = map.insert(counted(key), counted(key + 10), &guard));
    let seen = map.get(&counted(1), &guard);
    let taken = [0, 1].map(|key| map.take(&counted(key), &guard).expect("an entry"));
    assert!(map.take(&counted(1), &guard).is_none());
    assert_eq!((seen.map(Counted::get), taken[1].value.get(), map.len()), (Some(11), 11, 1));
    drop(guard);
    let [first, second] = taken;
    drop(first);
    let hash_map::Entry { key, value, .. } = second.wait();
    Own.barrier();
    assert_eq!((key.get(), value.get(), ALIVE.load(Relaxed)), (1, 11, 4));
    drop((key, value, map));
    assert_eq!(ALIVE.load(Relaxed), 0);
}

#[test]
fn values_of_several_keys_are_those_of_each() {
    for &mask in MASKS {
        let map = HashMap::with_hasher(Masked(mask));
        let guard = rcu::enter();
        assert_eq!(map.get_many([&1, &2], &guard), [None, None]);
        (0..500).step_by(2).for_each(|key| _ = map.insert(key, key, &guard));
        for key in 0..500 {
            let keys = [&key, &0, &(key + 1), &1000];
            assert_eq!(map.get_many(keys, &guard), keys.map(|key| map.get(key, &guard)));
        }
        assert_eq!(map.get_many::<i32, 0>([], &guard), []);
    }
}

#[test]
fn closure_of_compute_is_asked_again_when_its_entry_is_removed() {
    let map = HashMap::new();
    let guard = rcu::enter();
    map.insert(2, 2, &guard);
    let removed = map.compute(
        &2,
        |entry| match entry {
            Some(_) => {
                map.remove(&2, &guard);
                Operation::Insert(3)
            }
            None => Operation::Abort("gone"),
        },
        &guard,
    );
    assert_eq!(removed, Compute::Aborted("gone"));
}

#[test]
fn clear_removes_keys_that_equal_nothing() {
    struct Never(u32);
    impl std::hash::Hash for Never {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    impl PartialEq for Never {
        fn eq(&self, _: &Self) -> bool {
            false
        }
    }
    impl Eq for Never {}
    let map = HashMap::new();
    let guard = rcu::enter();
    for key in [1, 1, 2] {
        assert_eq!(map.insert(Never(key), (), &guard), None);
    }
    map.clear(&guard);
    assert!(map.is_empty());
}

#[test]
fn map_is_collected_extended_cloned_and_taken_apart() {
    let mut map: HashMap<_, _> = (0..100).map(|key| (key, key.to_string())).collect();
    map.extend([(100, "new".to_owned())]);
    (&map).extend([(100, "100".to_owned())]);
    let clone = map.clone();
    drop(map);
    assert_eq!(clone.len(), 101);
    let mut entries: Vec<_> = clone.into_iter().collect();
    entries.sort_unstable();
    assert!(entries.into_iter().eq((0..=100).map(|key| (key, key.to_string()))));
}

#[test]
fn view_has_the_guard_inside() {
    let map = HashMap::new();
    let pinned = map.pin();
    assert_eq!(pinned.insert(1, 2), None);
    assert_eq!(pinned.get_or_insert_with(&1, || 3), &2);
    assert_eq!(pinned.update(&1, |old| old * 2), Some(&4));
    assert_eq!((pinned.get(&1), pinned.contains_key(&2)), (Some(&4), false));
    assert_eq!(format!("{pinned:?}"), "{1: 4}");
    assert_eq!((&pinned).into_iter().count(), 1);
    assert_eq!(pinned.remove(&1), Some(&4));
    assert_eq!((pinned.map().len(), pinned.iter().count()), (0, 0));
    assert_eq!(map.capacity(pinned.guard()), map.capacity(&rcu::enter()));
}

static STATIC: HashMap<u32, u32, BuildHasherDefault<DefaultHasher>> =
    HashMap::with_hasher_in(BuildHasherDefault::new(), Global);

#[test]
fn static_map_is_made_by_its_first_writers() {
    let _running = deadline();
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for thread in 0..4 {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                assert_eq!(STATIC.insert(thread, thread, &rcu::enter()), None);
            });
        }
    });
    let guard = rcu::enter();
    assert_eq!(STATIC.keys(&guard).copied().collect::<BTreeSet<_>>(), (0..4).collect());
}

#[test]
fn iterator_survives_any_number_of_resizes() {
    let _running = deadline();
    let walk = || {
        let map = HashMap::from([(0, 0)]);
        let guard = rcu::enter();
        let entries = map.iter(&guard);
        for _ in 0..1000 {
            map.reserve(200, &guard);
            map.shrink_to_fit(&guard);
        }
        assert_eq!(entries.count(), 1);
    };
    let small = thread::Builder::new().stack_size(64 << 10);
    small.spawn(walk).expect("a thread").join().expect("no panic");
}
