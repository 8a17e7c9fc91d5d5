//! Models of the map of plain pairs: lookups beside changes of a chain, and beside the move to another table.
#![cfg(loom)]

use loom::sync::Arc;
use stillpoint_collections::copy_map::shape::{MAX_WORDS, Shape, Words};
use stillpoint_collections::copy_map::tables::Tables;
use stillpoint_collections::copy_map::walk::Walk;
use stillpoint_collections::model::Model;
use support::model::{check, race, race_all};

/// Buckets with room for one pair, so that the second one overflows.
struct Small;

impl Shape for Small {
    const KEY: usize = 1;
    const VALUE: usize = 1;
    const SLOTS: usize = 1;
}

/// Values of two words, which are replaced in another slot.
struct Wide;

impl Shape for Wide {
    const KEY: usize = 1;
    const VALUE: usize = 2;
    const SLOTS: usize = 2;
}

type Map<S = Small> = Tables<S, Model>;

/// A key of a bucket, which is its hash. Two keys with the same `top` have the same tag.
const fn key(bucket: u64, top: u64, number: u64) -> u64 {
    top << 56 | number << 8 | bucket
}

const OLD: u64 = key(0, 9, 1);
const NEW: u64 = key(0, 9, 2);

fn words<const N: usize>(values: [u64; N]) -> Words {
    let mut words = [0; MAX_WORDS];
    words[..N].copy_from_slice(&values);
    words
}

fn get<S: Shape>(map: &Map<S>, key: u64) -> Option<u64> {
    let value = map.get(key, &words([key]), &())?;
    assert!(S::VALUE == 1 || value[0] == value[1], "a value consists of two");
    Some(value[0])
}

fn insert<S: Shape>(map: &Map<S>, key: u64, value: u64) -> Option<u64> {
    let value = if S::VALUE == 1 { words([value]) } else { words([value; 2]) };
    Some(map.insert(key, [&words([key]), &value], &|key| key[0], &())?[0])
}

fn remove<S: Shape>(map: &Map<S>, key: u64) -> Option<u64> {
    Some(map.remove(key, &words([key]), None, &|key| key[0], &()).expect("any value")?[0])
}

fn resize<S: Shape>(map: &Map<S>, buckets: usize) {
    map.current(&()).expect("a table").resize(buckets, &());
}

/// A map with pairs whose values are their keys.
fn map<S: Shape>(buckets: usize, keys: &[u64]) -> Arc<Map<S>> {
    let map = Map::of(buckets, Model);
    keys.iter().for_each(|&key| assert_eq!(insert(&map, key, key), None));
    Arc::new(map)
}

/// Explores a map of one bucket that the `first` thread changes while the `last` thread reads it. As in the models of the
/// other map, the thread that reads is the last to run in the first execution.
fn explore<S: Shape>(keys: &'static [u64], first: fn(&Map<S>), last: fn(&Map<S>)) {
    check(0, 3, move || {
        let map = map(1, keys);
        race(&map, first, last);
    });
}

/// Removes a pair, and inserts one with the same tag in its slot.
fn reuse(map: &Map) {
    assert_eq!(remove(map, OLD), Some(OLD));
    assert_eq!(insert(map, NEW, NEW), None);
}

/// Two lookups of a key that is removed.
fn stays_removed(map: &Map) {
    let (first, second) = (get(map, OLD), get(map, OLD));
    assert!(first.is_some() || second.is_none(), "a pair was removed, and then it was found");
}

/// Refutes: pair-without-version, Bucket::read:Acquire, Bucket::write:Release, Bucket::link:Acquire,
/// Bucket::set_link:Release
#[test]
fn value_of_a_later_pair_is_not_read() {
    explore(&[OLD], reuse, |map| {
        assert!(get(map, OLD).is_none_or(|value| value == OLD), "the value of another key");
    });
}

/// Refutes: Bucket::head:Acquire, Bucket::set_head:Release
#[test]
fn pair_is_written_when_it_is_found() {
    let change = |map: &Map| assert_eq!(insert(map, NEW, 7), None);
    explore(&[], change, |map| {
        let (first, second) = (get(map, NEW), get(map, NEW));
        assert!(first.is_none_or(|value| value == 7), "a word that was not written");
        assert!(second == Some(7) || first.is_none(), "a pair was found, and then it was not");
    });
}

#[test]
fn removed_pair_stays_removed() {
    explore(&[OLD], reuse, stays_removed);
}

#[test]
fn value_of_two_words_is_replaced_at_once() {
    let change = |map: &Map<Wide>| {
        assert_eq!(insert(map, OLD, 7), Some(OLD));
        assert_eq!(insert(map, OLD, 8), Some(7));
    };
    explore::<Wide>(&[OLD], change, |map| {
        let values = [get(map, OLD), get(map, OLD)].map(|value| value.expect("a key is missing that stays"));
        let age = |value| [OLD, 7, 8].iter().position(|&known| known == value).expect("a value of the key");
        assert!(age(values[0]) <= age(values[1]), "a value has gone back in time");
    });
}

