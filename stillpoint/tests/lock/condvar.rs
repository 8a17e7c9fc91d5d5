//! Tests of condition variables of the queued lock through their public API.

use stillpoint::lock::{Condvar, Mutex};
use support::asleep::asleep_in;
use support::prelude::*;

#[cfg(feature = "lock_api_05")]
#[test]
fn lock_api_05_guard_is_released_while_waiting() {
    let _running = deadline();
    let (lock, changed) = (lock_api_05::Mutex::<stillpoint::lock::RawMutex, u32>::new(0), Condvar::new());
    thread::scope(|scope| {
        let waiter = asleep_in(scope, || {
            let mut stage = lock.lock();
            while *stage == 0 {
                changed.wait(&mut stage);
            }
            changed.wait_while(&mut stage, |stage| *stage < 2);
            *stage += 1;
        });
        for stage in [1, 2] {
            *lock.lock() = stage;
            changed.notify_all();
        }
        waiter.join().expect("no crash");
    });
    let mut stage = lock.lock();
    assert_eq!(*stage, 3);
    while !changed.wait_for(&mut stage, Duration::from_millis(1)).timed_out() {}
    assert!(changed.wait_while_for(&mut stage, |stage| *stage == 3, Duration::ZERO).timed_out());
    assert!(lock.is_locked());
}

/// Refutes: all-waiters-notified
#[test]
fn notify_one_leaves_the_other_waiters() {
    const WAITERS: usize = 3;
    let _running = deadline();
    let (waiting, changed) = (Mutex::new(0), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let mut waiting = waiting.lock();
                *waiting += 1;
                changed.wait(&mut waiting);
            });
        }
        // Each that has released the lock is a waiter.
        until(|| *waiting.lock() == WAITERS);
        assert!(changed.notify_one());
        assert_eq!(changed.notify_all(), WAITERS - 1);
    });
}

/// The second comes before the first waiter has run.
#[test]
fn each_of_two_notifications_wakes_a_waiter() {
    let _running = deadline();
    let (state, changed) = (Mutex::new((0, 0)), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut state = state.lock();
                state.0 += 1;
                changed.wait_while(&mut state, |(_, jobs)| *jobs == 0);
                state.1 -= 1;
            });
        }
        until(|| state.lock().0 == 2);
        let mut state = state.lock();
        state.1 = 2;
        assert_eq!([(); 3].map(|()| changed.notify_one()), [true, true, false]);
    });
}

#[test]
fn timed_wait_without_notification_times_out() {
    let _running = deadline();
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    let mut guard = lock.lock();
    while !changed.wait_for(&mut guard, Duration::from_millis(1)).timed_out() {}
    assert!(lock.is_locked());
}

#[test]
fn timed_wait_while_times_out_despite_notifications() {
    let _running = deadline();
    let (lock, changed) = (Mutex::new(0_u32), Condvar::new());
    let over = AtomicBool::new(false);
    let limit = Duration::from_millis(20);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                changed.notify_all();
            }
        });
        let mut looks = lock.lock();
        let begin = Instant::now();
        let wait = |looks: &mut u32| {
            *looks += 1;
            true
        };
        assert!(changed.wait_while_for(&mut looks, wait, limit).timed_out());
        assert!(begin.elapsed() >= limit);
        assert!(lock.is_locked());
        *looks = 0;
        assert!(changed.wait_while_for(&mut looks, wait, Duration::ZERO).timed_out());
        assert_eq!(*looks, 1);
        over.store(true, Relaxed);
    });
}

#[test]
fn timed_wait_while_ends_when_the_condition_is_met() {
    let _running = deadline();
    let (lock, changed) = (Mutex::new(0_u32), Condvar::new());
    let hour = Duration::from_secs(3600);
    thread::scope(|scope| {
        let waiter = asleep_in(scope, || {
            let mut stage = lock.lock();
            let first = changed.wait_while_for(&mut stage, |stage| *stage < 2, hour);
            *stage += 1;
            let second = changed.wait_while_for(&mut stage, |stage| *stage < 4, hour);
            [first, second].map(|result| result.timed_out())
        });
        // Not every notification comes with the condition.
        for stage in [1, 2, 4] {
            until(|| *lock.lock() + 1 >= stage);
            *lock.lock() = stage;
            changed.notify_one();
        }
        assert_eq!(waiter.join().expect("no crash"), [false; 2]);
    });
    // The condition is met, though the time is over.
    assert!(!changed.wait_while_for(&mut lock.lock(), |_| false, Duration::ZERO).timed_out());
}

/// Refutes: child-keeps-generation
#[cfg(not(stillpoint_portable))]
#[test]
fn child_of_a_fork_inherits_no_waiters() {
    // In a process of its own: a child can start no threads if another test is starting one at the fork.
    alone!();
    let (stage, changed) = (Mutex::new(0), Condvar::new());
    thread::scope(|scope| {
        let parents = asleep_in(scope, || changed.wait_while(&mut stage.lock(), |stage| *stage != 2));
        in_child(|| {
            assert_eq!(changed.notify_all(), 0);
            let limit = Duration::from_millis(1);
            assert!(changed.wait_for(&mut stage.lock(), limit).timed_out());
            thread::scope(|scope| {
                asleep_in(scope, || changed.wait_while(&mut stage.lock(), |stage| *stage != 1));
                *stage.lock() = 1;
                assert_eq!(changed.notify_all(), 1);
            });
        });
        *stage.lock() = 2;
        assert!(changed.notify_one(), "the parent has its waiter still");
        parents.join().expect("no panic");
    });
}
