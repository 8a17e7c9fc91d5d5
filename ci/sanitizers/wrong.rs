//! Programs that are correct, or leave out one step, to check what sanitizers report: see `ci/sanitizers.sh`.

use std::cell::UnsafeCell;
use std::env;
use std::mem;
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::thread;

use stillpoint::rcu::Rcu;
use stillpoint::{fence, rcu};

/// A program. Takes the step if the argument is `true`, otherwise leaves it out.
type Program = fn(bool);

/// The programs by the name of the step.
const STEPS: [(&str, Program); 3] =
    [("grace-period", free_under_a_reader), ("release", end_a_section), ("free", retire_values)];

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

/// A reader reads a value that a writer frees: after a grace period, or immediately.
fn free_under_a_reader(waits: bool) {
    let published = AtomicPtr::new(Box::into_raw(Box::new(1_u64)));
    let (inside, freed) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        // Relaxed, as everywhere here: only the grace period may order reader and writer.
        let reader = scope.spawn(|| {
            let guard = rcu::enter();
            let value = published.load(Acquire);
            inside.store(true, Relaxed);
            // Until the writer sleeps in its grace period, or has freed the value.
            while !freed.load(Relaxed) && rcu::stats().sleeps == 0 {
                thread::yield_now();
            }
            // SAFETY: the section protects the value. Without a grace period it does not: the error to report.
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
        // SAFETY: from a box. No reader uses it after a grace period. Without one: the error to report.
        drop(unsafe { Box::from_raw(old) });
        freed.store(true, Relaxed);
        let _ = reader.join();
    });
}

/// A word that one thread at a time uses.
struct Word(UnsafeCell<u64>);

// SAFETY: each use is exclusive, by the contract of `add`.
unsafe impl Sync for Word {}

impl Word {
    /// Increments the word.
    ///
    /// # Safety
    ///
    /// No other thread uses the word at the same time.
    unsafe fn add(&self) {
        // SAFETY: the caller's contract.
        unsafe { *self.0.get() += 1 };
    }
}

/// The protocol of the library's readers and writers: a section between fences. A store ends it, with Release or not.
fn end_a_section(releases: bool) {
    let (word, state) = (Word(UnsafeCell::new(0)), AtomicU32::new(1));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            fence::light();
            // SAFETY: the writer waits for `state`.
            unsafe { word.add() };
            state.store(0, if releases { Release } else { Relaxed });
        });
        fence::heavy();
        while state.load(Acquire) != 0 {
            thread::yield_now();
        }
        // SAFETY: the reader has left. Without Release its use does not happen before this one: the error to report.
        unsafe { word.add() };
        let _ = reader.join();
    });
}

/// Values are replaced and retired: all are freed, or all but one.
fn retire_values(frees: bool) {
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
