//! `pair COUNT [bare|lock]`: begins and ends so many sections, each with a load. With `bare`, it only loads; with `lock`,
//! under a mutex. Prints the nanoseconds of one. The counterpart of `tests/pair.c`.

use std::env;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};
use std::time::Instant;

use stillpoint::lock::Mutex;
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

#[inline(never)]
fn one_lock(mutex: &Mutex<()>, from: &AtomicU64) -> u64 {
    let _held = mutex.lock();
    from.load(Acquire)
}

fn main() {
    let mut arguments = env::args().skip(1);
    let count = arguments.next().map_or(1000, |count| count.parse().expect("a number"));
    let (pointer, number) = (Rcu::new(1), AtomicU64::new(1));
    let mutex = Mutex::new(());
    rcu::register();
    let start = Instant::now();
    let sum: u64 = match arguments.next().as_deref() {
        Some("bare") => (0..count).map(|_| one_load(black_box(&number))).sum(),
        Some("lock") => (0..count).map(|_| one_lock(black_box(&mutex), &number)).sum(),
        _ => (0..count).map(|_| one_section(black_box(&pointer))).sum(),
    };
    println!("{:.3}", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!(sum, count);
}
