//! The fast paths, each in a function that is not inlined, to look at their assembly: see `docs/assembly.md`.

use std::hint::black_box;

use stillpoint::fence;
use stillpoint::lock::Mutex;
use stillpoint::rcu::{self, Guard, Rcu};

/// Enter, load, exit.
#[unsafe(no_mangle)]
#[inline(never)]
fn one_section(number: &Rcu<u64>) -> u64 {
    *number.load(&rcu::enter())
}

/// One round of a long loop of reads under one guard.
#[unsafe(no_mangle)]
#[inline(never)]
fn repin_and_load(number: &Rcu<u64>, guard: &mut Guard) -> u64 {
    guard.repin();
    *number.load(guard)
}

/// The frequent side of the process-wide fence, between a store and a load.
#[unsafe(no_mangle)]
#[inline(never)]
fn light_fence(ours: &std::sync::atomic::AtomicU64, theirs: &std::sync::atomic::AtomicU64) -> u64 {
    use std::sync::atomic::Ordering::Relaxed;
    ours.store(1, Relaxed);
    fence::light();
    theirs.load(Relaxed)
}

/// Lock, add, unlock, when nobody else wants the lock.
#[unsafe(no_mangle)]
#[inline(never)]
fn one_lock(number: &Mutex<u64>) {
    *number.lock() += 1;
}

fn main() {
    let number = Rcu::new(7);
    assert_eq!(one_section(black_box(&number)), 7);
    assert_eq!(repin_and_load(black_box(&number), &mut rcu::enter()), 7);
    one_lock(black_box(&Mutex::new(1)));
    assert_eq!(light_fence(&Default::default(), &Default::default()), 0);
}
