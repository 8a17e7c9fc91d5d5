//! Threads that change a map at the same time, and an oracle.
//!
//! Each key has one owner, which changes it and knows its history. The value of a key says which change made it, so
//! that readers see that no key goes back in time, that no entry is missing that stays, that no value is one of
//! another key, or of parts of several, and that nothing is used after its drop. The table grows and shrinks all the
//! time.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

use fastrand::Rng;
use stillpoint::{Domain as _, srcu};
use stillpoint_collections::copy_map::Plain;
use stillpoint_collections::{CopyMap, HashMap};
use support::deadline::deadline;

use crate::counted::Alive;
use crate::hashers::{MASKS, Masked};
use crate::map::{CountedMap, Counts, Map};

stillpoint::domain! { struct Own; }

static ALIVE: Alive = Alive::new(0);

/// Changes of each thread where threads only count.
const STEPS: u64 = if cfg!(miri) { 50 } else { 20_000 };

const OWNERS: u64 = 2;
const READERS: u64 = 2;

impl Counts for Own {
    fn alive() -> &'static Alive {
        &ALIVE
    }
}

/// A value that says which key it belongs to, and which change made it.
trait Value: Plain + PartialEq {
    fn new(key: u64, number: u64) -> Self;
    /// The number of the change, of a value of the key.
    fn of(self, key: u64) -> u64;
}

/// In one word.
impl Value for u64 {
    fn new(key: u64, number: u64) -> Self {
        key << 32 | number
    }

    fn of(self, key: u64) -> u64 {
        assert_eq!(self >> 32, key, "a value of another key");
        self & 0xFFFF_FFFF
    }
}

/// In three words.
impl Value for [u64; 3] {
    fn new(key: u64, number: u64) -> Self {
        [key ^ number, number, !number]
    }

    fn of(self, key: u64) -> u64 {
        assert!(self == Self::new(key, self[1]), "a value of another key, or parts of several");
        self[1]
    }
}

/// What readers know of the keys.
struct Oracle<V, M> {
    map: M,
    value: PhantomData<V>,
    /// Keys of owners that change; those above are in the map for ever; then there are those that make the table
    /// grow.
    changing: u64,
    staying: u64,
    /// The newest change of each key that has been made: twice its number, plus one if the key is present. The owner
    /// stores it afterwards, so that a map that is read later shows this change, or a later one.
    made: Vec<AtomicU64>,
    /// The number of the newest change of each key that has begun.
    begun: Vec<AtomicU64>,
    stop: AtomicBool,
}

impl<V: Value + Sync, M: Map<u64, V, Masked>> Oracle<V, M> {
    fn new(mask: u64) -> Self {
        let (changing, staying) = if mask == u64::MAX && !cfg!(miri) { (64, 256) } else { (16, 32) };
        let map = M::with_hasher(Masked(mask));
        (changing..changing + staying).for_each(|key| _ = map.insert(key, V::new(key, key)));
        let numbers = || (0..changing).map(|_| AtomicU64::new(0)).collect();
        let (made, begun, stop) = (numbers(), numbers(), AtomicBool::new(false));
        Self { map, value: PhantomData, changing, staying, made, begun, stop }
    }

    /// Changes a key, and checks what the map says of its last state.
    fn change(&self, rng: &mut Rng, key: u64) {
        let last = self.made[key as usize].load(Relaxed);
        let (number, was) = (last / 2 + 1, (last % 2 == 1).then_some(last / 2));
        // A reader that sees the change sees this too.
        self.begun[key as usize].store(number, Release);
        let of = |value: Option<V>| value.map(|value| value.of(key));
        let new = V::new(key, number);
        let is_present = match rng.u32(0..6) {
            0 | 1 => {
                assert_eq!(of(self.map.insert(key, new)), was);
                true
            }
            2 => {
                assert_eq!(of(self.map.remove(key)), was);
                false
            }
            3 => {
                assert_eq!(of(self.map.update(key, |_| new)), was.map(|_| number));
                was.is_some()
            }
            4 => {
                assert_eq!(self.map.get_or_insert_with(key, || new).of(key), was.unwrap_or(number));
                if was.is_some() {
                    return;
                }
                true
            }
            _ => {
                // Inserted if it is not there, and removed otherwise.
                let mut found = None;
                self.map.compute(key, |value| {
                    found = value;
                    value.is_none().then_some(new)
                });
                assert_eq!(of(found), was);
                was.is_none()
            }
        };
        self.made[key as usize].store(2 * number + u64::from(is_present), Release);
    }

    fn own(&self, owner: u64) {
        let mut rng = Rng::with_seed(owner);
        while !self.stop.load(Relaxed) {
            let _section = M::enter();
            for _ in 0..20 {
                let key = rng.u64(0..self.changing / OWNERS) * OWNERS + owner;
                self.change(&mut rng, key);
            }
        }
    }

    /// Makes the table grow and shrink.
    fn breathe(&self, rounds: usize) {
        let from = self.changing + self.staying;
        let keys = || from..from + 4 * self.staying;
        for round in 0..rounds {
            keys().for_each(|key| _ = self.map.insert(key, V::new(key, key)));
            if round % 3 == 0 {
                self.map.retain(|key, _| key < from);
            } else {
                keys().for_each(|key| _ = self.map.remove(key));
            }
            if round % 2 == 0 {
                self.map.shrink_to_fit();
            }
        }
        self.stop.store(true, Relaxed);
    }

