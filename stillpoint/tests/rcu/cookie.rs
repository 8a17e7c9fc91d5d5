//! Grace-period cookies: polled, waited for with and without a timeout, started.

use std::collections::HashSet;
use std::hint;
use std::sync::Mutex;

use support::futures::{block_on, poll};
use support::prelude::*;

/// All ways to wait.
fn wait_modes<D: StaticDomain>() -> [fn(GracePeriod<D>); 5] {
    [
        |period| period.wait(),
        |period| assert!(period.wait_timeout(Duration::MAX)),
        |period| block_on(period),
        |period| {
            // Polled with another waker before.
            let mut future = period.into_future();
            let _ = poll(&mut future, Waker::noop());
            block_on(future);
        },
        |period| while !period.wait_timeout(Duration::from_micros(20)) {},
    ]
}

#[test]
fn taking_a_cookie_starts_no_grace_period() {
    own!(Own);
    let readers = GracePeriod::now_in(Own);
    assert!(!readers.is_elapsed());
    assert_eq!(Own.stats().grace_periods, 0);
    readers.wait();
    assert!(readers.is_elapsed());
    assert_eq!(Own.stats().grace_periods, 1);
    wait_modes().iter().for_each(|wait| wait(readers));
    assert!(readers.wait_timeout(Duration::ZERO));
    assert_eq!(Own.stats().grace_periods, 1);
}

#[test]
fn started_cookie_elapses_without_a_waiter() {
    own!(Own);
    for round in 1..=repetitions(100) as u64 {
        let guard = Own::enter();
        let readers = GracePeriod::start_in(Own);
        until(|| Own.stats().sleeps >= round);
        assert!(!readers.is_elapsed());
        drop(guard);
        until(|| readers.is_elapsed());
    }
    let readers = GracePeriod::start();
    until(|| readers.is_elapsed());
}

#[test]
fn started_cookies_share_grace_periods() {
    own!(Own);
    let (guard, first) = (Own::enter(), GracePeriod::now_in(Own));
    // Not by the poller: where it may not sleep, it tries the grace period, which is then in progress now and then.
    let writer = waiting_synchronize::<Own>();
    let others: Vec<_> = (0..1000).map(|_| GracePeriod::start_in(Own)).collect();
    assert!(others.iter().all(|other| *other > first));
    drop(guard);
    writer.join().expect("the grace period ends");
    until(|| others.iter().all(|other| other.is_elapsed()));
    assert_eq!(Own.stats().grace_periods, 2);
    // A superfluous grace period of the poller would come before this one.
    let last = GracePeriod::start_in(Own);
    until(|| last.is_elapsed());
    assert_eq!(Own.stats().grace_periods, 3);
}

#[test]
fn cookies_are_small_and_ordered_by_elapse() {
    own!(Own);
    fn plain<T: Copy + Ord + std::hash::Hash + std::fmt::Debug + Send + Sync + Unpin + 'static>(_: T) {}
    fn future<T: Future<Output = ()> + Send + Sync + Unpin + 'static>(_: T) {}
    let (a, b) = (GracePeriod::now_in(Own), GracePeriod::now_in(Own));
    Own.synchronize();
    let c = GracePeriod::now_in(Own);
    assert!(a == b && a < c && c.max(a) == c);
    assert_eq!(HashSet::from([a, b, c]).len(), 2);
    // With an audit ticket it is twice as large.
    assert!(size_of_val(&a) <= 16);
    assert!(format!("{a:?}").starts_with("GracePeriod"));
    plain(a);
    future(a.into_future());
}

#[test]
fn wait_timeout_ends_at_timeout_or_with_the_sections() {
    own!(Own);
    let guard = Own::enter();
    let readers = GracePeriod::now_in(Own);
    thread::scope(|scope| {
        let waits = |timeout| scope.spawn(move || (readers.wait_timeout(timeout), Instant::now()));
        let start = Instant::now();
        let join = |waiter: thread::ScopedJoinHandle<'_, _>| waiter.join().expect("no panic");
        for timeout in [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(20)] {
            let (result, end) = join(waits(timeout));
            assert!(!result, "a section is open");
            assert!(end - start >= timeout);
        }
        let patient = [Duration::from_secs(3600), Duration::MAX].map(waits);
        assert!(!readers.is_elapsed());
        drop(guard);
        assert!(patient.into_iter().all(|waiter| join(waiter).0));
    });
    assert!(readers.is_elapsed());
}

