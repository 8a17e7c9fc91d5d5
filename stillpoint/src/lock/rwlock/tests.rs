//! Tests of the gate: when it opens, and what allocates.

use super::gate::{LOCKS, RawRw, Timeout, fence_took, gate_was_shut, reads_per_fence};
use crate::fence;
use crate::lock::policy::{DefaultPolicy, Policy};
use crate::percpu::cpu_counters::CpuCounters;
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

/// The gate opens with the third read.
struct OpensAfterThree;

impl Policy for OpensAfterThree {
    const SAMPLE: u64 = 1;
    const OPEN_AFTER: Option<u64> = Some(3);
}

/// Refutes: gate-always-opens, gate-never-opens
#[test]
fn gate_opens_after_as_many_reads_without_a_write() {
    let _running = deadline();
    let lock = RawRw::<OpensAfterThree>::new();
    for _ in 0..3 {
        read(&lock, 2, Timeout::Never);
        assert!(!lock.is_open(), "too few reads");
        write(&lock);
    }
    read(&lock, 3, Timeout::Never);
    assert!(lock.is_open());
    write(&lock);
    assert!(!lock.is_open());
}

#[test]
fn gate_of_a_new_lock_opens_after_some_reads() {
    let _running = deadline();
    let lock = RawRw::<DefaultPolicy>::new();
    // Each of them may be a sample.
    read(&lock, 7, Timeout::Never);
    assert!(!lock.is_open() && !lock.readers.is_allocated());
    until(|| {
        read(&lock, 1000, Timeout::Never);
        lock.is_open() && lock.readers.is_allocated()
    });
}

/// Refutes: tried-read-allocates
#[test]
fn tried_read_does_not_allocate() {
    let lock = RawRw::<OpensAfterThree>::new();
    read(&lock, 10, Timeout::Immediate);
    assert!(!lock.readers.is_allocated());
    read(&lock, 3, Timeout::Never);
    assert!(lock.readers.is_allocated() && lock.is_open());
    // Now tried reads may open the gate.
    write(&lock);
    read(&lock, 3, Timeout::Immediate);
    assert!(lock.is_open());
}

#[test]
fn failed_try_leaves_the_gate_open() {
    let lock = RawRw::<OpensAfterThree>::new();
    read(&lock, 3, Timeout::Never);
    assert!(lock.lock_shared::<false>(Timeout::Never));
    assert!(!lock.lock_exclusive(Timeout::Immediate));
    assert!(lock.is_open());
    lock.unlock_shared();
}

#[test]
fn read_opens_the_gate_for_the_fast_path() {
    // An interrupt makes a try fail.
    let is_fast = |counters: &CpuCounters<2>| (0..1000).any(|_| counters.try_add(LOCKS, 0));
    let counters = CpuCounters::new();
    assert!(counters.prepare_for(fence::backend() == fence::Backend::Membarrier));
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
