//! `pair COUNT`: begins and ends so many sections, each with a load. Prints the nanoseconds of one. The counterpart of
//! `tests/pair.c`.

use std::env;
use std::hint::black_box;
use std::time::Instant;

use stillpoint::rcu::{self, Rcu};

fn main() {
    let count = env::args().nth(1).map_or(1000, |count| count.parse().expect("a number"));
    let value = Rcu::new(1);
    // The compiler does not know what readers load.
    let pointer = black_box(&value);
    rcu::register();
    let start = Instant::now();
    let sum: u64 = (0..count).map(|_| *pointer.load(&rcu::enter())).sum();
    println!("{:.3}", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!(sum, count);
}
