//! Threads that change a map at the same time, and an oracle.
//!
//! Each key has one owner, which changes it and knows its history. The value of a key says which change made it, so
//! that readers see that no key goes back in time, that no entry is missing that stays, and that nothing is used after
//! its drop. The table grows and shrinks all the time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

use crate::counted::{Alive, Counted};
use crate::hashers::{MASKS, Masked};
use fastrand::Rng;
use stillpoint::Domain as _;
use stillpoint::rcu::Guard;
use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::{Compute, Operation};
use support::deadline::deadline;

stillpoint::domain! { struct Own; }

static ALIVE: Alive = Alive::new(0);

/// Changes of each thread where threads only count.
const STEPS: u64 = 20_000;

const OWNERS: u64 = 2;
const READERS: u64 = 2;

type Map = HashMap<Counted, Counted, Masked, Own>;

/// What readers know of the keys.
struct Oracle {
    map: Map,
    /// Keys of owners that change; those above are in the map for ever; then there are those that make the table grow.
    changing: u64,
    staying: u64,
    /// The newest change of each key that has been made: twice its number, plus one if the key is present. The owner
    /// stores it afterwards, so that a map that is read later shows this change, or a later one.
    made: Vec<AtomicU64>,
    /// The number of the newest change of each key that has begun.
    begun: Vec<AtomicU64>,
    stop: AtomicBool,
}

fn counted(number: u64) -> Counted {
    Counted::new(number, &ALIVE)
}

impl Oracle {
    fn new(mask: u64) -> Self {
        let (changing, staying) = if mask == u64::MAX { (64, 256) } else { (16, 32) };
        let map = HashMap::with_hasher_in(Masked(mask), Own);
        let guard = Own::enter();
        (changing..changing + staying).for_each(|key| {
            map.insert(counted(key), counted(key), &guard);
        });
        drop(guard);
        let numbers = || (0..changing).map(|_| AtomicU64::new(0)).collect();
        Self { map, changing, staying, made: numbers(), begun: numbers(), stop: AtomicBool::new(false) }
    }

    /// Changes a key, and checks what the map says of its last state.
    fn change(&self, rng: &mut Rng, key: u64, guard: &Guard<Own>) {
        let last = self.made[key as usize].load(Relaxed);
        let (number, was) = (last / 2 + 1, (last % 2 == 1).then_some(last / 2));
        let get = |value: Option<&Counted>| value.map(Counted::get);
        // A reader that sees the change sees this too.
        self.begun[key as usize].store(number, Release);
        let present = match rng.u32(0..6) {
            0 | 1 => {
                assert_eq!(get(self.map.insert(counted(key), counted(number), guard)), was);
                true
            }
            2 => {
                assert_eq!(get(self.map.remove(&counted(key), guard)), was);
                false
            }
            3 => {
                let new = self.map.update(counted(key), |_| counted(number), guard);
                assert_eq!(get(new), was.map(|_| number));
                was.is_some()
            }
            4 => {
                let value = self.map.get_or_insert_with(counted(key), || counted(number), guard).get();
                assert_eq!(value, was.unwrap_or(number));
                if was.is_some() {
                    return;
                }
                true
            }
            _ => {
                let swap = |entry: Option<(&Counted, &Counted)>| match entry {
                    Some(_) => Operation::<_, ()>::Remove,
                    None => Operation::Insert(counted(number)),
                };
                match self.map.compute(counted(key), swap, guard) {
                    Compute::Removed(Some((_, old))) => assert_eq!(Some(old.get()), was),
                    Compute::Inserted(..) => assert_eq!(was, None),
                    other => panic!("{other:?}"),
                }
                was.is_none()
            }
        };
        self.made[key as usize].store(2 * number + u64::from(present), Release);
    }

    fn own(&self, owner: u64) {
        let mut rng = Rng::with_seed(owner);
        while !self.stop.load(Relaxed) {
            let guard = Own::enter();
            for _ in 0..20 {
                let key = rng.u64(0..self.changing / OWNERS) * OWNERS + owner;
                self.change(&mut rng, key, &guard);
            }
        }
    }

    /// Makes the table grow and shrink.
    fn breathe(&self, rounds: usize) {
        let keys = || {
            let from = self.changing + self.staying;
            from..from + 4 * self.staying
        };
        for round in 0..rounds {
            keys().for_each(|key| {
                self.map.insert(counted(key), counted(key), &Own::enter());
            });
            if round % 3 == 0 {
                let guard = Own::enter();
                self.map.retain(|key, _| key.get() < keys().start, &guard);
            } else {
                keys().for_each(|key| {
                    self.map.remove(&counted(key), &Own::enter());
                });
            }
        }
        self.stop.store(true, Relaxed);
    }

