//! Programs that fail on releases of arc-swap with a bug that was reported there, by its number. `ci/arc-swap.sh`
//! runs each on such a release, where it must fail, and on this package: those of 210 and 214 fail always, those of
//! 198 and 203 in Miri with some seeds. Without a number, all run. There is no test harness, which Miri would
//! interpret for longer than the programs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
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

/// The same beside stores of one thread: if all fast slots were in use, the load of the pointer was not in the order
/// of the `SeqCst` operations, so it returned an old pointer.
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

/// A load returned the value of another cell, of another type: the address of the value that it had just loaded was
/// freed and used again there, and a store to that cell paid the load's debt. The thread that loads stops after each
/// instruction, until another one has stored to both cells.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn bug_210() {
    const OURS: u64 = 0x0123_4567_89ab_cdef;
    /// How long after a value was freed its address is stored: in instructions of the load.
    const WINDOW: usize = 64;
    /// Stores that wait for the load take long beside other programs. On the release the bug is found in a second.
    const TIME: Duration = Duration::from_secs(10);
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    static DONE: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn after_instruction(_signal: libc::c_int) {
        let step = STEPS.load(Relaxed);
        // A store may wait for the load to end: the load then goes on, and waits for no store until that one is done.
        if DONE.load(Acquire) == step {
            STEPS.store(step + 1, Release);
            let begin = Instant::now();
            while DONE.load(Acquire) == step && begin.elapsed() < Duration::from_millis(50) {
                thread::yield_now();
            }
        }
    }

    /// Begins, or ends, to trap after each instruction.
    fn toggle_trap_flag() {
        // SAFETY: changes a flag of the thread. The handler of the trap calls nothing that the thread may be inside.
        unsafe { std::arch::asm!("pushfq", "xor qword ptr [rsp], 0x100", "popfq") };
    }

    let (numbers, floats) = (ArcSwap::from_pointee(OURS), ArcSwap::from_pointee(0.5_f64));
    let is_over = AtomicBool::new(false);
    // Registers the thread.
    drop(numbers.load());
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGTRAP, after_instruction as extern "C" fn(_) as libc::sighandler_t) };
    let store = || {
        let (mut reused, begin) = (VecDeque::new(), Instant::now());
        for step in 1.. {
            while STEPS.load(Acquire) < step {
                if is_over.load(Relaxed) {
                    return;
                }
                thread::yield_now();
            }
            // The allocator uses the address that this frees for the next value.
            numbers.store(Arc::new(OURS));
            reused.push_back(Arc::new(0.5));
            reused.drain(..reused.len().saturating_sub(WINDOW));
            reused.iter().for_each(|value| floats.store(Arc::clone(value)));
            floats.store(Arc::new(0.5));
            DONE.store(step, Release);
            if begin.elapsed() > TIME {
                return;
            }
        }
    };
    let loaded = thread::scope(|s| {
        s.spawn(store);
        toggle_trap_flag();
        let loaded = numbers.load();
        toggle_trap_flag();
        is_over.store(true, Relaxed);
        loaded
    });
    assert!(DONE.load(Relaxed) > 1, "nothing was stored meanwhile");
    assert_eq!(**loaded, OURS, "the value of another cell");
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn bug_210() {}

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
