//! The signal backend: what user-space RCU did before `membarrier(2)`.
//!
//! A thread is known once it has called [`register`], until it ends. [`fence`] sends a signal to each known thread; the
//! handler executes a full fence and counts down; the last one wakes the sender. A thread that is not known executes real
//! fences.
//!
//! # Invariants
//!
//! 1. `THREADS` is locked while signals are sent and until all are answered. A thread takes itself off the list before it
//!    ends, under the lock, with the signal still deliverable: so every thread that was sent a signal answers.
//! 2. One heavy fence runs at a time ([`super::TURNS`]), so `UNANSWERED` has one user.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::num::NonZeroU32;
use core::ptr;
use core::sync::atomic::{self, AtomicI32, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sync::Futex;
use crate::sys::{at_exit::AtThreadExit, signal};

/// Thread ids of the known threads.
static THREADS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Answers the sender still waits for, and one more while it sends.
static UNANSWERED: Futex = Futex::new(0);

/// The signal in use.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

static AT_EXIT: AtThreadExit = AtThreadExit::new(forget);

thread_local! {
    static KNOWN: Cell<bool> = const { Cell::new(false) };
}

fn threads() -> MutexGuard<'static, Vec<i32>> {
    // Nothing that runs under the lock leaves the list half-changed.
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler; the signal.
pub(super) fn install() -> std::io::Result<i32> {
    // SAFETY: the handler executes a fence, an atomic operation and a system call.
    let signal = unsafe { signal::claim(answer) }?;
    SIGNAL.store(signal, Relaxed);
    Ok(signal)
}

extern "C" fn answer(_signal: c_int) {
    // The fence this is all about: what the interrupted thread did happens before what it does from here on, and the
    // countdown tells the sender.
    atomic::fence(SeqCst);
    count_down();
}

fn count_down() {
    // AcqRel: partner is the Acquire load in `fence`, of the whole chain of answers.
    if UNANSWERED.fetch_sub(1, AcqRel) == 1 {
        UNANSWERED.wake(1, NonZeroU32::MAX);
    }
}

/// Whether a compiler fence is a light fence in this thread.
pub(super) fn is_known() -> bool {
    KNOWN.get()
}

/// Makes the calling thread known. False if it cannot be taken off the list at its end: it then executes real fences.
pub(super) fn register() -> bool {
    if KNOWN.get() {
        return true;
    }
    // SAFETY: `forget` ignores its argument; any non-null pointer makes the C library call it.
    if !unsafe { AT_EXIT.arm(ptr::without_provenance_mut(1)) } {
        return false;
    }
    signal::unblock(SIGNAL.load(Relaxed));
    threads().push(signal::tid());
    KNOWN.set(true);
    // Until here the thread executed real fences; from now on it is interrupted. A heavy fence that took the lock before
    // us has ended or has not seen us, and then our fence comes after it.
    atomic::fence(SeqCst);
    true
}

/// Takes the calling thread off the list, at its end.
unsafe extern "C" fn forget(_: *mut c_void) {
    let own = signal::tid();
    KNOWN.set(false);
    atomic::fence(SeqCst);
    threads().retain(|&tid| tid != own);
}

/// A full fence on every known thread, and on this one.
pub(super) fn fence() {
    atomic::fence(SeqCst);
    let signal = SIGNAL.load(Relaxed);
    let threads = threads();
    let own = signal::tid();
    let others = threads.iter().filter(|&&tid| tid != own);
    // One more than there are threads, so that nobody wakes us before all have been sent a signal.
    UNANSWERED.store(others.clone().count() as u64 + 1, Relaxed);
    for &tid in others {
        if !signal::send(tid, signal) {
            // No such thread: the child of a fork has only the thread that forked.
            count_down();
        }
    }
    count_down();
    loop {
        // Acquire: the answers, and what those threads did before, happen before what we do next.
        let left = UNANSWERED.load(Acquire);
        if left == 0 {
            break;
        }
        UNANSWERED.wait(left, NonZeroU32::MAX);
    }
    atomic::fence(SeqCst);
}
