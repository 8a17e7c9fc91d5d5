//! Barriers: where they would wait for themselves, what they wait for, and their futures.

use std::sync::Mutex;

use support::futures::{Wakes, poll};
use support::prelude::*;

#[test]
fn barrier_in_a_nested_callback_of_its_domain_panics() {
    own!(Outer);
    stillpoint::domain! { struct Inner; }
    let said = Arc::new(Mutex::new(None));
    let has_said = |said: &Mutex<Option<_>>| said.lock().expect("no panic").is_some();
    // The inner domain's worker has no time for them: the retiring thread itself drops some.
    let (says, is_busy, busy) = (Arc::clone(&said), Arc::new(AtomicBool::new(false)), Arc::clone(&said));
    let (begins, said_too) = (Arc::clone(&is_busy), Arc::clone(&said));
    Inner.call(move || {
        begins.store(true, Relaxed);
        until(|| has_said(&busy));
    });
    until(|| is_busy.load(Relaxed));
    Outer.call(move || {
        let own = thread::current().id();
        until(|| {
            let says = Arc::clone(&says);
            // Asks for a barrier of the outer domain, if a callback of that runs on this thread.
            let asks = OnDrop(move || {
                if thread::current().id() == own {
                    let panic = catch_unwind(|| Outer.barrier()).expect_err("inside a callback");
                    *says.lock().expect("no panic") = Some(message(&*panic).to_owned());
                }
            });
            Inner.retire_with(Box::new(asks), DeferOptions::new().run_on_retiring_thread());
            has_said(&said_too)
        });
    });
    Outer.barrier();
    Inner.barrier();
    let said = said.lock().expect("no panic").take().expect("the callback has run");
    assert!(said.starts_with("barrier() inside a callback"), "{said}");
}

#[test]
fn barrier_with_nothing_left_returns_beside_a_leaked_guard() {
    own!(Own);
    let (calls, call) = counter();
    Own.call(call);
    Own.barrier();
    thread::spawn(|| mem::forget(Own::enter())).join().expect("no panic");
    Own.barrier();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn barrier_futures_are_woken_once_after_earlier_callbacks() {
    own!(Own);
    const FUTURES: usize = 1000;
    let (calls, call) = counter();
    let (wakes, waker) = Wakes::new();
    assert!(poll(&mut Own.barrier_async(), &waker).is_ready(), "nothing was deferred");
    let (release, is_released) = mpsc::channel();
    Own.call(move || is_released.recv().expect("it is sent"));
    let mut futures: Vec<_> = (0..FUTURES).map(|_| Own.barrier_async()).collect();
    for future in &mut futures {
        Own.call(call);
        assert!(poll(future, &waker).is_pending());
    }
    // Polled again, it is one future still; dropped, it is none.
    assert!(poll(&mut futures[0], &waker).is_pending());
    drop(futures.pop());
    assert_eq!((calls.load(Acquire), wakes.get()), (0, 0));
    release.send(()).expect("the callback waits");
    until(|| wakes.get() == FUTURES - 1);
    assert_eq!(calls.load(Acquire), FUTURES);
    // The first is served before later callbacks run.
    Own.call(call);
    futures.iter_mut().for_each(|future| assert!(poll(future, &waker).is_ready()));
    Own.barrier();
    assert_eq!(wakes.get(), FUTURES - 1);
}
