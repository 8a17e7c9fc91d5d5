//! Cookies that are awaited: their futures share grace periods, and each wakes the waker of its last poll.

use stillpoint::rcu::Elapse;
use support::futures::{Wakes, block_on, poll, waker};
use support::owner::section_elsewhere;
use support::prelude::*;

#[test]
fn futures_share_grace_periods() {
    own!(Own);
    let leave = section_elsewhere::<Own>();
    let (count, waker) = Wakes::new();
    let mut futures: Vec<_> =
        (0..repetitions(1000)).map(|_| GracePeriod::now_in(Own).into_future()).collect();
    assert!(futures.iter_mut().all(|future| poll(future, &waker).is_pending()));
    assert_eq!(count.get(), 0);
    leave();
    until(|| count.get() == futures.len());
    assert!(futures.iter_mut().all(|future| poll(future, &waker).is_ready()));
    assert!(Own.stats().grace_periods <= 2, "{:?}", Own.stats());
}

#[test]
fn late_polled_future_is_woken_by_its_own_grace_period() {
    own!(Own);
    let leave_first = section_elsewhere::<Own>();
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
    let leave_second = section_elsewhere::<Own>();
    leave_first();
    writer.join().expect("the grace period ends");
    until(|| of_early.get() == 1);
    assert_eq!(of_late.get(), 0);
    leave_second();
    until(|| of_late.get() == 1);
    assert_eq!(of_early.get(), 1);
    assert!(poll(&mut early, &early_waker).is_ready() && poll(&mut late, &late_waker).is_ready());
}

#[test]
fn only_the_waker_of_the_last_poll_is_called() {
    own!(Own);
    let leave = section_elsewhere::<Own>();
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
    leave();
    until(|| second.get() == 1);
    assert_eq!(first.get(), 0);
    assert!(poll(&mut future, &waker).is_ready());
    assert!(poll(&mut future, &waker).is_ready());
}

#[test]
fn dropped_future_leaves_no_waker_behind() {
    own!(Own);
    let leave = section_elsewhere::<Own>();
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
    leave();
    until(|| kept.get() == keep.len());
    assert_eq!(dropped.get(), 0);
    assert!(keep.iter_mut().all(|future| poll(future, &of_kept).is_ready()));
    // A cancelled future does not disturb the next one.
    let mut future = GracePeriod::now_in(Own).into_future();
    let _ = poll(&mut future, Waker::noop());
    drop(future);
    block_on(GracePeriod::now_in(Own));
}

#[test]
fn panicking_waker_does_not_stop_other_wakers() {
    own!(Own);
    let leave = section_elsewhere::<Own>();
    let (count, counts) = Wakes::new();
    let panics = waker(|| panic!("on purpose"));
    let mut futures = [&counts, &panics, &counts, &panics, &counts].map(|waker| {
        let mut future = GracePeriod::now_in(Own).into_future();
        assert!(poll(&mut future, waker).is_pending());
        future
    });
    leave();
    until(|| count.get() == 3);
    assert!(futures.iter_mut().all(|future| poll(future, &counts).is_ready()));
    block_on(GracePeriod::now_in(Own));
}

#[test]
fn waker_may_use_cookies() {
    own!(Own);
    static DONE: AtomicBool = AtomicBool::new(false);
    let uses = waker(|| {
        GracePeriod::now_in(Own).wait();
        let _ = poll(&mut GracePeriod::now_in(Own).into_future(), Waker::noop());
        let started = GracePeriod::start_in(Own);
        drop(Own::enter());
        started.wait();
        DONE.store(true, Release);
    });
    let leave = section_elsewhere::<Own>();
    let mut future = GracePeriod::now_in(Own).into_future();
    assert!(poll(&mut future, &uses).is_pending());
    leave();
    until(|| DONE.load(Acquire));
}
