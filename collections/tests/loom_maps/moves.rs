//! Lookups, changes and walks beside the move to another table.

use super::*;

/// Keys of two chains.
const LEFT: u64 = key(0, 1, 1);
const RIGHT: u64 = key(1, 1, 2);

#[test]
fn entry_is_removed_while_its_chain_moves() {
    check_both!(M, 2, || {
        let map = map::<M>(1, &[OLD]);
        let grow = |map: &Tables<M>| {
            resize(map, 2);
            assert_eq!(M::insert(map, NEW, NEW), None);
        };
        race(&map, grow, |map| assert_eq!(M::remove(map, OLD), Some(OLD)));
        assert_eq!((M::get(&map, OLD), M::get(&map, NEW)), (None, Some(NEW)));
    });
}

/// The chain of the next table gets the version of the one in which the key was not found.
/// Refutes: chain-not-compared
#[test]
fn one_of_two_insertions_is_the_first_beside_a_move() {
    check(0, 3, || {
        let map = map::<Boxed>(1, &[OLD]);
        assert_eq!(Boxed::remove(&map, OLD), Some(OLD));
        resize(&map, 2);
        insert_twice(&map);
    });
}

/// Refutes: pair-not-copied, moved-before-copies
#[test]
fn entry_is_found_while_its_chain_moves() {
    both!(
        M,
        explore::<M>(
            &[OLD],
            |map| {
                resize(map, 2);
                replace(map, OLD);
            },
            |map| {
                let (first, second) = (M::get(map, OLD), M::get(map, OLD));
                assert!(first == Some(OLD) || first == Some(7), "a key is missing that stays");
                assert!(second == Some(7) || second == first, "a value has gone back in time");
            },
        )
    );
}

/// A writer that has not seen the next table changes the chain that another thread moves. What it adds belongs into
/// the second bucket of the next table.
/// Refutes: hashes-not-checked, version-not-final
#[test]
fn change_beside_a_move_is_not_lost() {
    const ADDED: u64 = key(1, 9, 2);
    fn explore<M: Kind>() {
        check(0, 3, || {
            let map = map::<M>(1, &[]);
            let grow = |map: &Tables<M>| {
                resize(map, 2);
                assert_eq!(M::insert(map, OLD, OLD), None);
            };
            race(&map, grow, |map| assert_eq!(M::insert(map, ADDED, 1), None));
            assert_eq!((M::get(&map, OLD), M::get(&map, ADDED), map.len()), (Some(OLD), Some(1), 2));
        });
    }
    explore::<Wide>();
    explore::<Boxed>();
}

/// Three pairs of a bucket each, of which the last overflow bucket has the second.
const LONG: [u64; 3] = [key(1, 1, 1), key(1, 2, 2), key(1, 3, 3)];

/// The pair gets another slot after the hash of the old one was computed.
/// Refutes: replaced-without-version
#[test]
fn pair_of_a_long_chain_is_replaced_while_it_moves() {
    check(0, 2, || {
        let map = map::<Wide>(1, &LONG);
        let grow = |map: &Tables<Wide>| {
            resize(map, 2);
            replace(map, LONG[0]);
        };
        race(&map, grow, |map| replace(map, LONG[1]));
        assert_eq!(LONG.map(|key| Wide::get(&map, key)), [Some(7), Some(7), Some(LONG[2])]);
    });
}

/// The pair gets its first slot again.
/// Refutes: replaced-without-version
#[test]
fn walk_sees_no_part_of_a_value_of_a_long_chain() {
    check(0, 2, || {
        let map = map::<Wide>(1, &LONG);
        let change = |map: &Tables<Wide>| {
            replace(map, LONG[1]);
            assert_eq!(Wide::insert(map, LONG[1], 8), Some(7));
        };
        race(&map, change, |map| {
            let pairs = walk(map);
            assert_eq!(pairs.len(), 3 * Wide::SLOT);
            assert!(pairs.chunks(Wide::SLOT).all(|pair| pair[1] == pair[2]), "a value consists of two");
        });
    });
}

/// Refutes: chain-not-moved-first
#[test]
fn entry_that_was_removed_from_the_next_table_stays_removed() {
    both!(
        M,
        explore::<M>(
            &[OLD],
            |map| {
                resize(map, 2);
                assert_eq!(M::remove(map, OLD), Some(OLD));
            },
            stays_removed,
        )
    );
}