    /// Looks single keys up.
    fn read(&self, reader: u64) {
        let mut rng = Rng::with_seed(100 + reader);
        let mut last = vec![0; self.changing as usize];
        while !self.stop.load(Relaxed) {
            let guard = Own::enter();
            for _ in 0..20 {
                let key = rng.u64(0..self.changing + self.staying);
                let made = self.made.get(key as usize).map(|made| made.load(Acquire));
                let found = self.map.get(&counted(key), &guard).map(Counted::get);
                let Some(made) = made else {
                    assert_eq!(found, Some(key), "a key is missing that stays");
                    continue;
                };
                let last = &mut last[key as usize];
                match found {
                    Some(number) => {
                        // The last change, if it inserted it, or a later one.
                        assert!(
                            number >= made / 2 + u64::from(made % 2 == 0 && made > 0),
                            "{number} after {made}"
                        );
                        assert!(number >= *last, "{number} after {last}");
                        *last = number;
                    }
                    None if made % 2 == 1 => {
                        let begun = self.begun[key as usize].load(Acquire);
                        assert!(begun > made / 2, "key {key} is missing, which change {begun} has inserted");
                    }
                    None => {}
                }
            }
        }
    }

    /// Reads all entries.
    fn iterate(&self) {
        while !self.stop.load(Relaxed) {
            let guard = Own::enter();
            let mut times = vec![0; (self.changing + 5 * self.staying) as usize];
            self.map.iter(&guard).for_each(|(key, value)| {
                value.get();
                times[key.get() as usize] += 1;
            });
            assert!(times.iter().all(|&times| times <= 1), "an entry is returned twice");
            let staying = self.changing as usize..(self.changing + self.staying) as usize;
            assert!(times[staying].iter().all(|&times| times == 1), "an entry is missed that stays");
        }
    }
}

#[test]
fn readers_see_each_key_as_its_owner_made_it() {
    let _running = deadline();
    for &mask in MASKS {
        let oracle = Oracle::new(mask);
        let rounds = if mask == u64::MAX { 60 } else { 4 };
        thread::scope(|scope| {
            let oracle = &oracle;
            for number in 0..OWNERS {
                scope.spawn(move || oracle.own(number));
            }
            for number in 0..READERS {
                scope.spawn(move || oracle.read(number));
            }
            scope.spawn(|| oracle.iterate());
            oracle.breathe(rounds);
        });
        let present = oracle.made.iter().filter(|made| made.load(Relaxed) % 2 == 1).count();
        assert_eq!(oracle.map.len(), present + oracle.staying as usize);
        drop(oracle);
        Own.barrier();
        assert_eq!(ALIVE.load(Relaxed), 0, "an entry leaks, or was dropped twice");
    }
}

/// Two threads insert, remove and count the same keys: each insertion of an absent key is seen by one of them.
#[test]
fn concurrent_changes_of_a_key_are_counted_once() {
    let _running = deadline();
    let map = HashMap::with_hasher_in(Masked(u64::MAX), Own);
    let count = &|seed| {
        let mut rng = Rng::with_seed(seed);
        (0..STEPS).fold(0_i64, |balance, _| {
            let (key, guard) = (rng.u64(0..100), Own::enter());
            if rng.bool() {
                balance + i64::from(map.insert(key, (), &guard).is_none())
            } else {
                balance - i64::from(map.remove(&key, &guard).is_some())
            }
        })
    };
    let balance: i64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|seed| scope.spawn(move || count(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(balance, map.len() as i64);
    assert_eq!(balance, map.iter(&Own::enter()).count() as i64);
}

/// Increments by `update` are not lost.
#[test]
fn concurrent_updates_are_not_lost() {
    let _running = deadline();
    let map = HashMap::with_hasher_in(Masked(u64::MAX), Own);
    (0..4).for_each(|key| {
        map.insert(key, 0_u64, &Own::enter());
    });
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for step in 0..STEPS {
                    map.update(step % 4, |old| old + 1, &Own::enter()).expect("the key stays");
                }
            });
        }
    });
    assert_eq!(map.values(&Own::enter()).sum::<u64>(), 3 * STEPS);
}
