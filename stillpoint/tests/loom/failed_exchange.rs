//! A litmus test, asked for in the review of the kernel's `pvqspinlock` patches: a failed compare-exchange orders
//! nothing.
//!
//! A head stores in its node that it is parked, and then in the lock word that it must be woken. The unlocker finds
//! that in the word, and makes the node's state `HEAD` by a compare-exchange. The exchange may fail on the state from
//! before: then it is a plain load, and the wake-up is lost. The Acquire fence of `Raw::unlock_slow` rules this out.
//!
//! Loom's compare-exchange always reads the newest state, so its failure is written as the load that it is.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;

const LOCKED: u32 = 1;
const PARKED: u32 = 2;
const HEAD: u32 = 0;
const HEAD_PARKED: u32 = 1;

/// Explores all executions without a bound on preemptions, which `model::check` may set to none.
fn explore(has_fence: bool) {
    loom::model(move || {
        let shared = Arc::new((AtomicU32::new(LOCKED), AtomicU32::new(HEAD)));
        let head = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (word, state) = &*shared;
                state.store(HEAD_PARKED, Relaxed);
                word.compare_exchange(LOCKED, LOCKED | PARKED, Release, Relaxed).is_ok()
            })
        };
        let (word, state) = &*shared;
        let must_wake = word.fetch_and(!(LOCKED | PARKED), Release) & PARKED != 0;
        if must_wake && has_fence {
            fence(Acquire);
        }
        let wakes = must_wake
            && state.load(Relaxed) == HEAD_PARKED
            && state.compare_exchange(HEAD_PARKED, HEAD, Relaxed, Relaxed).is_ok();
        assert_eq!(head.join().unwrap(), wakes, "a wake-up is lost");
    });
}

#[test]
fn exchange_after_acquire_wakes_the_parked_head() {
    explore(true);
}

#[test]
#[should_panic(expected = "a wake-up is lost")]
fn exchange_without_acquire_loses_the_wake_up() {
    explore(false);
}
