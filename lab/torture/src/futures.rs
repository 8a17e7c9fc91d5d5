//! The smallest executor that can lose a wake-up: it polls futures that were woken, and no others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
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
        // Release: publishes the cause of the wake-up; pairs with the Acquire in `block_on_all`.
        self.woken.store(true, Release);
        self.thread.unpark();
    }
}

/// Runs all `futures` on this thread. Calls `ready` with the index of each at the moment it is ready.
pub(super) fn block_on_all<F: Future<Output = ()> + Unpin>(
    futures: impl IntoIterator<Item = F>,
    mut ready: impl FnMut(usize),
) {
    let signal = || Arc::new(Signal { woken: AtomicBool::new(true), thread: thread::current() });
    let mut tasks: Vec<_> = futures.into_iter().map(|future| Some((future, signal()))).collect();
    while tasks.iter().any(Option::is_some) {
        let mut idle = true;
        for (index, slot) in tasks.iter_mut().enumerate() {
            let Some((future, signal)) = slot else { continue };
            if !signal.woken.swap(false, Acquire) {
                continue;
            }
            idle = false;
            let waker = Waker::from(signal.clone());
            if Pin::new(future).poll(&mut Context::from_waker(&waker)).is_ready() {
                *slot = None;
                ready(index);
            }
        }
        if idle {
            thread::park();
        }
    }
}
