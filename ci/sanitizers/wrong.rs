//! Programs that are right, or wrong in one step, for sanitizers to tell apart: see `ci/sanitizers.sh`.

use std::cell::UnsafeCell;
use std::env;
use std::mem;
use std::process::ExitCode;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::thread;

use stillpoint::lock::Mutex;
use stillpoint::percpu::Pool;
use stillpoint::rcu::Rcu;
use stillpoint::{fence, rcu};

/// A program, which takes the step or leaves it out.
type Program = fn(bool);

/// The programs, by the name of the step.
const STEPS: [(&str, Program); 5] = [
    ("grace-period", reads_while_it_is_freed),
    ("release", leaves_a_section),
    ("lock", adds_under_a_lock),
    ("free", keeps_a_value),
    ("ownership", hands_a_box_over),
];

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let (step, how) = (arguments.next(), arguments.next());
    let run = STEPS.iter().find(|(name, _)| Some(*name) == step.as_deref());
    match (run, how.as_deref()) {
        (Some((_, run)), Some("taken")) => run(true),
        (Some((_, run)), Some("left-out")) => run(false),
        _ => {
            let names = STEPS.map(|(name, _)| name).join("|");
            eprintln!("usage: wrong {names} taken|left-out");
            return ExitCode::from(2);
        }
    }
    println!("ended");
    ExitCode::SUCCESS
}

/// A reader looks at a value that a writer frees: after a grace period, or at once.
fn reads_while_it_is_freed(waits: bool) {
    let published = AtomicPtr::new(Box::into_raw(Box::new(1_u64)));
    let (inside, freed) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        // Relaxed, as everywhere here: nothing but the grace period is to order reader and writer.
        let reader = scope.spawn(|| {
            let guard = rcu::enter();
            let value = published.load(Acquire);
            inside.store(true, Relaxed);
            // Until the writer has gone as far as he goes while the section is open.
            while !freed.load(Relaxed) && rcu::stats().sleeps == 0 {
                thread::yield_now();
            }
            // SAFETY: the section is open; or none, that is what is to be found.
            let seen = unsafe { value.read_volatile() };
            drop(guard);
            seen
        });
        while !inside.load(Relaxed) {
            thread::yield_now();
        }
        let old = published.swap(ptr::null_mut(), AcqRel);
        if waits {
            rcu::synchronize();
        }
        // SAFETY: it came from a box; nobody uses it any more, or, without waiting, as above.
        drop(unsafe { Box::from_raw(old) });
        freed.store(true, Relaxed);
        let _ = reader.join();
    });
}

/// A word that one thread at a time uses.
struct Word(UnsafeCell<u64>);

// SAFETY: whoever uses it says why nobody else does.
unsafe impl Sync for Word {}

impl Word {
    /// Changes the word.
    ///
    /// # Safety
    ///
    /// Nobody else uses it.
    unsafe fn add(&self) {
        // SAFETY: the caller's contract.
        unsafe { *self.0.get() += 1 };
    }
}

/// What the library's readers and writers do, by hand: a section between fences, left by a store with or without release.
fn leaves_a_section(releases: bool) {
    let (word, state) = (Word(UnsafeCell::new(0)), AtomicU32::new(1));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            fence::register_thread();
            fence::light();
            // SAFETY: the writer waits for `state`.
            unsafe { word.add() };
            state.store(0, if releases { Release } else { Relaxed });
        });
        fence::heavy();
        while state.load(Acquire) != 0 {
            thread::yield_now();
        }
        // SAFETY: the reader has left; without the release that is not what the language says.
        unsafe { word.add() };
        let _ = reader.join();
    });
}

/// Threads that add to a word, all of them under the lock, or all but one.
fn adds_under_a_lock(locks: bool) {
    let (word, lock) = (Word(UnsafeCell::new(0)), Mutex::new(()));
    thread::scope(|scope| {
        let adders: Vec<_> = (0..4)
            .map(|thread| {
                let (word, lock) = (&word, &lock);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _guard = (locks || thread != 0).then(|| lock.lock());
                        // SAFETY: under the lock; or not, that is what is to be found.
                        unsafe { word.add() };
                    }
                })
            })
            .collect();
        adders.into_iter().for_each(|adder| drop(adder.join()));
    });
}

/// Values that are replaced, and what was deferred in all the ways; one of them is never freed.
fn keeps_a_value(frees: bool) {
    let cell = Rcu::new(vec![1_u64; 100]);
    for number in 0..100 {
        let old = cell.replace(vec![number; 100]);
        if frees || number != 50 {
            drop(old);
        } else {
            mem::forget(old);
        }
        rcu::retire(Box::new(number));
    }
    rcu::barrier();
}

/// A box that goes through a pool from one thread to another, which frees it; the first keeps a reference, and uses it
/// before, or after.
fn hands_a_box_over(before: bool) {
    let pool = Arc::new(Pool::new(4));
    let value = Box::new(7_u64);
    let kept = ptr::from_ref(&*value);
    let look = || {
        // SAFETY: it is there still; or not, that is what is to be found.
        unsafe { kept.read_volatile() };
    };
    if before {
        look();
    }
    assert!(pool.push(value).is_ok());
    let other = Arc::clone(&pool);
    let _ = thread::spawn(move || drop(other.pop())).join();
    if !before {
        look();
    }
}
