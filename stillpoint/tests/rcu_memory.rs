//! Deferring work when there is no memory.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;
#[path = "support/tracked.rs"]
mod tracked;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use deadline::deadline;
use stillpoint::Domain as _;
use stillpoint::rcu::Rcu;
use tracked::Tracked;

/// Has no memory for threads that ask for none.
struct Exhaustible;

thread_local! {
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator, or a failure, which is allowed at any time.
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

/// Runs `f` with no memory for this thread.
fn without_memory(f: impl FnOnce()) {
    EXHAUSTED.set(true);
    f();
    EXHAUSTED.set(false);
}

/// What is lost is counted for all domains: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counters() -> [&'static AtomicUsize; 2] {
    [(); 2].map(|()| &*Box::leak(Box::default()))
}

/// Entries more than a thread has room for without memory.
const MANY: usize = 200;

#[test]
fn without_memory_outside_sections_entries_that_find_no_room_wait_and_run_in_place() {
    stillpoint::domain! { struct Own; }
    let (_running, _alone) = (deadline(), alone());
    let ([calls, drops], lost) = (counters(), Own.stats().lost);
    // A thread that is registered and one that cannot be.
    for registered in [true, false] {
        std::thread::spawn(move || {
            if registered {
                Own::register();
            }
            let values: Vec<_> = (0..MANY).map(|_| Box::new(Tracked(drops))).collect();
            without_memory(|| {
                for value in values {
                    Own.retire(value);
                    Own.call(move || _ = calls.fetch_add(1, AcqRel));
                    // Too large for an entry.
                    let large = [1; 10];
                    Own.call(move || _ = calls.fetch_add(large[3], AcqRel));
                }
            });
        })
        .join()
        .expect("no panic");
        Own.barrier();
        let rounds = if registered { 1 } else { 2 };
        assert_eq!((calls.load(Acquire), drops.load(Acquire)), (2 * MANY * rounds, MANY * rounds));
    }
    assert_eq!(Own.stats().lost, lost);
}

#[test]
fn without_memory_inside_a_section_entries_that_find_no_room_are_lost_and_counted() {
    stillpoint::domain! { struct Own; }
    let (_running, _alone) = (deadline(), alone());
    let [calls, drops] = counters();
    let values: Vec<_> = (0..MANY).map(|_| Box::new(Tracked(drops))).collect();
    let before = Own.stats().lost;
    let guard = Own::enter();
    without_memory(|| {
        for value in values {
            Own.retire(value);
            let large = [1; 10];
            Own.call(move || _ = calls.fetch_add(large[3], AcqRel));
        }
    });
    let lost = (Own.stats().lost - before) as usize;
    assert_eq!((calls.load(Acquire), drops.load(Acquire)), (0, 0));
    drop(guard);
    Own.barrier();
    assert_eq!(calls.load(Acquire) + drops.load(Acquire) + lost, 2 * MANY);
    assert!(lost >= MANY, "{lost}");
    // Nothing is broken.
    Own.call(|| _ = calls.fetch_add(1, AcqRel));
    Own.barrier();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn barrier_and_grace_periods_need_no_memory() {
    stillpoint::domain! { struct Own; }
    let (_running, _alone) = (deadline(), alone());
    let [calls, drops] = counters();
    let value = Rcu::new_in(Tracked(drops), Own);
    for round in 1..=20 {
        let old = value.replace(Tracked(drops));
        Own.call(|| _ = calls.fetch_add(1, AcqRel));
        without_memory(|| {
            drop(old);
            Own.synchronize();
            Own.barrier();
        });
        assert_eq!((calls.load(Acquire), drops.load(Acquire)), (round, round));
    }
}
