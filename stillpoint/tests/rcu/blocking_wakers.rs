//! Wakers that block.

use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu::GracePeriod;
use support::deadline::deadline;

stillpoint::domain! { struct Own; }

const LONG: Duration = Duration::from_secs(3600);

/// Waits by itself until the future is ready.
fn wait(future: impl Future<Output = ()>) {
    let (woken, wakes) = channel();
    let wake = waker(move || _ = woken.send(()));
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&wake)).is_pending() {
        wakes.recv().expect("it is called");
    }
}

/// Calls its function.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

fn waker(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Calls(f)).into()
}

/// Returns a waker that reports its call, and then blocks until the sender is dropped.
fn blocking(called: Sender<()>) -> (Waker, Sender<()>) {
    let (stays, stay) = channel();
    let stay = Mutex::new(stay);
    let waker = waker(move || {
        called.send(()).expect("the test listens");
        let _ = stay.lock().expect("no panic").recv();
    });
    (waker, stays)
}

/// A future of the same grace period may wait, but no thread, and no future of another one.
#[test]
fn waker_that_blocks_delays_no_timed_wait_and_no_later_grace_period() {
    let _running = deadline();
    let (called, calls) = channel();
    let (waker, stays) = blocking(called);
    let (inside, begins) = channel();
    let (section, ends) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let guard = Own::enter();
            inside.send(()).expect("the test listens");
            let _ = ends.recv();
            drop(guard);
        });
        begins.recv().expect("it begins");
        let period = GracePeriod::now_in(Own);
        let mut future = pin!(period.into_future());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let timed = scope.spawn(move || period.wait_timeout(LONG));
        // Both wait by now, or the second one comes when the waker blocks.
        assert!(!period.wait_timeout(Duration::from_millis(20)));
        drop(section);
        calls.recv().expect("the waker is called");
        for _ in 0..10 {
            assert!(GracePeriod::now_in(Own).wait_timeout(LONG));
            wait(GracePeriod::now_in(Own).into_future());
        }
        assert!(timed.join().expect("no panic"));
        drop(stays);
    });
}

#[test]
fn waker_may_wait_for_a_grace_period() {
    let _running = deadline();
    let (sender, results) = channel();
    let waker = waker(move || {
        let result = GracePeriod::now_in(Own).wait_timeout(LONG);
        sender.send(result).expect("the test listens");
    });
    let mut future = pin!(GracePeriod::now_in(Own).into_future());
    if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        assert!(results.recv().expect("it is called"));
    }
}

/// A future of the same round may wait, but no callback, and no barrier that begins later.
fn barrier_waker_delays_no_callbacks(call: fn()) {
    let _running = deadline();
    let (called, calls) = channel();
    let (waker, stays) = blocking(called);
    // The callback may run before the first poll.
    let _future = loop {
        Own.call(call);
        let mut future = Box::pin(Own.barrier_async());
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            break future;
        }
    };
    calls.recv().expect("the waker is called");
    for _ in 0..10 {
        let (sender, ran) = channel();
        Own.call(move || sender.send(()).expect("the test listens"));
        ran.recv().expect("it runs");
        Own.barrier();
        Own.call(call);
        wait(Own.barrier_async());
    }
    drop(stays);
}

#[test]
fn waker_of_a_barrier_that_blocks_delays_no_callbacks() {
    barrier_waker_delays_no_callbacks(|| ());
}

/// The worker has more to do when the barrier ends.
#[test]
fn waker_of_a_barrier_that_blocks_delays_no_busy_worker() {
    barrier_waker_delays_no_callbacks(|| Own.call(|| ()));
}