/// Each of two writers moves a chain; the last one publishes the table, with the entries that both have moved.
/// Refutes: Tables::move_chain:Acquire, Tables::move_chain:Release, published-before-last-chain
#[test]
fn next_table_is_published_with_all_entries() {
    const RIGHT: u64 = key(1, 1, 1);
    check_both!(M, 2, || {
        let map = map::<M>(2, &[LEFT, RIGHT]);
        resize(&map, 4);
        race_all(
            &map,
            |map| replace(map, LEFT),
            2,
            |map, index| match index {
                0 => replace(map, RIGHT),
                _ => {
                    assert!(M::get(map, LEFT).is_some(), "a key is missing that stays");
                    assert!(M::get(map, RIGHT).is_some(), "a key is missing that stays");
                }
            },
        );
        assert_eq!([LEFT, RIGHT].map(|key| M::get(&map, key)), [Some(7); 2]);
    });
}

/// Two chains become one, and each is moved by another thread.
/// Refutes: shrunk-without-lock
#[test]
fn chains_that_become_one_keep_their_entries() {
    check_both!(M, 2, || {
        let map = map::<M>(2, &[LEFT, RIGHT]);
        resize(&map, 1);
        race(&map, |map| replace(map, LEFT), |map| replace(map, RIGHT));
        assert_eq!([LEFT, RIGHT].map(|key| M::get(&map, key)), [Some(7); 2]);
    });
}

/// The hasher says that all pairs that move belong into the chain that the other thread changes.
/// Refutes: hash-of-another-chain
#[test]
fn hasher_that_lies_harms_no_other_chain() {
    const RIGHT: u64 = key(1, 2, 2);
    check(0, 2, || {
        let map = map::<Small>(2, &[LEFT, RIGHT]);
        resize(&map, 4);
        let insert =
            |map: &Tables<Small>, key| _ = map.upsert(key, &words([key]), |_| words([key]), &|_| LEFT, &());
        race(&map, |map| insert(map, LEFT), move |map| insert(map, RIGHT));
        assert_eq!([LEFT, RIGHT].map(|key| Small::get(&map, key)), [LEFT, RIGHT].map(Some));
    });
}

/// The other thread has moved the last chain, and has not published the next table yet.
/// Refutes: resize-not-awaited
#[test]
fn table_shrinks_once_a_resize_that_is_under_way_is_over() {
    check_both!(M, 2, || {
        let map = map::<M>(2, &[OLD]);
        resize(&map, 8);
        let shrink = |map: &Tables<M>| {
            map.shrink_to_fit(M::rehash(), &());
            map.current(&()).expect("a table").len()
        };
        let (buckets, ()) = race(&map, shrink, |map| replace(map, OLD));
        assert_eq!((buckets <= 4, M::get(&map, OLD)), (true, Some(7)));
    });
}

/// The other thread has undertaken to move the last chain.
#[test]
fn reserve_moves_chains_that_other_threads_have_claimed() {
    check_both!(M, 2, || {
        let map = map::<M>(2, &[OLD]);
        resize(&map, 4);
        let reserve = |map: &Tables<M>| {
            map.reserve(20, M::rehash(), &()).expect("memory");
            assert!(map.capacity(&()) >= 20, "no room");
        };
        race(&map, reserve, |map| replace(map, OLD));
        assert_eq!(M::get(&map, OLD), Some(7));
    });
}

/// Two chains become one.
/// Refutes: entries-of-other-buckets-kept
#[test]
fn walk_sees_what_stays_while_the_table_shrinks() {
    check_both!(M, 3, || {
        let map = map::<M>(2, &[LEFT, RIGHT]);
        let shrink = |map: &Tables<M>| {
            resize(map, 1);
            replace(map, RIGHT);
        };
        race(&map, shrink, |map| {
            let slots = walk(map);
            assert_eq!([LEFT, RIGHT].map(|key| count::<M>(&slots, key)), [1, 1]);
        });
    });
}

/// The table has grown since the walk began, and grows again: a chain that has moved stands for its part of the step.
///
/// Refutes: entries-of-other-chains-collected
#[test]
fn walk_sees_what_stays_while_the_table_grows_again() {
    check_both!(M, 2, || {
        let map = map::<M>(1, &[LEFT, RIGHT]);
        let grow = |map: &Tables<M>| {
            resize(map, 4);
            replace(map, RIGHT);
        };
        race(&map, grow, |map| {
            let begun = Walk::new(map, &());
            resize(map, 2);
            replace(map, LEFT);
            let slots = rest(begun, map);
            assert_eq!([LEFT, RIGHT].map(|key| count::<M>(&slots, key)), [1, 1]);
        });
    });
}
