//! Lookups beside changes of a chain.

use super::*;

fn finds_no_later_value<M: Kind>(map: &Tables<M>) {
    assert!(M::get(map, OLD).is_none_or(|value| value == OLD), "the value of another key");
}

/// Refutes: pair-without-version, pair-not-checked, Bucket::read:Acquire, Bucket::write:Release, Bucket::link:Acquire,
/// Bucket::set_link:Release
#[test]
fn value_of_a_later_pair_is_not_read() {
    explore::<Small>(&[OLD], reuse, finds_no_later_value);
}

/// The overflow bucket stays, and only its own version tells that the slot has got another pair.
#[test]
fn value_of_a_later_pair_of_an_overflow_bucket_is_not_read() {
    const KEYS: [u64; 4] = [key(0, 1, 1), key(0, 2, 2), OLD, key(0, 3, 3)];
    explore::<Small<2>>(&KEYS, reuse, finds_no_later_value);
}

/// Refutes: Bucket::head:Acquire, Bucket::set_head:Release
#[test]
fn pair_is_written_when_it_is_found() {
    let change = |map: &Tables<Small>| assert_eq!(Small::insert(map, NEW, 7), None);
    explore::<Small>(&[], change, |map| {
        let (first, second) = (Small::get(map, NEW), Small::get(map, NEW));
        assert!(first.is_none_or(|value| value == 7), "a word that was not written");
        assert!(second == Some(7) || first.is_none(), "a pair was found, and then it was not");
    });
}

/// Refutes: slot-before-head
#[test]
fn entry_in_a_slot_that_is_used_again_stays_found() {
    both!(M, explore::<M>(&[OLD], reuse, stays_found));
}

#[test]
fn entry_in_a_slot_that_is_used_again_stays_removed() {
    both!(M, explore::<M>(&[OLD], reuse, stays_removed));
}

/// The entry is in an overflow bucket, which is unlinked and linked again. Each lookup loads nine words, which may be
/// old, so one preemption has to do.
/// Refutes: overflow-not-checked
#[test]
fn entry_of_an_overflow_bucket_stays_found() {
    check(0, 1, || _ = race(&map::<Boxed>(1, &BOTH), reuse, stays_found));
}

#[test]
fn entry_of_an_overflow_bucket_stays_removed() {
    check(0, 1, || _ = race(&map::<Boxed>(1, &BOTH), reuse, stays_removed));
}

fn is_replaced_at_once<M: Kind>() {
    let change = |map: &Tables<M>| {
        replace(map, OLD);
        assert_eq!(M::insert(map, OLD, 8), Some(7));
    };
    explore::<M>(&[OLD], change, |map| {
        let values =
            [M::get(map, OLD), M::get(map, OLD)].map(|value| value.expect("a key is missing that stays"));
        let age = |value| [OLD, 7, 8].iter().position(|&known| known == value).expect("a value of the key");
        assert!(age(values[0]) <= age(values[1]), "a value has gone back in time");
    });
}

#[test]
fn value_is_replaced_at_once() {
    is_replaced_at_once::<Wide>();
    is_replaced_at_once::<Boxed>();
}

/// Empties an overflow bucket, which the chain of another bucket takes.
fn lend<M: Kind>(map: &Tables<M>) {
    assert_eq!(M::remove(map, OLD), Some(OLD));
    assert_eq!(M::insert(map, key(1, 9, 6), 6), None);
}

/// The second of three overflow buckets is unlinked, and the chain of another bucket gets it.
/// Refutes: unlinked-without-version
#[test]
fn entry_behind_an_unlinked_bucket_stays_found() {
    const FIRST: u64 = key(0, 1, 1);
    const SECOND: u64 = key(0, 2, 2);
    const STAYS: u64 = key(0, 4, 4);
    const OTHER: u64 = key(1, 5, 5);
    check_both!(M, 3, || {
        let map = map::<M>(2, &[FIRST, STAYS, OLD, SECOND, OTHER]);
        race(&map, lend, |map| {
            assert_eq!(M::get(map, STAYS), Some(STAYS), "a key is missing that stays");
        });
        assert_eq!((M::get(&map, key(1, 9, 6)), M::get(&map, OLD)), (Some(6), None));
    });
}

