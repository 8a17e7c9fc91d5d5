//! `lookup COUNT pairs|structures`: looks up so many keys, of 1,000 in the map. The counterpart of `tests/lookup.c`.

use std::env;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use stillpoint::rcu;
use stillpoint_collections::{CopyMap, HashMap};

/// The number as it is.
#[derive(Default)]
struct Number(u64);

impl Hasher for Number {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Plain = CopyMap<u64, u64, BuildHasherDefault<Number>>;
type Structures = HashMap<u64, Box<u64>, BuildHasherDefault<Number>>;

/// Functions of their own, as in a program.
#[inline(never)]
fn one_pair(map: &Plain, key: u64) -> u64 {
    map.get(&key).unwrap_or(0)
}

#[inline(never)]
fn one_structure(map: &Structures, key: u64) -> u64 {
    map.get(&key, &rcu::enter()).map_or(0, |value| **value)
}

fn main() {
    const KEYS: u64 = 1000;
    let mut arguments = env::args().skip(1);
    let count = arguments.next().map_or(1000, |count| count.parse().expect("a number"));
    let (plain, structures) = (Plain::with_hasher(Default::default()), Structures::default());
    rcu::register();
    let found: u64 = if arguments.next().as_deref() == Some("structures") {
        (0..KEYS).for_each(|key| _ = structures.insert(key, Box::new(1), &rcu::enter()));
        (0..count).map(|i| one_structure(black_box(&structures), i % KEYS)).sum()
    } else {
        (0..KEYS).for_each(|key| _ = plain.insert(key, 1));
        (0..count).map(|i| one_pair(black_box(&plain), i % KEYS)).sum()
    };
    println!("{found} found");
    assert_eq!(found, count);
}
