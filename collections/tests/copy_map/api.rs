//! Single operations.

use std::collections::BTreeMap;
use std::hash::BuildHasherDefault;
use std::panic::{RefUnwindSafe, UnwindSafe};

use stillpoint::srcu;
use stillpoint_collections::CopyMap;
use stillpoint_collections::copy_map::{Iter, Plain};

#[test]
fn map_works_with_every_size_of_pairs() {
    fn check<const KEY: usize, const VALUE: usize>() {
        let map = CopyMap::<[u8; KEY], [u8; VALUE]>::new();
        for round in 0..3 {
            for number in 0..100 {
                let old = map.insert([number; KEY], [number ^ round; VALUE]);
                assert_eq!(old, (round > 0).then(|| [number ^ (round - 1); VALUE]));
            }
        }
        for number in 0..100 {
            assert_eq!(map.get(&[number; KEY]), Some([number ^ 2; VALUE]));
            assert_eq!(map.get(&[100 + number; KEY]), None);
        }
        assert_eq!((map.len(), map.iter().count()), (100, 100));
        for number in 0..100 {
            assert_eq!(map.remove(&[number; KEY]), Some([number ^ 2; VALUE]));
        }
        assert!(map.is_empty() && map.iter().next().is_none());
    }
    check::<1, 0>();
    check::<8, 0>();
    check::<1, 1>();
    check::<8, 8>();
    check::<5, 9>();
    check::<16, 16>();
    check::<64, 0>();
    check::<64, 64>();
}

#[test]
fn values_that_are_not_any_bits_come_back() {
    let map = CopyMap::from([('a', true), ('ß', false)]);
    assert_eq!((map.get(&'a'), map.get(&'ß'), map.get(&'b')), (Some(true), Some(false), None));
    let unit = CopyMap::from([((), 1.5_f32)]);
    assert_eq!((unit.get(&()), unit.remove(&()), unit.get(&())), (Some(1.5), Some(1.5), None));
}

#[test]
fn sums_of_several_threads_lose_no_addend() {
    const ROUNDS: i64 = 1000;
    let map = CopyMap::new();
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let map = &map;
            scope.spawn(move || (0..ROUNDS * 8).for_each(|round| _ = map.fetch_add(round % 8, thread)));
        }
    });
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), (0..8).map(|key| (key, 10 * ROUNDS)).collect());
    assert_eq!((map.insert(0, i64::MAX), map.fetch_add(0, 1)), (Some(10 * ROUNDS), Some(i64::MAX)));
    assert_eq!(map.get(&0), Some(i64::MIN));
}

#[test]
fn keys_are_the_same_if_their_bytes_are() {
    /// Equal to all others, with one hash.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Equal(u8);
    impl PartialEq for Equal {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Equal {}
    impl std::hash::Hash for Equal {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }
    // SAFETY: a byte.
    unsafe impl bytemuck::Zeroable for Equal {}
    // SAFETY: as above.
    unsafe impl bytemuck::Pod for Equal {}

    let map = CopyMap::new();
    assert_eq!((map.insert(Equal(1), 1), map.insert(Equal(2), 2)), (None, None));
    assert_eq!((map.get(&Equal(1)), map.get(&Equal(2)), map.len()), (Some(1), Some(2), 2));
}

#[test]
fn maps_are_shared_and_sent() {
    fn check<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static>(_: &T) {}
    fn sent<T: Send + Sync>(_: T) {}
    let map = CopyMap::<u64, u64>::new();
    check(&map);
    sent::<Iter<'_, _, _, _>>(map.iter());
    let map = CopyMap::<u64, u64, _, _>::new_in(srcu::Domain::new());
    sent(map.within(&map.domain().enter()));
    sent(map);
}

#[test]
fn conversions_keep_all_entries() {
    let entries = (0..1000_u16).map(|key| (key, u32::from(key) * 3));
    let mut map: CopyMap<_, _, BuildHasherDefault<std::hash::DefaultHasher>> = entries.clone().collect();
    map.extend([(1000, 0)]);
    (&map).extend([(1001, 0)]);
    let clone = map.clone();
    assert_eq!(clone, map);
    assert_eq!((clone.keys().max(), clone.values().max()), (Some(1001), Some(2997)));
    clone.insert(0, 1);
    assert_ne!(clone, map);
    clone.insert(0, 0);
    map.clear();
    assert_eq!((map.len(), clone.len()), (0, 1002));
    let expected: BTreeMap<_, _> = entries.chain([(1000, 0), (1001, 0)]).collect();
    assert_eq!(clone.into_iter().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(format!("{:?}", CopyMap::from([(1, 2)])), "{1: 2}");
}

#[test]
fn room_for_too_many_entries_is_refused() {
    let map = CopyMap::<u64, u64>::new();
    assert!(map.try_reserve(usize::MAX).is_err());
    map.try_reserve(100).expect("memory");
}

/// Values of so many words: buckets of 2 to 9 lines, whose tables are not all multiples of a page.
#[test]
fn tables_of_values_of_each_size_grow_and_shrink() {
    fn check<const WORDS: usize>()
    where
        [u64; WORDS]: Plain,
    {
        let map = CopyMap::<u64, [u64; WORDS]>::new();
        let entries = if cfg!(miri) { 100 } else { 20_000 };
        (0..entries).for_each(|key| assert_eq!(map.insert(key, [key; WORDS]), None));
        (0..entries).for_each(|key| assert_eq!(map.get(&key), Some([key; WORDS])));
        (10..entries).for_each(|key| assert_eq!(map.remove(&key), Some([key; WORDS])));
        map.shrink_to_fit();
        assert_eq!((map.len(), map.iter().count()), (10, 10));
    }
    check::<1>();
    check::<2>();
    check::<3>();
    check::<4>();
    check::<5>();
    check::<6>();
    check::<7>();
    check::<8>();
}
