//! A global allocator that uses the library in every call, from the first allocation of the process on: it counts per
//! CPU, and reads.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "elsewhere than on Linux an allocator may not wait")
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use stillpoint::percpu::{self, Counter, Histogram};
use stillpoint::rcu::RcuOption;
use support::prelude::*;

stillpoint::domain! { struct Own; }

static SLEEPABLE: srcu::Domain = srcu::Domain::new();
static NUMBERS: RcuOption<[usize]> = RcuOption::empty();
static COUNTED: Counter = Counter::new();
static SIZES: Histogram = Histogram::new();
/// For comparison.
static EXPECTED: AtomicU64 = AtomicU64::new(0);

struct Using;

impl Using {
    /// Begins nested read-side critical sections, one in each kind of domain.
    fn read() {
        let outer = rcu::enter();
        let sleepable = SLEEPABLE.enter();
        let inner = Own::enter();
        if let Some(numbers) = NUMBERS.load(&outer) {
            assert!(numbers.iter().all(|number| *number == numbers.len()));
        }
        drop((outer, sleepable, inner));
    }
}

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Using {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        #[cfg(not(stillpoint_portable))]
        Self::read();
        COUNTED.add(1);
        SIZES.record(layout.size() as u64);
        EXPECTED.fetch_add(1, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        #[cfg(not(stillpoint_portable))]
        Self::read();
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Using = Using;

#[cfg(not(stillpoint_portable))]
#[test]
fn allocator_may_read_in_every_call() {
    if child::variant().is_none() {
        for backend in backends!().iter().chain(&["none of these"]) {
            child::run(allocator_may_read_in_every_call, backend, Some(backend));
        }
        return;
    }
    let _running = deadline();
    // More concurrent threads than two chunks of the registry have readers.
    const THREADS: usize = 100;
    let value = Rcu::new(Box::new(0));
    let all = Barrier::new(THREADS);
    in_threads(THREADS, |round| {
        all.wait();
        (0..100).for_each(|size| drop(black_box(Vec::<u8>::with_capacity(size))));
        drop(value.replace(Box::new(round)));
        drop(NUMBERS.swap((round % 5 > 0).then(|| vec![round; round].into())));
        if round % 10 == 0 {
            rcu::synchronize();
            SLEEPABLE.synchronize();
            SLEEPABLE.call(|| drop(black_box(Box::new(1))));
        }
    });
    rcu::barrier();
    SLEEPABLE.barrier();
    assert!(EXPECTED.load(Relaxed) > 50 * THREADS as u64);
    assert!(!rcu::in_read_section());
}

#[test]
fn allocator_may_count_in_every_call() {
    alone!(in each variant);
    in_threads(4, |_| {
        // A thread's first allocation may be for its registration.
        percpu::register_thread();
        (0..1000).for_each(|size| drop(black_box(Vec::<u8>::with_capacity(size))));
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
