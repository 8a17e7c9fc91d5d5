//! Blocks a thread until a poll succeeds or a time limit is reached; and calls wakers of the program.

use core::task::{RawWaker, RawWakerVTable, Waker};
use core::{mem, ptr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Futex32, Ordering::Relaxed, now, step};

/// Wakes the thread. Not by [`thread::unpark`](std::thread::Thread::unpark): a thread's only unpark token belongs to
/// the program.
struct Signal(Futex32);

const QUIET: u32 = 0;
const WOKEN: u32 = 1;

/// The functions of all wakers of [`block_on`], whose data are an [`Arc`] of a [`Signal`]. A static has one address.
/// A table that [`Wake`](std::task::Wake) makes has one in each crate that calls `block_on`.
static OF_THREAD: RawWakerVTable = RawWakerVTable::new(clone, wake_owned, wake_by_ref, release);

/// # Safety
///
/// As for the other functions of the table: the data are of a waker that exists.
unsafe fn clone(signal: *const ()) -> RawWaker {
    // SAFETY: the caller's contract.
    unsafe { Arc::increment_strong_count(signal.cast::<Signal>()) };
    RawWaker::new(signal, &OF_THREAD)
}

/// # Safety
///
/// As for `clone`, and the waker is not used any more.
unsafe fn wake_owned(signal: *const ()) {
    // SAFETY: the caller's contract.
    unsafe {
        wake_by_ref(signal);
        release(signal);
    }
}

/// # Safety
///
/// As for `clone`.
unsafe fn wake_by_ref(signal: *const ()) {
    // SAFETY: the caller's contract.
    let Signal(state) = unsafe { &*signal.cast::<Signal>() };
    // Relaxed: publishes nothing, see `block_on`. Stored before the wake-up, for a thread that does not sleep yet.
    step!("notification-not-published", state.store(WOKEN, Relaxed));
    state.wake(1);
}

/// # Safety
///
/// As for `wake_owned`.
unsafe fn release(signal: *const ()) {
    // SAFETY: the caller's contract.
    drop(unsafe { Arc::from_raw(signal.cast::<Signal>()) });
}

impl Signal {
    fn waker(self: Arc<Self>) -> Waker {
        // SAFETY: the functions of the table may be called by any thread, and count references.
        unsafe { Waker::new(Arc::into_raw(self).cast(), &OF_THREAD) }
    }
}

/// Blocks until `is_ready` returns `true`, or [`now`] is `until`. Returns `true` if it was ready.
///
/// Calls `is_ready` at once, and again after each call of its waker. `is_ready` must order itself after the change
/// that it is woken for, as a function that takes a lock does.
pub fn block_on(until: Option<u64>, mut is_ready: impl FnMut(&Waker) -> bool) -> bool {
    let signal = Arc::new(Signal(Futex32::new(QUIET)));
    let waker = Arc::clone(&signal).waker();
    loop {
        // Relaxed, here and below: `is_ready` orders itself.
        signal.0.store(QUIET, Relaxed);
        if is_ready(&waker) {
            return true;
        }
        while signal.0.load(Relaxed) == QUIET {
            if until.is_some_and(|until| now() >= until) {
                return false;
            }
            signal.0.wait(QUIET, until);
        }
    }
}

/// Calls wakers, outside of locks: first those of [`block_on`], as others are code of the program, and may block.
pub fn wake_all(mut wakers: Vec<Waker>) {
    let mut first = 0;
    for at in 0..wakers.len() {
        if ptr::eq(wakers[at].vtable(), &raw const OF_THREAD) {
            wakers.swap(first, at);
            first += 1;
        }
    }
    wakers.into_iter().for_each(wake);
}

/// Calls a waker, outside of locks. If it panics, the panic hook reports that, and other wakers are still called.
pub fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Its destructor could panic too.
        mem::forget(payload);
    }
}
