//! The fast paths, each in a function of its own, for a look at their assembly: see `docs/assembly.md`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillpoint::fence;
use stillpoint::lock::{Mutex, RwLock};
use stillpoint::percpu::{self, Counter};
use stillpoint::qsbr::{self, Handle};
use stillpoint::rcu::{self, Atomic, Guard, Owned, Rcu};
use stillpoint::srcu::Domain;

/// Enter, load, exit.
#[unsafe(no_mangle)]
#[inline(never)]
fn one_section(number: &Rcu<u64>) -> u64 {
    *number.load(&rcu::enter())
}

/// Enter, load, exit, in an `srcu` domain.
#[unsafe(no_mangle)]
#[inline(never)]
fn sleepable_section(domain: &Domain, number: &Rcu<u64, Domain>) -> u64 {
    *number.load(&domain.enter())
}

/// One round of a long loop of reads under one guard.
#[unsafe(no_mangle)]
#[inline(never)]
fn repin_and_load(number: &Rcu<u64>, guard: &mut Guard) -> u64 {
    guard.repin();
    *number.load(guard)
}

/// Loading a link, and reading the node behind it.
#[unsafe(no_mangle)]
#[inline(never)]
fn load_node(link: &Atomic<u64>, guard: &Guard) -> u64 {
    link.load(guard).as_ref().map_or(0, |node| *node)
}

/// A read by QSBR: no section begins, as the thread reports when it holds no reference.
#[unsafe(no_mangle)]
#[inline(never)]
fn qsbr_load(number: &Rcu<u64, qsbr::Global>, thread: &Handle) -> u64 {
    *number.load(thread)
}

/// The report.
#[unsafe(no_mangle)]
#[inline(never)]
fn qsbr_report(thread: &mut Handle) {
    thread.quiescent();
}

/// Retiring a value.
#[unsafe(no_mangle)]
#[inline(never)]
fn retire_one(value: Box<u64>) {
    rcu::retire(value);
}

/// The frequent side of the process-wide fence, between a store and a load.
#[unsafe(no_mangle)]
#[inline(never)]
fn light_fence(ours: &AtomicU64, theirs: &AtomicU64) -> u64 {
    ours.store(1, Relaxed);
    fence::light();
    theirs.load(Relaxed)
}

/// An add to a per-CPU counter.
#[unsafe(no_mangle)]
#[inline(never)]
fn count(counter: &Counter) {
    counter.add(1);
}

/// The number of the current CPU.
#[unsafe(no_mangle)]
#[inline(never)]
fn cpu_number() -> usize {
    percpu::cpu()
}

/// Lock, add, unlock, without contention.
#[unsafe(no_mangle)]
#[inline(never)]
fn one_lock(number: &Mutex<u64>) {
    *number.lock() += 1;
}

/// Lock for reading, load, unlock.
#[unsafe(no_mangle)]
#[inline(never)]
fn read_lock(number: &RwLock<u64>) -> u64 {
    *number.read()
}

fn main() {
    // First, while there is one thread: `ci/percpu.sh` steps through the second add in a debugger. (The first one
    // allocates.)
    let counter = Counter::new();
    count(black_box(&counter));
    count(black_box(&counter));
    assert_eq!(counter.get(), 2);
    let number = Rcu::new(7);
    assert_eq!(one_section(black_box(&number)), 7);
    let domain = Domain::new();
    let sleepable = Rcu::new_in(7, domain.clone());
    assert_eq!(sleepable_section(black_box(&domain), black_box(&sleepable)), 7);
    assert_eq!(repin_and_load(black_box(&number), &mut rcu::enter()), 7);
    let link = Atomic::new(Owned::new(7));
    assert_eq!(load_node(black_box(&link), &rcu::enter()), 7);
    let mut thread = qsbr::register();
    assert_eq!(qsbr_load(&Rcu::new_in(7, qsbr::Global), &thread), 7);
    qsbr_report(&mut thread);
    retire_one(black_box(Box::new(7)));
    one_lock(black_box(&Mutex::new(1)));
    assert_eq!(read_lock(black_box(&RwLock::new(7))), 7);
    assert_eq!(light_fence(&Default::default(), &Default::default()), 0);
    assert!(cpu_number() < percpu::report().cpus());
    println!("{}", percpu::report());
}
