//! The smallest executor that can lose a wake-up: it polls futures that were woken, and no others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

/// The waker of a future, which unparks the thread that polls it.
#[derive(Debug)]
struct Signal {
    woken: AtomicBool,
    thread: Thread,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        // Release: what led to the wake-up comes before the poll; pairs with the Acquire in `block_on_all`.
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs all `futures` on this thread. Calls `ready` with the place of each at the moment it is ready.
pub(super) fn block_on_all<F: Future<Output = ()> + Unpin>(
    futures: impl IntoIterator<Item = F>,
    mut ready: impl FnMut(usize),
) {
    let mut tasks: Vec<_> = futures
        .into_iter()
        .map(|future| {
            let signal = Arc::new(Signal { woken: AtomicBool::new(true), thread: thread::current() });
            Some((future, Waker::from(signal.clone()), signal))
        })
        .collect();
    let mut left = tasks.len();
    while left > 0 {
        let mut idle = true;
        for (place, slot) in tasks.iter_mut().enumerate() {
            let Some((future, waker, signal)) = slot else { continue };
            if !signal.woken.swap(false, Ordering::Acquire) {
                continue;
            }
            idle = false;
            if Pin::new(future).poll(&mut Context::from_waker(waker)).is_ready() {
                *slot = None;
                left -= 1;
                ready(place);
            }
        }
        if idle {
            thread::park();
        }
    }
}
