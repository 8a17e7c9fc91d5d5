//! Lookups of several keys at once, in a table that fits into no cache, beside as many single ones.

use std::array;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fastrand::Rng;
use stillpoint::rcu;
use stillpoint_collections::HashMap;

use crate::peers::maps::{Hasher, Key as _};
use harness::{Config, Metric};

/// A lookup of one key.
pub(super) const GET: Metric = Metric::nanoseconds("get_of_many_ns");

const ENTRIES: usize = 10_000_000;
/// Keys of a call.
const KEYS: usize = 32;

pub(super) type Table = HashMap<u64, u64, Hasher>;

pub(super) fn config() -> Config {
    Config::new([("size", ENTRIES.into()), ("keys", KEYS.into())])
}

pub(super) fn table() -> Table {
    let table = Table::default();
    for number in 0..ENTRIES {
        table.insert(u64::with_number(number), 1, &rcu::enter());
    }
    table
}

/// Returns the nanoseconds of a lookup, by `get_many` or by `get`.
pub(super) fn run(table: &Table, together: bool, slice: Duration) -> f64 {
    let (mut rng, mut lookups, begin) = (Rng::with_seed(0), 0, Instant::now());
    while begin.elapsed() < slice {
        for _ in 0..64 {
            let keys: [u64; KEYS] = array::from_fn(|_| u64::with_number(rng.usize(..ENTRIES)));
            let guard = rcu::enter();
            if together {
                black_box(table.get_many(keys.each_ref(), &guard));
            } else {
                black_box(keys.each_ref().map(|key| table.get(key, &guard)));
            }
            lookups += KEYS;
        }
    }
    begin.elapsed().as_nanos() as f64 / lookups as f64
}
