//! Futures that tests poll, and an executor.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Counts its wake-ups.
#[derive(Debug, Default)]
pub struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Release);
    }
}

impl Wakes {
    pub fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::<Self>::default();
        (wakes.clone(), wakes.into())
    }

    pub fn get(&self) -> usize {
        self.0.load(Acquire)
    }
}

/// Returns a waker that calls `f`.
pub fn waker(f: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Calls<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
        fn wake(self: Arc<Self>) {
            self.0();
        }
    }

    Arc::new(Calls(f)).into()
}

pub fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A minimal executor, which polls only when it is woken.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Unpark(Thread, AtomicBool);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Release);
            self.0.unpark();
        }
    }

    let woken = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let mut future = pin!(future.into_future());
    loop {
        if let Poll::Ready(value) = poll(&mut future, &woken.clone().into()) {
            return value;
        }
        while !woken.1.swap(false, Acquire) {
            thread::park();
        }
    }
}
