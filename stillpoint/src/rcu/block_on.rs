//! A thread that sleeps until what it polls is ready, or its time is up.

use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;

use crate::sync::{Futex32, Ordering::Relaxed, now, step};

/// Wakes the thread. Not [`thread::unpark`](std::thread::Thread::unpark): a thread has one token for all that may unpark it, and that
/// belongs to the program.
struct Signal(Futex32);

const QUIET: u32 = 0;
const WOKEN: u32 = 1;

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        // Relaxed: carries nothing, see `block_on`. Before the wake-up, for a thread that does not sleep yet.
        step!("signal-not-shown", self.0.store(WOKEN, Relaxed));
        self.0.wake(1);
    }
}

/// Sleeps until `is_ready`, which is called again after each wake-up of its waker; but no longer than until
/// [`now`] is `until`. Whether it was ready.
///
/// `is_ready` must order itself after the change that it was woken for, as one that takes a lock does.
pub fn block_on(until: Option<u64>, mut is_ready: impl FnMut(&Waker) -> bool) -> bool {
    let signal = Arc::new(Signal(Futex32::new(QUIET)));
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        // Relaxed, here and below: `is_ready` looks for itself.
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
