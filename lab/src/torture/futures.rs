//! The smallest executor that can lose a wake-up: it polls what was woken, and nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

/// Says that a future was woken, and unparks the thread that polls it.
#[derive(Debug)]
struct Signal {
    woken: AtomicBool,
    thread: Thread,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        // Release: with the swap in `block_on_all`, what led to the wake-up comes before the poll.
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

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    /// Ready at the poll after so many.
    struct After(usize);

    impl Future for After {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.0 == 0 {
                return Poll::Ready(());
            }
            self.0 -= 1;
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        }
    }

    #[test]
    fn each_future_runs_to_its_end() {
        let mut ended = [0; 3];
        block_on_all([After(2), After(0), After(1)], |place| ended[place] += 1);
        assert_eq!(ended, [1, 1, 1]);
    }
}
