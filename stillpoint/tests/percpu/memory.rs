//! What counters and counts take of the memory that they share, and give back.

use std::fs;

use stillpoint::percpu::{Counter, Histogram, Pool, RefCount, report};
use support::prelude::*;
use support::rseq;

/// Returns the memory of the process in bytes, without what it has of files, such as code that runs for the first time.
/// Exact: what `statm` has may lag by some dozens of pages for each CPU.
fn resident() -> usize {
    let sums = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let memory = sums.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("the memory");
    memory.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

const COUNT: usize = 80_000;

/// Orders in which `count` objects are dropped.
const ORDERS: [fn(usize, usize) -> usize; 4] = [
    |i, _| i,
    |i, count| count - 1 - i,
    |i, count| i * 7919 % count,
    |i, count| i % 16 * (count / 16) + i / 16,
];

/// Makes waves of objects, uses each on every CPU, and drops them. Returns the most bytes of an object in the memory
/// that they share, and those that are left when all are gone.
fn waves<T>(cpus: &[usize], new: fn() -> T, touch: fn(&T)) -> [usize; 2] {
    let [mut most, mut left] = [0; 2];
    let mut objects: Vec<_> = (0..COUNT).map(|_| Some(new())).collect();
    let before = resident();
    for order in ORDERS {
        objects.iter_mut().for_each(|object| *object = Some(new()));
        for cpu in cpus {
            rseq::pin(&[*cpu]);
            objects.iter().flatten().for_each(touch);
        }
        most = most.max(resident().saturating_sub(before));
        (0..COUNT).for_each(|i| drop(objects[order(i, COUNT)].take().expect("an order takes each once")));
        left = left.max(resident().saturating_sub(before));
    }
    [most / COUNT, left]
}

/// Refutes: blocks-kept
#[test]
fn wave_of_objects_gives_its_memory_back() {
    // Without threads that take memory for other things.
    alone!();
    let cpus = rseq::allowed_cpus();
    let words = 8 * cpus.len();
    // A page of CPU 0 for the header of a block, which has some two thousand words of each CPU.
    let header = if cpus[0] == 0 { 0 } else { 2 };
    let counters = waves(&cpus, Counter::<u64>::new, Counter::inc);
    let counts = waves(&cpus, RefCount::new, RefCount::get);
    assert_eq!([size_of::<Counter>(), size_of::<RefCount>()], [24; 2]);
    for [bytes, left] in [counters, counts] {
        assert!(bytes <= words + words / 8 + header, "{counters:?} {counts:?}");
        // A block, and little of other things.
        assert!(left < COUNT * words / 4, "{counters:?} {counts:?}");
    }
    eprintln!("{counters:?} {counts:?}: bytes of one, and bytes left; {}", report());
}

/// Refutes: words-not-cleared
#[test]
fn words_that_are_taken_again_are_zero() {
    let cpus = rseq::allowed_cpus();
    for _ in 0..3 {
        let (counters, counts) = ([const { Counter::<u64>::new() }; 64], [const { RefCount::new() }; 64]);
        for cpu in &cpus {
            rseq::pin(&[*cpu]);
            counters.iter().for_each(|counter| counter.add(3));
            counts.iter().for_each(RefCount::get);
        }
        assert!(counters.iter().all(|counter| counter.get() == 3 * cpus.len() as u64));
        for count in &counts[..32] {
            assert!(count.kill() && !count.is_zero());
            cpus.iter().for_each(|_| count.put());
            assert!(count.is_zero());
        }
    }
}

/// The first destructor of a pool panics, while stacks of all CPUs have objects. The memory of its stacks goes to a
/// histogram, the next object of that size.
///
/// Refutes: slots-not-cleared
#[test]
fn pool_whose_destructors_panic_gives_its_memory_back_clean() {
    alone!();
    struct Object(&'static AtomicUsize);
    impl Drop for Object {
        fn drop(&mut self) {
            assert_ne!(self.0.fetch_add(1, Relaxed), 0, "the first one panics");
        }
    }
    let dropped: &AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let pool = Pool::new(64);
    let mut objects = 0;
    for cpu in rseq::allowed_cpus() {
        rseq::pin(&[cpu]);
        objects += (0..8).filter(|_| pool.push(Box::new(Object(dropped))).is_ok()).count();
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool))).is_err());
    assert_eq!(dropped.load(Relaxed), objects, "the others are dropped");

    let histogram = Histogram::new();
    histogram.record(1);
    assert_eq!(histogram.snapshot().count(), 1);
}
