//! Per-CPU data without memory.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::ptr;
use std::thread;

use stillpoint::percpu::{self, Counter, Histogram, Pool};
use support::panics::message;

/// Refuses memory to threads that have set [`EXHAUSTED`].
struct Exhaustible;

thread_local! {
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator, or null, which is allowed at any time.
unsafe impl GlobalAlloc for Exhaustible {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if EXHAUSTED.get() {
            return ptr::null_mut();
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Exhaustible = Exhaustible;

/// Calls `f` while this thread gets no memory.
fn without_memory<R>(f: impl FnOnce() -> R) -> R {
    EXHAUSTED.set(true);
    let result = f();
    EXHAUSTED.set(false);
    result
}

#[test]
fn add_without_memory_counts() {
    let (counter, histogram) = (Counter::<u64>::new(), Histogram::new());
    without_memory(|| {
        // The choice of the mode needs memory too.
        counter.prepare();
        for _ in 0..1000 {
            counter.add(1);
            histogram.record(5);
        }
        assert_eq!(counter.sum(), 1000);
        assert!(percpu::cpu() < 1 << 16);
    });
    // With memory, and in threads that always had memory.
    thread::scope(|scope| {
        scope.spawn(|| (0..1000).for_each(|_| counter.add(1)));
        scope.spawn(|| without_memory(|| (0..1000).for_each(|_| counter.add(1))));
    });
    histogram.record(5);
    assert_eq!(counter.sum(), 3000);
    assert_eq!(histogram.snapshot().count(), 1001);
    assert_eq!(counter.sum(), 3000);
}

#[test]
fn pool_without_memory_panics() {
    percpu::report();
    // A panic needs memory itself, so here the size is the reason.
    let panic = catch_unwind(|| Pool::<u64>::new(usize::MAX / 64)).expect_err("there is less memory");
    let message = message(&*panic);
    assert!(message.contains("there is memory for per-CPU data"), "{message}");
}
