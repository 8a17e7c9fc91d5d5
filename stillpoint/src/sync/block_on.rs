//! Blocks a thread until a poll succeeds or a time limit is reached; and calls wakers of the program.

use core::mem;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Wake;

use super::{Futex32, Ordering::Relaxed, now, step};

/// Wakes the thread. Not by [`thread::unpark`](std::thread::Thread::unpark): a thread's only unpark token belongs to
/// the program.
struct Signal(Futex32);

const QUIET: u32 = 0;
const WOKEN: u32 = 1;

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        // Relaxed: publishes nothing, see `block_on`. Stored before the wake-up, for a thread that does not sleep yet.
        step!("notification-not-published", self.0.store(WOKEN, Relaxed));
        self.0.wake(1);
    }
}

/// Blocks until `is_ready` returns `true`, or [`now`] is `until`. Returns `true` if it was ready.
///
/// Calls `is_ready` at once, and again after each call of its waker. `is_ready` must order itself after the change that
/// it is woken for, as a function that takes a lock does.
pub fn block_on(until: Option<u64>, mut is_ready: impl FnMut(&Waker) -> bool) -> bool {
    let signal = Arc::new(Signal(Futex32::new(QUIET)));
    let waker = Waker::from(Arc::clone(&signal));
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
    if wakers.len() > 1 {
        let of_thread = Waker::from(Arc::new(Signal(Futex32::new(QUIET))));
        wakers.sort_by_key(|waker| waker.vtable() != of_thread.vtable());
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
