//! A global allocator that counts its allocations, from the first allocation of the process.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;

use stillpoint::percpu::{self, Counter, Histogram};
use support::deadline::deadline;
use support::variants::in_each_variant;

static COUNTED: Counter = Counter::new();
static SIZES: Histogram = Histogram::new();
/// For comparison.
static EXPECTED: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTED.add(1);
        SIZES.record(layout.size() as u64);
        EXPECTED.fetch_add(1, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn global_allocator_may_count_allocations() {
    if !in_each_variant(global_allocator_may_count_allocations) {
        return;
    }
    let _running = deadline();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // A thread's first allocation may be for its registration.
                percpu::register_thread();
                (0..1000).for_each(|size| drop(black_box(Vec::<u8>::with_capacity(size))));
            });
        }
    });
    // Repeated until no other thread, such as the harness, allocates in between.
    loop {
        let before = EXPECTED.load(SeqCst);
        let (counted, sized) = (COUNTED.get(), SIZES.snapshot().count());
        let snapshot = 1;
        if EXPECTED.load(SeqCst) == before + snapshot && counted == before {
            assert!((before..=before + snapshot).contains(&sized), "{sized} sizes, {before} allocations");
            assert!(before >= 4 * 999);
            return;
        }
    }
}
