//! The signal backend: what user-space RCU did before `membarrier(2)`.
//!
//! A thread is known from [`register`] until it ends. [`fence`] asks each known thread, by a flag and a signal; the handler
//! executes a full fence and answers by counting down; the last answer wakes the sender. A thread that is not known
//! executes real fences.
//!
//! # Invariants
//!
//! 1. `THREADS` is locked while threads are asked and until all have answered. A thread takes itself off the list before it
//!    ends, under the lock, with the signal still deliverable: so every thread that is asked can answer.
//! 2. One heavy fence runs at a time ([`super::TURNS`]), so `UNANSWERED` has one user.
//! 3. Whoever clears a thread's `asked` answers for it, once: a signal that somebody else sent answers nothing.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::num::NonZeroU32;
use core::ptr;
use core::sync::atomic::{self, AtomicBool, AtomicI32, Ordering::*};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::sync::{ForkSafe, Futex};
use crate::sys::{at_exit::AtThreadExit, signal};

/// What the sender and the handler of a known thread share.
type Asked = AtomicBool;

/// The known threads: id, and flag in the thread's own storage, which outlives its place in the list (1).
static THREADS: ForkSafe<Mutex<Vec<Known>>> = ForkSafe::new(Mutex::new(Vec::new()));

#[derive(Debug)]
struct Known {
    tid: i32,
    asked: *const Asked,
}

// SAFETY: the flag is atomic, and valid while the thread is on the list.
unsafe impl Send for Known {}

/// Answers the sender still waits for, and one more while it asks.
static UNANSWERED: Futex = Futex::new(0);

/// The signal in use.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

static AT_EXIT: AtThreadExit = AtThreadExit::new(forget);

thread_local! {
    static KNOWN: Cell<bool> = const { Cell::new(false) };
    static ASKED: Asked = const { AtomicBool::new(false) };
}

fn threads() -> MutexGuard<'static, Vec<Known>> {
    // Nothing that runs under the lock leaves the list half-changed.
    THREADS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler; the signal.
pub(super) fn install() -> io::Result<i32> {
    // SAFETY: the handler executes a fence, atomic operations and a system call.
    let signal = unsafe { signal::claim(on_signal) }?;
    SIGNAL.store(signal, Relaxed);
    Ok(signal)
}

extern "C" fn on_signal(_signal: c_int) {
    // The fence this is all about: what the interrupted thread did comes before what it does from here on.
    atomic::fence(SeqCst);
    ASKED.with(answer);
}

/// Answers, if the thread was asked.
fn answer(asked: &Asked) {
    // Acquire: the count includes this thread; partner: the Release in `fence`.
    if asked.swap(false, Acquire) {
        // Release: partner is the Acquire in `fence`, of the whole chain of answers.
        if UNANSWERED.fetch_sub(1, Release) == 1 {
            UNANSWERED.wake(1, NonZeroU32::MAX);
        }
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
    let asked = ASKED.with(ptr::from_ref);
    // Until here the thread executed real fences. The lock orders them before or after a heavy fence that did not ask.
    threads().push(Known { tid: signal::tid(), asked });
    KNOWN.set(true);
    true
}

/// The child of a fork has only the thread that forked, under another id.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not in the middle of another function here when it forked.
pub(super) unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to the list live no longer than a call of a function.
    unsafe { THREADS.overwrite(Mutex::new(Vec::new())) };
    // The parent's thread answers (3).
    ASKED.with(|asked| asked.store(false, Relaxed));
    if KNOWN.get() {
        let mut threads = threads();
        // Without memory it executes real fences.
        KNOWN.set(threads.try_reserve(1).is_ok());
        if KNOWN.get() {
            threads.push(Known { tid: signal::tid(), asked: ASKED.with(ptr::from_ref) });
        }
    }
}

/// Takes the calling thread off the list, at its end. From then on it executes real fences.
unsafe extern "C" fn forget(_: *mut c_void) {
    let own = signal::tid();
    KNOWN.set(false);
    threads().retain(|known| known.tid != own);
}

/// A full fence on every known thread, and on this one.
pub(super) fn fence() {
    atomic::fence(SeqCst);
    let signal = SIGNAL.load(Relaxed);
    let own = signal::tid();
    let threads = threads();
    let others = threads.iter().filter(|known| known.tid != own);
    // One more than there are, so that nobody wakes us before all have been asked.
    UNANSWERED.store(others.clone().count() as u64 + 1, Relaxed);
    let mut failure = None;
    for known in others {
        // SAFETY: the thread is on the list (1).
        let asked = unsafe { &*known.asked };
        // Release: partner is the Acquire in `answer`.
        asked.store(true, Release);
        if let Err(error) = send(known.tid, signal) {
            // A thread that is no more needs no fence: it ended without its destructors. Any other failure we report once
            // all who were asked have answered.
            failure = failure.or((error.raw_os_error() != Some(libc::ESRCH)).then_some(error));
            answer(asked);
        }
    }
    let mut left = UNANSWERED.fetch_sub(1, Acquire) - 1;
    while left != 0 {
        UNANSWERED.wait(left, NonZeroU32::MAX);
        // Acquire: the answers, and what those threads did before, come before what we do next.
        left = UNANSWERED.load(Acquire);
    }
    drop(threads);
    if let Some(error) = failure {
        panic!("signal {signal}, on which the fence backend relies, cannot be sent: {error}");
    }
}

/// Sends the signal; waits while the system has no room for another (`RLIMIT_SIGPENDING`).
fn send(tid: i32, signal: c_int) -> io::Result<()> {
    loop {
        match signal::send(tid, signal) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => thread::yield_now(),
            sent => return sent,
        }
    }
}
