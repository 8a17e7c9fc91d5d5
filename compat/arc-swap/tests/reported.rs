//! The shapes of bugs that were reported to arc-swap, by the numbers there. That of 214 shows on each run of a release with
//! the bug; the others are races.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;

use arc_swap::{ArcSwap, ArcSwapWeak};

/// Threads that begin as nearly at once as Miri's scheduler allows. Orders nothing.
struct Start(AtomicUsize);

impl Start {
    fn wait(&self) {
        self.0.fetch_sub(1, Relaxed);
        while self.0.load(Relaxed) != 0 {
            std::hint::spin_loop();
        }
    }
}

/// A reader that loads twice beside two writers, with `held` guards: arc-swap has eight slots that are fast, and another
/// path for more.
fn load_beside_two_stores(held: usize) {
    let shared = ArcSwap::from_pointee(0_usize);
    let _held: Vec<_> = (0..held).map(|_| shared.load()).collect();
    let start = Start(AtomicUsize::new(3));
    thread::scope(|s| {
        for number in [1, 2] {
            let (shared, start) = (&shared, &start);
            s.spawn(move || {
                start.wait();
                shared.store(Arc::new(number));
            });
        }
        start.wait();
        let (first, second) = (shared.load(), shared.load());
        // Two stores: a third value would be one that comes back.
        if **first != **second && **first != 0 {
            assert_eq!(**second, **shared.load());
        }
    });
}

#[test]
fn bug_198_loads_beside_two_stores_on_the_slow_path() {
    load_beside_two_stores(8);
}

#[test]
fn bug_203_loads_beside_two_stores_on_the_fast_path() {
    load_beside_two_stores(0);
}

/// A weak and a strong pointer to one value have the same address.
#[test]
fn bug_214_weak_store_leaves_strong_guards_alone() {
    let value = Arc::new(1);
    let strong = ArcSwap::new(Arc::clone(&value));
    let weak = ArcSwapWeak::new(Arc::downgrade(&value));
    let guard = strong.load();
    weak.store(Weak::new());
    drop(guard);
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (2, 0));
}

/// Two cells of different types: what was freed in one has its address used again in the other, beside loads of both.
#[test]
fn bug_210_loads_return_values_of_their_own_cell() {
    const OURS: u64 = 0x0123_4567_89ab_cdef;
    let rounds = if cfg!(miri) { 10 } else { 20_000 };
    let numbers = ArcSwap::from_pointee(OURS);
    let floats = ArcSwap::from_pointee(0.5_f64);
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..rounds {
                numbers.store(Arc::new(OURS));
                floats.store(Arc::new(0.5));
            }
        });
        for _ in 0..rounds {
            assert_eq!(**numbers.load(), OURS);
            assert_eq!(**floats.load(), 0.5);
        }
    });
}
