//! Tests of the gate: when it opens, and what allocates.

use super::gate::{LOCKS, RawRw, SHUT, Timeout, WORD};
use super::opening::{fence_took, gate_was_shut, reads_per_fence};
use crate::fence;
use crate::lock::policy::{DefaultPolicy, Policy};
use crate::percpu::cpu_counters::CpuCounters;
use crate::sync::Ordering::Relaxed;
use support::deadline::deadline;
use support::until::until;

/// Reads the lock `times`.
fn read<P: Policy>(lock: &RawRw<P>, times: u64, timeout: Timeout) {
    for _ in 0..times {
        assert!(lock.lock_shared::<false>(timeout));
        lock.unlock_shared();
    }
}

fn write<P: Policy>(lock: &RawRw<P>) {
    assert!(lock.lock_exclusive(Timeout::Never));
    // SAFETY: it was taken.
    unsafe { lock.unlock_exclusive() };
}

fn is_open<P>(lock: &RawRw<P>) -> bool {
    lock.gate.load(Relaxed) & SHUT == 0
}

fn is_in_word_mode<P>(lock: &RawRw<P>) -> bool {
    lock.gate.load(Relaxed) & WORD != 0
}

/// The first read ends word mode, and the third one opens the gate.
struct OpensAfterThree;

impl Policy for OpensAfterThree {
    const WORD_READS: u32 = 0;
    const RETURNS: u32 = 0;
    const SAMPLE: u32 = 1;
    const OPEN_AFTER: Option<u32> = Some(3);
}

/// Refutes: gate-always-opens, gate-never-opens
#[test]
fn gate_opens_after_as_many_reads_without_a_write() {
    let _running = deadline();
    let lock = RawRw::<OpensAfterThree>::new();
    for _ in 0..3 {
        read(&lock, 2, Timeout::Never);
        assert!(!is_open(&lock), "too few reads");
        write(&lock);
    }
    read(&lock, 3, Timeout::Never);
    assert!(is_open(&lock));
    write(&lock);
    assert!(!is_open(&lock));
}

#[test]
fn gate_of_a_new_lock_opens_after_some_reads() {
    let _running = deadline();
    let lock = RawRw::<DefaultPolicy>::new();
    // Each of them may be a sample.
    read(&lock, 7, Timeout::Never);
    assert!(!is_open(&lock) && !lock.readers.is_allocated());
    until(|| {
        read(&lock, 1000, Timeout::Never);
        is_open(&lock) && lock.readers.is_allocated()
    });
}

/// Refutes: tried-read-allocates
#[test]
fn tried_read_does_not_allocate() {
    let lock = RawRw::<OpensAfterThree>::new();
    read(&lock, 10, Timeout::Immediate);
    assert!(!lock.readers.is_allocated());
    read(&lock, 3, Timeout::Never);
    assert!(lock.readers.is_allocated() && is_open(&lock));
    // Now tried reads may open the gate.
    write(&lock);
    read(&lock, 3, Timeout::Immediate);
    assert!(is_open(&lock));
}

#[test]
fn failed_try_leaves_the_gate_open() {
    let lock = RawRw::<OpensAfterThree>::new();
    read(&lock, 3, Timeout::Never);
    assert!(lock.lock_shared::<false>(Timeout::Never));
    assert!(!lock.lock_exclusive(Timeout::Immediate));
    assert!(is_open(&lock));
    lock.unlock_shared();
}

#[test]
fn read_opens_the_gate_for_the_fast_path() {
    // An interrupt makes a try fail, and so does a CPU on which there was no add.
    let is_fast = |counters: &CpuCounters<2>| {
        (0..1000).any(|_| {
            counters.add_without_allocating(LOCKS, 0);
            counters.try_add(LOCKS, 0)
        })
    };
    let counters = CpuCounters::new();
    assert!(counters.prepare_for(fence::report().backend() == fence::Backend::Membarrier));
    counters.enable_fast();
    let lock = RawRw::<OpensAfterThree>::new();
    for _ in 0..2 {
        read(&lock, 3, Timeout::Never);
        assert_eq!(is_fast(&lock.readers), is_fast(&counters));
        write(&lock);
        assert!(!lock.readers.try_add(LOCKS, 0), "readers of a shut gate are counted needlessly");
    }
}

/// Other tests may change the estimate too.
#[test]
fn estimate_of_a_fence_is_bounded_and_falls() {
    let _running = deadline();
    (0..100).for_each(|_| fence_took(u64::MAX));
    assert!(reads_per_fence() <= 1024);
    (0..100).for_each(|_| fence_took(0));
    assert!(reads_per_fence() >= 16);
    until(|| {
        gate_was_shut(1000);
        reads_per_fence() == 16
    });
}

/// A lock that is used by one thread stays in word mode, and returns to it.
#[test]
fn writes_by_one_thread_begin_word_mode_again() {
    let _running = deadline();
    let lock = RawRw::<DefaultPolicy>::new();
    for _ in 0..100 {
        read(&lock, 5, Timeout::Never);
        write(&lock);
    }
    assert!(is_in_word_mode(&lock) && !lock.readers.is_allocated());
    until(|| {
        read(&lock, 1000, Timeout::Never);
        is_open(&lock)
    });
    until(|| {
        write(&lock);
        is_in_word_mode(&lock)
    });
    assert!(!lock.readers.try_add(LOCKS, 0));
}
