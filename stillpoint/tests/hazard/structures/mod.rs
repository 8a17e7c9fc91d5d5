//! Structures of the literature on hazard pointers alone: a list and a hash table after Michael (2002), and a skip list
//! after Harris (2001) and Fraser (2003).

mod hash_table;
mod list;
mod skip_list;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use support::deadline::deadline;

use list::List;

/// The tag of a link whose node is removed.
const REMOVED: usize = 1;

stillpoint::hazard::domain! {
    /// The domain of all structures here.
    struct Own;
}

/// A set of numbers that threads change.
trait Set: Default + Sync {
    fn insert(&self, key: u64) -> bool;
    fn remove(&self, key: u64) -> bool;
    fn contains(&self, key: u64) -> bool;
}

/// A generator of random numbers (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % below
    }
}

/// One thread: the set does what one of the standard library does.
fn matches_a_set_of_the_standard_library<S: Set>() {
    let (set, mut model, mut random) = (S::default(), BTreeSet::new(), Random(7));
    for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
        let key = random.next(100);
        match random.next(3) {
            0 => assert_eq!(set.insert(key), model.insert(key), "insert {key}"),
            1 => assert_eq!(set.remove(key), model.remove(&key), "remove {key}"),
            _ => assert_eq!(set.contains(key), model.contains(&key), "contains {key}"),
        }
    }
}

/// Several threads: each key was inserted as often as it was removed, or once more.
fn threads_agree_on_each_key<S: Set>() {
    const KEYS: usize = 32;
    let _running = deadline();
    let (set, counts) = (S::default(), [const { AtomicI64::new(0) }; KEYS]);
    thread::scope(|s| {
        for number in 1..4 {
            let (set, counts) = (&set, &counts);
            s.spawn(move || {
                let mut random = Random(number);
                for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
                    let key = random.next(KEYS as u64);
                    match random.next(4) {
                        0 => _ = set.insert(key) && counts[key as usize].fetch_add(1, Relaxed) > i64::MAX - 1,
                        1 => _ = set.remove(key) && counts[key as usize].fetch_sub(1, Relaxed) > i64::MAX - 1,
                        _ => _ = set.contains(key),
                    }
                }
            });
        }
    });
    for (key, count) in counts.iter().enumerate() {
        assert_eq!(i64::from(set.contains(key as u64)), count.load(Relaxed), "key {key}");
    }
    drop(set);
    Own.barrier();
}

macro_rules! tests_of {
    ($($set:ident: $alone:ident, $together:ident;)+) => {
        $(
            #[test]
            fn $alone() {
                matches_a_set_of_the_standard_library::<$set>();
            }

            #[test]
            fn $together() {
                threads_agree_on_each_key::<$set>();
            }
        )+
    };
}

use hash_table::HashTable;
use skip_list::SkipList;

tests_of! {
    List: list_matches_a_set_of_the_standard_library, threads_agree_on_each_key_of_a_list;
    HashTable: hash_table_matches_a_set_of_the_standard_library, threads_agree_on_each_key_of_a_hash_table;
    SkipList: skip_list_matches_a_set_of_the_standard_library, threads_agree_on_each_key_of_a_skip_list;
}
