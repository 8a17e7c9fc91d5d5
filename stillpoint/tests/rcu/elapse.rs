//! Cookies that are awaited: their futures share grace periods, and each wakes the waker of its last poll.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu::{Elapse, GracePeriod, Rcu, RcuDomain};
use support::deadline::deadline;
use support::futures::{Wakes, block_on, poll};
use support::time_limit::repetitions;
use support::until::until;
use support::waiting::waiting_synchronize;

/// Runs `body` while another thread is inside a section, which ends when the sender is dropped.
fn beside_a_section<D: RcuDomain>(body: impl FnOnce(Sender<()>)) {
    let inside = &Barrier::new(2);
    let (section, ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let guard = D::enter();
            inside.wait();
            let _ = ended.recv();
            drop(guard);
        });
        inside.wait();
        body(section);
    });
}

#[test]
fn futures_share_grace_periods() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    beside_a_section::<Own>(|section| {
        let (count, waker) = Wakes::new();
        let mut futures: Vec<_> =
            (0..repetitions(1000)).map(|_| GracePeriod::now_in(Own).into_future()).collect();
        assert!(futures.iter_mut().all(|future| poll(future, &waker).is_pending()));
        assert_eq!(count.get(), 0);
        drop(section);
        until(|| count.get() == futures.len());
        assert!(futures.iter_mut().all(|future| poll(future, &waker).is_ready()));
    });
    assert!(Own.stats().grace_periods <= 2, "{:?}", Own.stats());
}

#[test]
fn late_polled_future_is_woken_by_its_own_grace_period() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    beside_a_section::<Own>(|first_section| {
        let early = GracePeriod::now_in(Own);
        let writer = waiting_synchronize::<Own>();
        let late = GracePeriod::now_in(Own);
        assert!(early < late);
        let ((of_early, early_waker), (of_late, late_waker)) = (Wakes::new(), Wakes::new());
        let (mut early, mut late) = (early.into_future(), late.into_future());
        // The poller waits for the later cookie before the earlier one is polled.
        assert!(poll(&mut late, &late_waker).is_pending());
        until(|| Own.stats().callers == 2);
        assert!(poll(&mut early, &early_waker).is_pending());
        beside_a_section::<Own>(|second_section| {
            drop(first_section);
            writer.join().expect("the grace period ends");
            until(|| of_early.get() == 1);
            assert_eq!(of_late.get(), 0);
            drop(second_section);
        });
        until(|| of_late.get() == 1);
        assert_eq!(of_early.get(), 1);
        assert!(poll(&mut early, &early_waker).is_ready() && poll(&mut late, &late_waker).is_ready());
    });
}

#[test]
fn only_the_waker_of_the_last_poll_is_called() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    beside_a_section::<Own>(|section| {
        let (first, waker) = Wakes::new();
        let mut future = GracePeriod::now_in(Own).into_future();
        assert!(poll(&mut future, &waker).is_pending());
        drop(waker);
        assert_eq!(Arc::strong_count(&first), 2);
        let (second, waker) = Wakes::new();
        for _ in 0..3 {
            assert!(poll(&mut future, &waker).is_pending());
        }
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 3));
        drop(section);
        until(|| second.get() == 1);
        assert_eq!(first.get(), 0);
        assert!(poll(&mut future, &waker).is_ready());
        assert!(poll(&mut future, &waker).is_ready());
    });
}

#[test]
fn dropped_future_leaves_no_waker_behind() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    beside_a_section::<Own>(|section| {
        let ((dropped, of_dropped), (kept, of_kept)) = (Wakes::new(), Wakes::new());
        let readers = GracePeriod::now_in(Own);
        let mut keep: Vec<Elapse<Own>> = Vec::new();
        for round in 0..repetitions(1000) {
            let mut futures = [(); 5].map(|()| readers.into_future());
            assert!(futures.iter_mut().all(|future| poll(future, &of_dropped).is_pending()));
            if round % 10 == 0 {
                let [a, _, b, ..] = &mut futures;
                assert!([a, b].into_iter().all(|future| poll(future, &of_kept).is_pending()));
                let [a, _, b, ..] = futures;
                keep.extend([a, b]);
            }
        }
        assert_eq!(Arc::strong_count(&dropped), 2);
        assert_eq!(Arc::strong_count(&kept), 2 + keep.len());
        drop(section);
        until(|| kept.get() == keep.len());
        assert_eq!(dropped.get(), 0);
        assert!(keep.iter_mut().all(|future| poll(future, &of_kept).is_ready()));
    });
    // A cancelled future does not disturb the next one.
    let mut future = GracePeriod::now_in(Own).into_future();
    let _ = poll(&mut future, Waker::noop());
    drop(future);
    block_on(GracePeriod::now_in(Own));
}

#[test]
fn panicking_waker_does_not_stop_other_wakers() {
    stillpoint::domain! { struct Own; }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let _running = deadline();
    beside_a_section::<Own>(|section| {
        let (count, counts) = Wakes::new();
        let panics = Arc::new(Panics).into();
        let mut futures = [&counts, &panics, &counts, &panics, &counts].map(|waker| {
            let mut future = GracePeriod::now_in(Own).into_future();
            assert!(poll(&mut future, waker).is_pending());
            future
        });
        drop(section);
        until(|| count.get() == 3);
        assert!(futures.iter_mut().all(|future| poll(future, &counts).is_ready()));
    });
    block_on(GracePeriod::now_in(Own));
}

#[test]
fn waker_may_use_cookies() {
    stillpoint::domain! { struct Own; }
    static DONE: AtomicBool = AtomicBool::new(false);
    struct Uses;
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {
            GracePeriod::now_in(Own).wait();
            let _ = poll(&mut GracePeriod::now_in(Own).into_future(), Waker::noop());
            let started = GracePeriod::start_in(Own);
            drop(Own::enter());
            started.wait();
            DONE.store(true, Release);
        }
    }
    let _running = deadline();
    beside_a_section::<Own>(|section| {
        let mut future = GracePeriod::now_in(Own).into_future();
        assert!(poll(&mut future, &Arc::new(Uses).into()).is_pending());
        drop(section);
        until(|| DONE.load(Acquire));
    });
}

#[test]
fn grace_periods_are_awaited_on_tokio() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let value: &'static Rcu<usize, Own> = Box::leak(Box::new(Rcu::new_in(0, Own)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..64)
            .map(|task| {
                tokio::spawn(async move {
                    for round in 0..50 {
                        assert!(*value.load(&Own::enter()) < 50);
                        let old = value.replace(round);
                        match (task + round) % 3 {
                            0 => GracePeriod::now_in(Own).await,
                            1 => GracePeriod::start_in(Own).await,
                            _ => {
                                let readers = GracePeriod::now_in(Own);
                                tokio::join!(readers.into_future(), readers.into_future());
                                tokio::select! {
                                    () = readers.into_future() => {}
                                    () = GracePeriod::now_in(Own).into_future() => {}
                                }
                            }
                        }
                        drop(old);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    beside_a_section::<Own>(|section| {
        runtime.block_on(async {
            let readers = GracePeriod::now_in(Own);
            let timeout = Duration::from_millis(5);
            tokio::time::timeout(timeout, readers).await.expect_err("a section is open");
            drop(section);
            readers.await;
        });
    });
}
