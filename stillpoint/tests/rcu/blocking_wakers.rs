//! Wakers that block.

use std::pin::{Pin, pin};
use std::sync::Mutex;

use support::futures::waker;
use support::owner::section_elsewhere;
use support::prelude::*;

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

/// Returns a waker that reports its call, and then blocks until the sender is dropped.
fn blocking(called: Sender<()>) -> (Waker, Sender<()>) {
    let (stays, stay) = channel();
    let stay = Mutex::new(stay);
    let waker = waker(move || {
        let _ = called.send(());
        let _ = stay.lock().expect("no panic").recv();
    });
    (waker, stays)
}

/// A future of the same grace period may wait, but no thread, and no future of another one.
#[test]
fn blocked_waker_delays_no_timed_wait_nor_later_grace_period() {
    let _running = deadline();
    let (called, calls) = channel();
    let (waker, stays) = blocking(called);
    let leave = section_elsewhere::<Own>();
    let period = GracePeriod::now_in(Own);
    let mut future = pin!(period.into_future());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    thread::scope(|scope| {
        let timed = scope.spawn(move || period.wait_timeout(LONG));
        // Both wait by now, or the second one comes when the waker blocks.
        assert!(!period.wait_timeout(Duration::from_millis(20)));
        leave();
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
fn blocked_wakers_of_many_domains_delay_another_once() {
    const DOMAINS: usize = if cfg!(miri) { 10 } else { 1000 };
    let _running = deadline();
    // One after the other, they would delay it by ten milliseconds each.
    until_quick(Duration::from_secs(5), || {
        let (wakers, stays): (Vec<_>, Vec<_>) = (0..DOMAINS).map(|_| blocking(channel().0)).unzip();
        let begin = |waker: &Waker| {
            let mut future = GracePeriod::now_in(srcu::Domain::new()).into_future();
            assert!(Pin::new(&mut future).poll(&mut Context::from_waker(waker)).is_pending());
            future
        };
        let futures: Vec<_> = wakers.iter().map(begin).collect();
        assert!(GracePeriod::now_in(srcu::Domain::new()).wait_timeout(LONG));
        drop((stays, futures));
    });
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