/// As above, and a walk is in the bucket.
///
/// Refutes: walk-of-several-versions
#[test]
fn walk_sees_what_stays_behind_an_unlinked_bucket() {
    const FIRST: u64 = key(0, 1, 1);
    const STAYS: u64 = key(0, 2, 2);
    const OTHER: u64 = key(1, 5, 5);
    check_both!(M, 2, || {
        let map = map::<M>(2, &[FIRST, STAYS, OLD, OTHER]);
        race(&map, lend, |map| {
            let slots = walk(map);
            for stays in [FIRST, STAYS, OTHER] {
                assert_eq!(count::<M>(&slots, stays), 1, "a key that stays");
            }
        });
    });
}

/// A lookup in a bucket that the chain of another bucket takes.
#[test]
fn lookup_in_a_freed_bucket_finds_no_entry_of_another_chain() {
    check_both!(M, 2, || {
        let map = map::<M>(2, &[key(0, 1, 1), OLD, key(1, 5, 5)]);
        race(&map, lend, stays_removed);
    });
}

/// The chain of another bucket gets the bucket as soon as it is unlinked, and not before.
/// Refutes: overflow-freed-before-unlinked
#[test]
fn bucket_that_another_chain_takes_belongs_to_no_other() {
    const MIDDLE: u64 = key(0, 2, 2);
    const STAYS: [u64; 3] = [key(0, 1, 1), key(0, 3, 3), key(1, 5, 5)];
    const ADDED: u64 = key(1, 6, 6);
    check_both!(M, 2, || {
        let map = map::<M>(2, &[STAYS[0], STAYS[1], MIDDLE, STAYS[2]]);
        let remove = |map: &Tables<M>| assert_eq!(M::remove(map, MIDDLE), Some(MIDDLE));
        race(&map, remove, |map| {
            assert_eq!(M::insert(map, ADDED, ADDED), None);
            assert_eq!(M::get(map, STAYS[1]), Some(STAYS[1]), "a key is missing that stays");
        });
        let found = |key| M::get(&map, key) == Some(key);
        assert!(STAYS.into_iter().chain([ADDED]).all(found), "a key is missing that stays");
        assert_eq!(M::get(&map, MIDDLE), None);
    });
}

/// A removal that looks at a head only finds nothing if the key has no entry.
/// Refutes: overflow-not-considered
#[test]
fn entry_is_removed_while_a_bucket_before_it_is_unlinked() {
    const FIRST: u64 = key(0, 1, 1);
    const MIDDLE: u64 = key(0, 2, 2);
    const LAST: u64 = key(0, 3, 3);
    both!(
        M,
        explore::<M>(
            &[FIRST, LAST, MIDDLE],
            |map| assert_eq!(M::remove(map, MIDDLE), Some(MIDDLE)),
            |map| assert_eq!(M::remove(map, LAST), Some(LAST)),
        )
    );
}

/// Refutes: Bucket::try_lock:Acquire
#[test]
fn each_of_two_writers_replaces_another_value() {
    check_both!(M, 3, || {
        let map = map::<M>(1, &[OLD]);
        let (own, other) = race(&map, |map| M::insert(map, OLD, 2), |map| M::insert(map, OLD, 1));
        let last = M::get(&map, OLD);
        assert!(
            (own, other, last) == (Some(OLD), Some(2), Some(1))
                || (own, other, last) == (Some(1), Some(OLD), Some(2)),
            "{own:?} {other:?} {last:?}"
        );
    });
}

/// Refutes: absence-not-confirmed, version-after-head
#[test]
fn one_of_two_insertions_is_the_first() {
    check_both!(M, 3, || insert_twice(&map::<M>(1, &[])));
}

/// The key would be in the overflow bucket, which has room.
/// Refutes: overflow-not-compared
#[test]
fn one_of_two_insertions_into_an_overflow_bucket_is_the_first() {
    check(0, 3, || insert_twice(&map::<Boxed<2>>(1, &[key(0, 1, 1), key(0, 2, 2), OLD])));
}

/// One of two removals finds the entry, and no entry that takes its slot is removed.
///
/// Refutes: slot-not-compared
#[test]
fn one_of_two_removals_is_the_first() {
    check_both!(M, 3, || {
        let map = map::<M>(1, &[OLD]);
        let reuse = |map: &Tables<M>| {
            let removed = M::remove(map, OLD);
            assert_eq!(M::insert(map, NEW, 1), None);
            removed
        };
        let (own, other) = race(&map, reuse, |map| M::remove(map, OLD));
        assert!(own.is_none() != other.is_none(), "both removals were the first");
        assert_eq!((M::get(&map, OLD), M::get(&map, NEW), map.len()), (None, Some(1), 1));
    });
}
