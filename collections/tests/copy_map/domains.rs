//! Maps in other domains than `rcu::Global`.

use std::borrow::Borrow as _;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, DefaultHasher};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use stillpoint::{Domain, EnterSection, hazard, qsbr, rcu, srcu};
use stillpoint_collections::CopyMap;
use stillpoint_collections::copy_map::Within;
use support::deadline::deadline;

const ENTRIES: u64 = if cfg!(miri) { 60 } else { 5000 };
/// One in so many stays.
const STAYS: u64 = 20;

/// Grows and shrinks the map, with each operation.
fn use_within<S: BuildHasher, D: Domain>(map: Within<'_, u64, u64, S, D>) {
    assert_eq!((map.get(&1), map.insert(1, 10), map.get(&1)), (None, None, Some(10)));
    assert_eq!((map.get_or_insert(2, 20), map.get_or_insert_with(2, || unreachable!())), (20, 20));
    assert_eq!((map.update(&2, |value| value + 1), map.update(&3, |value| value + 1)), (Some(21), None));
    assert_eq!(map.update_or_insert(3, |value| value + 1, 30), 30);
    assert_eq!(map.update_or_insert_with(3, |value| value + 1, || 0), 31);
    assert_eq!(map.compute(&3, |value| value.map(|value| value + 1)), Some(32));
    assert_eq!(map.compare_exchange(3, Some(32), 33), Ok(()));
    assert_eq!(map.compare_exchange(3, None, 34), Err(Some(33)));
    assert_eq!((map.fetch_add(4, 40), map.fetch_add(4, 1)), (None, Some(40)));
    assert_eq!(map.get_many([&1, &2, &3, &4, &5]), [Some(10), Some(21), Some(33), Some(41), None]);
    assert_eq!(map.remove_if(&1, |value| value > 10), Err(10));
    assert_eq!((map.remove_if(&1, |value| value > 9), map.remove(&2)), (Ok(Some(10)), Some(21)));
    assert!(map.contains_key(&3) && !map.contains_key(&2));
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), BTreeMap::from([(3, 33), (4, 41)]));
    assert_eq!(format!("{map:?}").len(), "{3: 33, 4: 41}".len());
    map.clear();
    (0..ENTRIES).for_each(|key| assert_eq!(map.insert(key, key), None));
    assert!((0..ENTRIES).all(|key| map.get(&key) == Some(key)));
    map.retain(|key, _| key % STAYS == 0);
    assert_eq!((map.map().len() as u64, map.iter().count() as u64), (ENTRIES / STAYS, ENTRIES / STAYS));
    let room = map.capacity();
    map.reserve(4 * room);
    assert!(map.capacity() >= 4 * room && map.try_reserve(usize::MAX).is_err());
    map.shrink_to_fit();
    assert!(map.capacity() <= room);
    (0..ENTRIES).step_by(STAYS as usize).for_each(|key| assert_eq!(map.remove(&key), Some(key)));
}

fn use_map<D: EnterSection>(map: &CopyMap<u64, u64, impl BuildHasher + Clone, D>) {
    (0..ENTRIES).for_each(|key| assert_eq!(map.insert(key, key), None));
    let copy = map.clone();
    assert_eq!((copy.iter().count(), copy == *map), (map.len(), true));
    assert_eq!((copy.keys().max(), copy.values().max()), (Some(ENTRIES - 1), Some(ENTRIES - 1)));
    assert!((0..ENTRIES).all(|key| map.get(&key) == Some(key)));
    map.retain(|key, _| key < 2);
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), BTreeMap::from([(0, 0), (1, 1)]));
    assert_eq!(format!("{map:?}").len(), "{0: 0, 1: 1}".len());
    map.clear();
    assert!(map.is_empty() && copy != *map);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn map_has_all_operations_in_each_domain() {
    let _running = deadline();
    stillpoint::domain! { struct Own; }
    hazard::domain! { struct Hazards; }
    qsbr::domain! { struct Quiescent; }
    fn check<D: EnterSection>(domain: D) {
        use_map(&CopyMap::new_in(domain.clone()));
        let map = CopyMap::with_capacity_in(10, domain);
        use_within(map.within(map.domain().enter_section().borrow()));
    }
    check(srcu::Domain::new());
    check(rcu::Global);
    check(Own);
    check(Hazards);
    let map = CopyMap::new_in(Quiescent);
    use_within(map.within(&Quiescent::register()));
    assert_eq!(format!("{map:?}"), "CopyMap { len: 0, .. }");
}

#[test]
fn threads_with_handles_lose_no_addend_while_the_table_grows() {
    const THREADS: u64 = 3;
    let _running = deadline();
    qsbr::domain! { struct Own; }
    let map = CopyMap::new_in(Own);
    thread::scope(|scope| {
        for number in 1..=THREADS {
            let map = &map;
            scope.spawn(move || {
                let mut thread = Own::register();
                for key in 0..ENTRIES {
                    map.within(&thread).fetch_add(key, number);
                    thread.quiescent();
                }
            });
        }
    });
    let thread = Own::register();
    let sum = (1..=THREADS).sum::<u64>();
    assert!(map.within(&thread).iter().all(|(_, value)| value == sum));
    assert_eq!(map.within(&thread).iter().count() as u64, ENTRIES);
    drop(thread);
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
}

/// Makes a map, whose tables are retired while a reader stays, and drops it.
fn drop_beside_a_reader<D: EnterSection>(domain: D) {
    let _running = deadline();
    let reader = domain.enter_section();
    let map = CopyMap::new_in(domain.clone());
    (0..ENTRIES).for_each(|key| _ = map.insert(key, key));
    let retired = domain.stats().queued;
    assert!(retired > 0, "no table has been retired");
    drop(map);
    assert_eq!(domain.stats().queued, retired);
    drop(reader);
    domain.barrier();
    assert_eq!(domain.stats().queued, 0);
}

#[test]
fn map_is_dropped_beside_a_reader_that_stays() {
    stillpoint::domain! { struct Own; }
    drop_beside_a_reader(srcu::Domain::new());
    drop_beside_a_reader(Own);
}

/// Notes in which sections keys are hashed that move.
#[derive(Default)]
struct Noting {
    within_own: AtomicUsize,
    within_global: AtomicUsize,
}

stillpoint::domain! { struct Noted; }

impl BuildHasher for Noting {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.within_own.fetch_add(usize::from(Noted::in_read_section()), Relaxed);
        self.within_global.fetch_add(usize::from(rcu::in_read_section()), Relaxed);
        DefaultHasher::new()
    }
}

#[test]
fn sections_are_those_of_the_domain_of_the_map() {
    let map = CopyMap::with_hasher_in(Noting::default(), Noted);
    (0..ENTRIES).for_each(|key| _ = map.insert(key, key));
    let Noting { within_own, within_global } = map.hasher();
    assert!(within_own.load(Relaxed) > 0 && within_global.load(Relaxed) == 0);
}
