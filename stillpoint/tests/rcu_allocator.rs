//! A global allocator that reads in every call, from the first allocation of the process on.
// Elsewhere than on Linux an allocator may not wait.
#![cfg(not(any(loom, stillpoint_portable)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::{Rcu, RcuOption};
use stillpoint::{rcu, srcu};
use support::backends;
use support::child;
use support::deadline::deadline;

stillpoint::domain! { struct Own; }

static SLEEPABLE: srcu::Domain = srcu::Domain::new();
static NUMBERS: RcuOption<[usize]> = RcuOption::empty();
static CALLS: AtomicU64 = AtomicU64::new(0);

struct Reading;

impl Reading {
    /// Begins nested read-side critical sections, one in each kind of domain.
    fn read() {
        let outer = rcu::enter();
        let sleepable = SLEEPABLE.enter();
        let inner = <Own as rcu::RcuDomain>::enter();
        CALLS.fetch_add(1, Relaxed);
        if let Some(numbers) = NUMBERS.load(&outer) {
            assert!(numbers.iter().all(|number| *number == numbers.len()));
        }
        drop((outer, sleepable, inner));
    }
}

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Reading {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::read();
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::read();
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Reading = Reading;

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
    thread::scope(|scope| {
        for round in 0..THREADS {
            let (all, value) = (&all, &value);
            scope.spawn(move || {
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
        }
    });
    rcu::barrier();
    SLEEPABLE.barrier();
    assert!(CALLS.load(Relaxed) > 100 * THREADS as u64);
    assert!(!rcu::in_read_section());
}