    /// Looks single keys up.
    fn read(&self, reader: u64) {
        let mut rng = Rng::with_seed(100 + reader);
        let mut last = vec![0; self.changing as usize];
        while !self.stop.load(Relaxed) {
            let _section = M::enter();
            (0..20).for_each(|_| self.look_up(rng.u64(0..self.changing + self.staying), &mut last));
        }
    }

    fn look_up(&self, key: u64, last: &mut [u64]) {
        let made = self.made.get(key as usize).map(|made| made.load(Acquire));
        let found = self.map.get(key).map(|value| value.of(key));
        let Some(made) = made else {
            assert_eq!(found, Some(key), "a key is missing that stays");
            return;
        };
        let last = &mut last[key as usize];
        match found {
            Some(number) => {
                // The last change, if it inserted it, or a later one.
                let least = made / 2 + u64::from(made % 2 == 0 && made > 0);
                assert!(number >= least.max(*last), "{number} after {least} and {last}");
                *last = number;
            }
            None if made % 2 == 1 => {
                let begun = self.begun[key as usize].load(Acquire);
                assert!(begun > made / 2, "key {key} is missing, which change {begun} has inserted");
            }
            None => {}
        }
    }

    /// Reads all entries.
    fn iterate(&self) {
        while !self.stop.load(Relaxed) {
            let mut times = vec![0; (self.changing + 5 * self.staying) as usize];
            for (key, value) in self.map.iter(&M::enter()) {
                value.of(key);
                times[key as usize] += 1;
            }
            assert!(times.iter().all(|&times| times <= 1), "an entry is returned twice");
            let staying = self.changing as usize..(self.changing + self.staying) as usize;
            assert!(times[staying].iter().all(|&times| times == 1), "not once an entry that stays");
        }
    }
}

fn readers_see_each_key_as_its_owner_made_it<V: Value + Sync, M: Map<u64, V, Masked>>() {
    let _running = deadline();
    for &mask in MASKS {
        let oracle = Oracle::<V, M>::new(mask);
        let rounds = if cfg!(miri) {
            1
        } else if mask == u64::MAX {
            60
        } else {
            4
        };
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
        let counts = [oracle.map.len(), oracle.map.entries().len()];
        assert_eq!(counts, [present + oracle.staying as usize; 2]);
    }
}

#[test]
fn readers_see_values_of_one_word_as_their_owner_made_them() {
    readers_see_each_key_as_its_owner_made_it::<u64, CopyMap<_, _, _>>();
}

#[test]
fn readers_see_values_of_three_words_as_their_owner_made_them() {
    readers_see_each_key_as_its_owner_made_it::<[u64; 3], CopyMap<_, _, _>>();
}

#[test]
fn readers_of_srcu_see_values_as_their_owner_made_them() {
    readers_see_each_key_as_its_owner_made_it::<u64, CopyMap<_, _, _, srcu::Domain>>();
}

#[test]
fn readers_see_entries_as_their_owner_made_them() {
    readers_see_each_key_as_its_owner_made_it::<u64, CountedMap<Own>>();
    Own.barrier();
    assert_eq!(ALIVE.load(Relaxed), 0, "an entry leaks, or was dropped twice");
}

/// Threads insert, remove and count the same keys: each insertion of an absent key is seen by one of them.
fn changes_are_counted_once(map: impl Map<u64, (), Masked>) {
    let _running = deadline();
    let count = &|seed| {
        let mut rng = Rng::with_seed(seed);
        (0..STEPS).fold(0_i64, |balance, _| {
            let key = rng.u64(0..100);
            if rng.bool() {
                balance + i64::from(map.insert(key, ()).is_none())
            } else {
                balance - i64::from(map.remove(key).is_some())
            }
        })
    };
    let balance: i64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|seed| scope.spawn(move || count(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((balance, balance), (map.len() as i64, map.entries().len() as i64));
}

#[test]
fn concurrent_changes_of_a_key_are_counted_once() {
    changes_are_counted_once(HashMap::<u64, (), _>::with_hasher(Masked(u64::MAX)));
    changes_are_counted_once(CopyMap::with_hasher(Masked(u64::MAX)));
}

/// Increments by `update` are not lost.
fn updates_are_not_lost(map: impl Map<u64, [u64; 2], Masked>) {
    let _running = deadline();
    (0..4).for_each(|key| _ = map.insert(key, [0, 0]));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for step in 0..STEPS {
                    map.update(step % 4, |[a, b]| [a + 1, b + 2]).expect("the key stays");
                }
            });
        }
    });
    let sum = map.entries().iter().fold([0, 0], |[a, b], (_, [c, d])| [a + c, b + d]);
    assert_eq!(sum, [3 * STEPS, 6 * STEPS]);
}

#[test]
fn concurrent_updates_are_not_lost() {
    updates_are_not_lost(HashMap::<u64, [u64; 2], _>::with_hasher(Masked(u64::MAX)));
    updates_are_not_lost(CopyMap::with_hasher(Masked(u64::MAX)));
}