/// The second of three overflow buckets is unlinked, and the chain of another bucket gets it.
/// Refutes: unlinked-without-version
#[test]
fn pair_behind_an_unlinked_bucket_stays_found() {
    const FIRST: u64 = key(0, 1, 1);
    const SECOND: u64 = key(0, 2, 2);
    const MIDDLE: u64 = key(0, 3, 3);
    const STAYS: u64 = key(0, 4, 4);
    const OTHER: u64 = key(1, 5, 5);
    check(0, 3, || {
        let map: Arc<Map> = map(2, &[FIRST, SECOND, MIDDLE, STAYS, OTHER]);
        let change = |map: &Map| {
            assert_eq!(remove(map, MIDDLE), Some(MIDDLE));
            assert_eq!(insert(map, key(1, 6, 6), 6), None);
        };
        race(&map, change, |map| assert_eq!(get(map, STAYS), Some(STAYS), "a key is missing that stays"));
    });
}

/// The chain of another bucket gets the bucket as soon as it is unlinked, and not before.
/// Refutes: overflow-freed-before-unlinked
#[test]
fn bucket_that_another_chain_takes_belongs_to_no_other() {
    const MIDDLE: u64 = key(0, 2, 2);
    const STAYS: [u64; 3] = [key(0, 1, 1), key(0, 3, 3), key(1, 5, 5)];
    const ADDED: u64 = key(1, 6, 6);
    check(0, 2, || {
        let map: Arc<Map> = map(2, &[STAYS[0], MIDDLE, STAYS[1], STAYS[2]]);
        let remove = |map: &Map| assert_eq!(remove(map, MIDDLE), Some(MIDDLE));
        race(&map, remove, |map| assert_eq!(insert(map, ADDED, ADDED), None));
        let found = |key| get(&map, key) == Some(key);
        assert!(STAYS.into_iter().chain([ADDED]).all(found), "a key is missing that stays");
        assert_eq!(get(&map, MIDDLE), None);
    });
}

/// A removal that looks at a head only finds nothing if the key has no entry.
/// Refutes: overflow-not-considered
#[test]
fn pair_is_removed_while_a_bucket_before_it_is_unlinked() {
    const FIRST: u64 = key(0, 1, 1);
    const MIDDLE: u64 = key(0, 2, 2);
    const LAST: u64 = key(0, 3, 3);
    explore::<Small>(
        &[FIRST, MIDDLE, LAST],
        |map| assert_eq!(remove(map, MIDDLE), Some(MIDDLE)),
        |map| assert_eq!(remove(map, LAST), Some(LAST)),
    );
}

#[test]
fn pair_is_removed_while_its_chain_moves() {
    check(0, 2, || {
        let map: Arc<Map> = map(1, &[OLD]);
        let grow = |map: &Map| {
            resize(map, 2);
            assert_eq!(insert(map, NEW, NEW), None);
        };
        race(&map, grow, |map| assert_eq!(remove(map, OLD), Some(OLD)));
        assert_eq!((get(&map, OLD), get(&map, NEW)), (None, Some(NEW)));
    });
}

/// Refutes: Bucket::try_lock:Acquire
#[test]
fn each_of_two_writers_replaces_another_value() {
    check(0, 3, || {
        let map: Arc<Map> = map(1, &[OLD]);
        let (own, other) = race(&map, |map| insert(map, OLD, 2), |map| insert(map, OLD, 1));
        let last = get(&map, OLD);
        assert!(
            (own, other, last) == (Some(OLD), Some(2), Some(1))
                || (own, other, last) == (Some(1), Some(OLD), Some(2)),
            "{own:?} {other:?} {last:?}"
        );
    });
}

#[test]
fn one_of_two_insertions_is_the_first() {
    check(0, 3, || {
        let map: Arc<Map> = map(1, &[]);
        let (own, other) = race(&map, |map| insert(map, NEW, 2), |map| insert(map, NEW, 1));
        assert!(own.is_none() != other.is_none(), "both insertions were the first");
        assert_eq!((get(&map, NEW), map.len()), (if own.is_none() { Some(1) } else { Some(2) }, 1));
    });
}

/// Refutes: pair-not-copied
#[test]
fn pair_is_found_while_its_chain_moves() {
    let grow = |map: &Map| {
        resize(map, 2);
        assert_eq!(insert(map, OLD, 7), Some(OLD));
    };
    explore(&[OLD], grow, |map| {
        let (first, second) = (get(map, OLD), get(map, OLD));
        assert!(first == Some(OLD) || first == Some(7), "a key is missing that stays");
        assert!(second == Some(7) || second == first, "a value has gone back in time");
    });
}

