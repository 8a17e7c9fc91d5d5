//! `pair COUNT`: begins and ends so many sections, each with a load. Prints the nanoseconds of one. The counterpart of
//! `tests/pair.c`.

use std::env;
use std::hint::black_box;
use std::time::Instant;

use stillpoint::rcu::{self, Rcu};

#[inline(never)]
fn one_section(from: &Rcu<u64>) -> u64 {
    *from.load(&rcu::enter())
}

fn main() {
    let count = env::args().nth(1).map_or(1000, |count| count.parse().expect("a number"));
    let pointer = Rcu::new(1);
    rcu::register();
    let start = Instant::now();
    let sum: u64 = (0..count).map(|_| one_section(black_box(&pointer))).sum();
    println!("{:.3}", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!(sum, count);
}
