//! `srcu` domains whose first use finds no memory, and memory that a dropped domain leaves behind.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, GracePeriod, Rcu};
use stillpoint::srcu::Domain;
use support::deadline::deadline;
use support::panics::message;
use support::until::until;

/// Counts large allocations, and lets them fail in threads that have requested that. Panics need small ones.
struct Watched;

/// The size of a large allocation.
const LARGE: usize = 1024;

static LIVE: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator, or a failure, which is allowed at any time.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if EXHAUSTED.get() && layout.size() >= LARGE {
            return ptr::null_mut();
        }
        LIVE.fetch_add(isize::from(layout.size() >= LARGE), Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(isize::from(layout.size() >= LARGE), Relaxed);
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Serializes the tests, which share the count.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it exists, large allocations of this thread fail.
struct Without;

impl Without {
    fn memory() -> Self {
        EXHAUSTED.set(true);
        Self
    }
}

impl Drop for Without {
    fn drop(&mut self) {
        EXHAUSTED.set(false);
    }
}

#[test]
fn dropped_domain_leaves_no_memory_behind() {
    let (_running, _alone) = (deadline(), alone());
    let round = || {
        let domain = Domain::new();
        let value = Rcu::new_in([0_u8; 2 * LARGE], domain.clone());
        drop(domain.enter());
        // More than one block in each queue.
        for _ in 0..1000 {
            domain.call(|| ());
        }
        drop(value.replace([1; 2 * LARGE]));
        value.replace([1; 2 * LARGE]).wait();
        value.replace([1; 2 * LARGE]).retire_with(DeferOptions::new());
        GracePeriod::start_in(domain.clone());
        domain.retire(Box::new([2_u8; 2 * LARGE]));
    };
    // Allocates what is allocated once per process.
    round();
    let settled = || {
        let mut last = LIVE.load(Relaxed);
        let mut same = 0;
        while same < 1000 {
            thread::yield_now();
            let live = LIVE.load(Relaxed);
            same = if live == last { same + 1 } else { 0 };
            last = live;
        }
        last
    };
    // Once more if the end of another test has allocated.
    until(|| {
        let before = settled();
        (0..50).for_each(|_| round());
        let (begin, is_free) = (Instant::now(), || LIVE.load(Relaxed) <= before);
        // The workers free the domains.
        until(|| is_free() || begin.elapsed() > Duration::from_secs(10));
        is_free()
    });
}

#[test]
fn first_use_without_memory_panics_and_may_be_retried() {
    let (_running, _alone) = (deadline(), alone());
    static DOMAIN: Domain = Domain::new();
    // The report of the panic allocates.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let refused = catch_unwind(|| {
        let _without = Without::memory();
        drop(DOMAIN.enter());
    });
    std::panic::set_hook(hook);
    let panic = refused.expect_err("there is no memory");
    assert!(message(&*panic).contains("no memory for the srcu::Domain"), "{}", message(&*panic));
    drop(DOMAIN.enter());
    DOMAIN.synchronize();
}
