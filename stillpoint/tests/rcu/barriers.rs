//! Barriers: where they would wait for themselves, what they wait for, and their futures.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::ThreadId;
use std::{mem, thread};

use stillpoint::Domain as _;
use stillpoint::rcu::DeferOptions;
use support::callbacks::{LAZY, counter};
use support::deadline::deadline;
use support::futures::{Wakes, poll};
use support::panics::message;
use support::until::until;

#[test]
fn barrier_panics_where_it_would_deadlock() {
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct Other; }
    let _running = deadline();
    Own.call(|| ());
    let guard = Own::enter();
    let panic = catch_unwind(|| Own.barrier()).expect_err("inside a section");
    assert!(
        message(&*panic).starts_with("barrier() inside a read-side critical section"),
        "{}",
        message(&*panic)
    );
    Other.barrier();
    drop(guard);
    let said = Arc::new(Mutex::new(String::new()));
    let says = Arc::clone(&said);
    Own.call(move || {
        let panic = catch_unwind(|| Own.barrier()).expect_err("inside a callback");
        *says.lock().expect("no panic") = message(&*panic).to_owned();
    });
    Own.barrier();
    assert!(said.lock().expect("no panic").starts_with("barrier() inside a callback"));
}

#[test]
fn barrier_in_a_nested_callback_of_its_domain_panics() {
    stillpoint::domain! { struct Outer; }
    stillpoint::domain! { struct Inner; }
    /// Calls `barrier` of the outer domain, if a callback of that runs on this thread.
    struct Asks(ThreadId, Arc<Mutex<Option<String>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            if thread::current().id() == self.0 {
                let panic = catch_unwind(|| Outer.barrier()).expect_err("inside a callback");
                *self.1.lock().expect("no panic") = Some(message(&*panic).to_owned());
            }
        }
    }
    let _running = deadline();
    let said = Arc::new(Mutex::new(None));
    let has_said = |said: &Mutex<Option<_>>| said.lock().expect("no panic").is_some();
    // The inner domain's worker has no time for them: the retiring thread itself drops some.
    let (says, is_busy, busy) = (Arc::clone(&said), Arc::new(AtomicBool::new(false)), Arc::clone(&said));
    let begins = Arc::clone(&is_busy);
    Inner.call(move || {
        begins.store(true, Relaxed);
        until(|| has_said(&busy));
    });
    until(|| is_busy.load(Relaxed));
    Outer.call(move || {
        until(|| {
            let asks = Asks(thread::current().id(), Arc::clone(&says));
            Inner.retire_with(Box::new(asks), DeferOptions::new().run_on_retiring_thread());
            has_said(&says)
        });
    });
    Outer.barrier();
    Inner.barrier();
    let said = said.lock().expect("no panic").take().expect("the callback has run");
    assert!(said.starts_with("barrier() inside a callback"), "{said}");
}

#[test]
fn barrier_with_nothing_left_returns_beside_a_leaked_guard() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let (calls, call) = counter();
    Own.call(call);
    Own.barrier();
    thread::spawn(|| mem::forget(Own::enter())).join().expect("no panic");
    Own.barrier();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn futures_of_barriers_are_woken_once_after_all_callbacks_before_them() {
    stillpoint::domain! { struct Own; }
    const FUTURES: usize = 1000;
    let _running = deadline();
    let (calls, call) = counter();
    let (wakes, waker) = Wakes::new();
    assert!(poll(&mut Own.barrier_async(), &waker).is_ready(), "nothing was deferred");
    let (release, is_released) = mpsc::channel();
    Own.call(move || is_released.recv().expect("it is sent"));
    let mut futures: Vec<_> = (0..FUTURES).map(|_| Own.barrier_async()).collect();
    for future in &mut futures {
        Own.call_with(call, LAZY);
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
