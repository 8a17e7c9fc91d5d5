//! `pair COUNT [bare]`: begins and ends so many sections, each with a load; with `bare`, it only loads. Prints the
//! nanoseconds of one. The counterpart of `tests/pair.c`.

use std::env;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};
use std::time::Instant;

use stillpoint::rcu::{self, Rcu};

/// A function of its own, in which the compiler inlines the section.
#[inline(never)]
fn one_section(from: &Rcu<u64>) -> u64 {
    *from.load(&rcu::enter())
}

#[inline(never)]
fn one_load(from: &AtomicU64) -> u64 {
    from.load(Acquire)
}

fn main() {
    let mut arguments = env::args().skip(1);
    let count = arguments.next().map_or(1000, |count| count.parse().expect("a number"));
    let pointer = Rcu::new(1);
    let number = AtomicU64::new(1);
    rcu::register();
    let start = Instant::now();
    let sum: u64 = if arguments.next().is_some() {
        (0..count).map(|_| one_load(black_box(&number))).sum()
    } else {
        (0..count).map(|_| one_section(black_box(&pointer))).sum()
    };
    println!("{:.3}", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!(sum, count);
}