#[test]
fn timed_wait_ends_although_later_readers_stay() {
    own!(Own);
    let period = Mutex::new(None);
    let is_over = AtomicBool::new(false);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..repetitions(2000) {
                start.wait();
                let readers: GracePeriod<Own> = period.lock().unwrap().expect("it has been taken");
                (0..round % 500).for_each(|_| hint::spin_loop());
                while !readers.is_elapsed() {
                    Own.synchronize();
                }
                let guard = Own::enter();
                until(|| is_over.load(Relaxed));
                drop(guard);
                start.wait();
            }
        });
        for _ in 0..repetitions(2000) {
            is_over.store(false, Relaxed);
            let readers = GracePeriod::now_in(Own);
            *period.lock().unwrap() = Some(readers);
            start.wait();
            assert!(readers.wait_timeout(Duration::from_secs(3600)));
            is_over.store(true, Relaxed);
            start.wait();
        }
    });
}

#[test]
fn timed_wait_keeps_the_unpark_token() {
    own!(Own);
    let guard = Own::enter();
    let readers = GracePeriod::now_in(Own);
    thread::scope(|scope| {
        let parks = scope.spawn(|| {
            // A token for the program's own `park`.
            thread::current().unpark();
            assert!(!readers.wait_timeout(Duration::from_millis(5)), "a section is open");
            thread::park();
        });
        parks.join().expect("no panic");
        let parks = scope.spawn(|| {
            thread::current().unpark();
            assert!(readers.wait_timeout(Duration::MAX), "the time is never up");
            thread::park();
        });
        until(|| Own.stats().sleeps != 0);
        drop(guard);
        parks.join().expect("no panic");
    });
}

#[test]
fn mixed_waiters_lose_no_wake_up() {
    own!(Own);
    const WAITERS: usize = 32;
    let rounds = repetitions(100);
    let value = Rcu::new_in(0, Own);
    let (stop, start) = (AtomicBool::new(false), Barrier::new(WAITERS));
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..WAITERS)
            .map(|waiter| {
                let (value, start) = (&value, &start);
                scope.spawn(move || {
                    let wait_modes = wait_modes();
                    start.wait();
                    for round in 0..rounds {
                        let old = value.replace(round);
                        match (waiter + round) % (wait_modes.len() + 2) {
                            0 => Own.synchronize(),
                            1 => {
                                let started = GracePeriod::start_in(Own);
                                until(|| started.is_elapsed());
                            }
                            other => wait_modes[other - 2](GracePeriod::now_in(Own)),
                        }
                        drop(old);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let guard = Own::enter();
                assert!(*value.load(&guard) < rounds);
                drop(guard);
            }
        });
        let panics: Vec<_> = waiters.into_iter().filter_map(|waiter| waiter.join().err()).collect();
        stop.store(true, Relaxed);
        assert!(panics.is_empty());
    });
}

#[cfg(target_os = "linux")]
#[test]
fn futures_wait_in_place_if_no_thread_can_start() {
    alone!();
    stillpoint::domain! { struct Own; }
    const TASKS: usize = 4;
    let (denied, done) = (Barrier::new(TASKS + 2), Barrier::new(TASKS + 1));
    thread::scope(|scope| {
        for _ in 0..TASKS {
            scope.spawn(|| {
                denied.wait();
                for _ in 0..100 {
                    wait_modes().iter().for_each(|wait| wait(GracePeriod::now_in(Own)));
                }
                done.wait();
            });
        }
        scope.spawn(|| {
            denied.wait();
            for _ in 0..1000 {
                drop(Own::enter());
            }
        });
        deny_threads();
        denied.wait();
        done.wait();
    });
    // Without a poller the grace period does not start; a later wait leads it.
    let started = GracePeriod::start_in(Own);
    assert!(!started.is_elapsed());
    assert!(started.wait_timeout(Duration::ZERO));
}
