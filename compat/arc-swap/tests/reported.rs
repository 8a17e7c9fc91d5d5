//! Programs that fail on releases of arc-swap with a bug that was reported there, by its number. `ci/arc-swap.sh` runs each
//! on such a release, where it must fail, and on this package: that of 214 fails always, that of 210 in some seconds, those
//! of 198 and 203 in Miri with some seeds. Without a number, all run. There is no test harness, which Miri would interpret
//! for longer than the programs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapWeak};

const PROGRAMS: [(&str, fn()); 4] = [("198", bug_198), ("203", bug_203), ("210", bug_210), ("214", bug_214)];

fn main() {
    let numbers: Vec<_> = std::env::args().skip(1).filter(|number| !number.starts_with('-')).collect();
    for (number, program) in PROGRAMS {
        if numbers.is_empty() || numbers.iter().any(|wanted| wanted == number) {
            program();
            println!("bug {number}: not here");
        }
    }
}

/// A load beside stores of two threads, which help it, returned a value that had been freed.
fn bug_198() {
    for _ in 0..20 {
        let cell = ArcSwap::from_pointee(0);
        load_beside_stores(&cell, &cell, 2, 1);
    }
}

/// The same beside stores of one thread: if all fast slots were in use, the load of the pointer was not in the order of the
/// `SeqCst` operations, so it returned an old pointer.
fn bug_203() {
    load_beside_stores(&ArcSwap::from_pointee(0), &ArcSwap::from_pointee(0), 1, 10);
}

/// The loads are of a thread that holds guards of `held`.
fn load_beside_stores(cell: &ArcSwap<usize>, held: &ArcSwap<usize>, writers: usize, stores: usize) {
    let waiting = AtomicUsize::new(1 + writers);
    // Orders nothing, and all begin at nearly the same time.
    let meet = || {
        waiting.fetch_sub(1, Relaxed);
        while waiting.load(Relaxed) != 0 {
            std::hint::spin_loop();
        }
    };
    thread::scope(|s| {
        for _ in 0..writers {
            s.spawn(|| {
                let values: Vec<_> = (1..=stores).map(Arc::new).collect();
                // Registers the thread.
                assert_eq!(**cell.load(), 0);
                meet();
                values.into_iter().for_each(|value| cell.store(value));
            });
        }
        // arc-swap has eight fast slots.
        let _held: Vec<_> = (0..8).map(|_| held.load()).collect();
        meet();
        for _ in 0..stores {
            let loaded = [(); 3].map(|()| cell.load());
            assert!(loaded.iter().all(|value| ***value <= stores));
        }
    });
}

/// A load returned the value of another cell, of another type, if the address of the value that it had just loaded was
/// freed and used again there. Allocators do that in the writer here.
fn bug_210() {
    const OURS: u64 = 0x0123_4567_89ab_cdef;
    let (readers, spinners, time) =
        if cfg!(miri) { (1, 0, Duration::ZERO) } else { (4, 8, Duration::from_secs(2)) };
    let numbers = ArcSwap::from_pointee(OURS);
    let floats = ArcSwap::from_pointee(0.5_f64);
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..readers {
            s.spawn(|| {
                while !done.load(Relaxed) {
                    assert_eq!(**numbers.load(), OURS, "the value of another cell");
                }
            });
        }
        // So readers lose their CPU within loads.
        for _ in 0..spinners {
            s.spawn(|| {
                while !done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let begin = Instant::now();
        loop {
            for _ in 0..10 {
                numbers.store(Arc::new(OURS));
                floats.store(Arc::new(0.5));
            }
            if begin.elapsed() >= time {
                break;
            }
        }
        done.store(true, Relaxed);
    });
}

/// A store of a weak pointer paid the guard of a strong one to the same value, which has the same address.
fn bug_214() {
    let value = Arc::new(1);
    let strong = ArcSwap::new(Arc::clone(&value));
    let weak = ArcSwapWeak::new(Arc::downgrade(&value));
    let guard = strong.load();
    weak.store(Weak::new());
    drop(guard);
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (2, 0), "wrong counts");
}
