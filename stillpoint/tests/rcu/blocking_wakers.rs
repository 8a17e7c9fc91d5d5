//! Wakers that block.

use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use stillpoint::rcu::GracePeriod;
use support::deadline::deadline;

stillpoint::domain! { struct Own; }

const LONG: Duration = Duration::from_secs(3600);

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
        assert!(period.wait_timeout(Duration::from_millis(20)).is_err());
        drop(section);
        calls.recv().expect("the waker is called");
        for _ in 0..10 {
            assert_eq!(GracePeriod::now_in(Own).wait_timeout(LONG), Ok(()));
            let (woken, wakes) = channel();
            let wake = self::waker(move || woken.send(()).expect("the test listens"));
            let mut future = pin!(GracePeriod::now_in(Own).into_future());
            while future.as_mut().poll(&mut Context::from_waker(&wake)).is_pending() {
                wakes.recv().expect("it is called");
            }
        }
        assert_eq!(timed.join().expect("no panic"), Ok(()));
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
        assert_eq!(results.recv().expect("it is called"), Ok(()));
    }
}