/// A writer that has not seen the next table changes the chain that another thread moves. The pair that it adds belongs
/// into the second bucket of the next table.
/// Refutes: hashes-not-checked, version-not-final
#[test]
fn change_beside_a_move_is_not_lost() {
    const ADDED: u64 = key(1, 9, 2);
    check(0, 3, || {
        let map: Arc<Map<Wide>> = map(1, &[]);
        let grow = |map: &Map<_>| {
            resize(map, 2);
            assert_eq!(insert(map, OLD, OLD), None);
        };
        race(&map, grow, |map| assert_eq!(insert(map, ADDED, 1), None));
        assert_eq!((get(&map, OLD), get(&map, ADDED), map.len()), (Some(OLD), Some(1), 2));
    });
}

/// Refutes: chain-not-moved-first
#[test]
fn pair_that_was_removed_from_the_next_table_stays_removed() {
    let grow = |map: &Map| {
        resize(map, 2);
        assert_eq!(remove(map, OLD), Some(OLD));
    };
    explore(&[OLD], grow, stays_removed);
}

fn replace(map: &Map, key: u64) {
    assert_eq!(insert(map, key, 7), Some(key));
}

/// Each of two writers moves a chain; the last one publishes the table, with the pairs that both have moved.
/// Refutes: Tables::move_chain:Acquire, Tables::move_chain:Release
#[test]
fn next_table_is_published_with_all_pairs() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(1, 1, 1);
    check(0, 2, || {
        let map: Arc<Map> = map(2, &[LEFT, RIGHT]);
        resize(&map, 4);
        race_all(
            &map,
            |map| replace(map, LEFT),
            2,
            |map, index| match index {
                0 => replace(map, RIGHT),
                _ => {
                    assert!(get(map, LEFT).is_some(), "a key is missing that stays");
                    assert!(get(map, RIGHT).is_some(), "a key is missing that stays");
                }
            },
        );
        assert_eq!([LEFT, RIGHT].map(|key| get(&map, key)), [Some(7); 2]);
    });
}

/// Two chains become one, and each is moved by another thread.
/// Refutes: shrunk-without-lock
#[test]
fn chains_that_become_one_keep_their_pairs() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(1, 1, 2);
    check(0, 2, || {
        let map: Arc<Map> = map(2, &[LEFT, RIGHT]);
        resize(&map, 1);
        race(&map, |map| replace(map, LEFT), |map| replace(map, RIGHT));
        assert_eq!([LEFT, RIGHT].map(|key| get(&map, key)), [Some(7); 2]);
    });
}

/// The hasher says that all pairs that move belong into the chain that the other thread changes.
/// Refutes: hash-of-another-chain
#[test]
fn hasher_that_lies_harms_no_other_chain() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(1, 2, 2);
    check(0, 2, || {
        let map: Arc<Map> = map(2, &[LEFT, RIGHT]);
        resize(&map, 4);
        let insert = |map: &Map, key| _ = map.insert(key, [&words([key]); 2], &|_| LEFT, &());
        race(&map, |map| insert(map, LEFT), move |map| insert(map, RIGHT));
        assert_eq!([LEFT, RIGHT].map(|key| get(&map, key)), [LEFT, RIGHT].map(Some));
    });
}

/// The other thread has moved the last chain, and has not published the next table yet.
/// Refutes: resize-not-awaited
#[test]
fn table_shrinks_once_a_resize_that_is_under_way_is_over() {
    check(0, 2, || {
        let map: Arc<Map> = map(2, &[OLD]);
        resize(&map, 8);
        let shrink = |map: &Map| {
            map.shrink_to_fit(&|key| key[0], &());
            map.current(&()).expect("a table").len()
        };
        let (buckets, ()) = race(&map, shrink, |map| replace(map, OLD));
        assert_eq!((buckets, get(&map, OLD)), (4, Some(7)));
    });
}

/// Two chains become one.
#[test]
fn walk_sees_what_stays_while_the_table_shrinks() {
    const LEFT: u64 = key(0, 1, 1);
    const RIGHT: u64 = key(1, 1, 2);
    check(0, 3, || {
        let map: Arc<Map> = map(2, &[LEFT, RIGHT]);
        let shrink = |map: &Map| {
            resize(map, 1);
            replace(map, RIGHT);
        };
        race(&map, shrink, |map| {
            let (mut walk, mut keys) = (Walk::new(map, &()), Vec::new());
            while walk.next(map, &|key| key[0], &(), &mut |key, _| keys.push(key[0])) {}
            let count = |key| keys.iter().filter(|&&found| found == key).count();
            assert_eq!((count(LEFT), count(RIGHT)), (1, 1));
        });
    });
}
