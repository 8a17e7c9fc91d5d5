//! Counts that find out when they are zero.

use std::pin::Pin;
use std::sync::{LazyLock, Mutex};

use super::races;
use stillpoint::percpu::{RefCount, Zero};
#[cfg(not(stillpoint_portable))]
use support::fork;
use support::futures::{Wakes, poll};
use support::prelude::*;
#[cfg(target_os = "linux")]
use support::rseq;

fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    message(&*panic).to_owned()
}

#[test]
fn count_becomes_zero_once_after_the_kill() {
    alone!(in each variant);
    let count = RefCount::new();
    assert_eq!(format!("{count:?}"), "RefCount { killed: false, .. }");
    for _ in 0..1000 {
        count.get();
        assert!(count.try_get());
    }
    for _ in 0..1998 {
        count.put();
    }
    assert!(!count.is_zero());
    assert!(count.kill());
    assert!(!count.kill(), "the second kill has no effect");
    assert!(!count.try_get() && count.try_enter().is_none());
    assert!(!count.is_zero());
    assert_eq!(format!("{count:?}"), "RefCount { killed: true, references: 2, .. }");
    count.get();
    count.put();
    count.put();
    assert!(!count.is_zero() && !count.wait_timeout(Duration::ZERO));
    count.put();
    assert!(count.is_zero() && count.wait_timeout(Duration::ZERO));
    count.wait();
}

#[test]
fn kill_without_references_finds_zero() {
    for used in [false, true] {
        let count = RefCount::new();
        if used {
            drop(count.try_enter());
        }
        assert!(count.kill() && count.is_zero());
        count.wait();
        assert!(!count.try_get());
    }
}

#[test]
fn kill_before_the_first_get_takes_no_word() {
    let count = RefCount::new();
    count.prepare();
    assert!(count.kill() && count.is_zero());
    count.prepare();
    assert!(!count.try_get());
}

#[test]
fn get_on_zero_and_put_beyond_it_panic() {
    let count = RefCount::new();
    count.kill();
    assert!(panic_of(|| count.get()).contains("from a count that is zero"));
    assert!(panic_of(|| count.put()).contains("more puts than gets"));
    assert!(count.is_zero(), "neither has an effect");

    let count = RefCount::new();
    count.put();
    count.put();
    assert!(panic_of(|| _ = count.kill()).contains("2 more puts than gets"));
    assert!(count.is_zero());
    count.wait();
}

/// Gets and puts in threads that migrate, each put in another thread than its get, while the count is killed.
#[cfg(target_os = "linux")]
fn race(threads: usize, gets: usize, unregistered: fn(usize) -> bool) {
    let cpus = rseq::allowed_cpus();
    let (count, open, references) = (AtomicU64::new(0), AtomicU64::new(0), RefCount::new());
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (cpus, references, count, open, start) = (&cpus, &references, &count, &open, &start);
            scope.spawn(move || {
                if unregistered(thread) {
                    rseq::unregister();
                }
                start.wait();
                for get in 0..gets {
                    if !references.try_get() {
                        break;
                    }
                    open.fetch_add(1, Relaxed);
                    assert!(!references.is_zero(), "there is a reference");
                    references.get();
                    rseq::pin(&[cpus[(get + thread) % cpus.len()]]);
                    references.put();
                    count.fetch_add(1, Relaxed);
                    open.fetch_sub(1, Relaxed);
                    references.put();
                }
            });
        }
        start.wait();
        until(|| count.load(Relaxed) >= gets as u64 / 2);
        assert!(references.kill());
        assert!(!references.try_get());
        references.wait();
        assert_eq!(open.load(Relaxed), 0, "zero comes after all puts");
    });
    assert!(references.is_zero());
}

#[cfg(target_os = "linux")]
#[test]
fn zero_is_exact_while_threads_migrate() {
    alone!(in each variant);
    for _ in 0..races(50) {
        race(3, 200, |_| false);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn registered_and_unregistered_threads_share_a_count() {
    let _running = deadline();
    for _ in 0..races(50) {
        race(3, 200, |thread| thread % 2 == 0);
    }
}

#[test]
fn kill_races_with_the_first_get() {
    alone!(in each variant);
    for _ in 0..races(500) {
        let (count, start) = (RefCount::new(), Barrier::new(3));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    while let Some(reference) = count.try_enter() {
                        drop(reference.clone());
                        assert!(!count.is_zero());
                    }
                });
            }
            start.wait();
            count.kill();
            count.wait();
        });
        assert!(count.is_zero());
    }
}

#[test]
fn one_of_several_kills_succeeds() {
    let _running = deadline();
    for _ in 0..races(500) {
        let (count, kills) = (RefCount::new(), AtomicU64::new(0));
        count.get();
        in_threads(3, |_| _ = kills.fetch_add(u64::from(count.kill()), Relaxed));
        assert_eq!(kills.into_inner(), 1);
        assert!(!count.is_zero());
        count.put();
        assert!(count.is_zero());
    }
}

#[test]
fn waits_and_futures_end_after_the_last_put() {
    let _running = deadline();
    let (is_put, count) = (AtomicBool::new(false), RefCount::new());
    let reference = count.try_enter().expect("it is alive");
    let ([first, second], mut future) = ([(); 2].map(|()| Wakes::new()), Box::pin(count.zero()));
    for (_, waker) in [&first, &second] {
        assert_eq!(poll(&mut future, waker), Poll::Pending);
    }
    let mut dropped = Box::pin(count.zero());
    assert_eq!(poll(&mut dropped, &first.1), Poll::Pending);
    drop(dropped);
    count.kill();
    thread::scope(|scope| {
        scope.spawn(|| {
            count.wait();
            assert!(is_put.load(Relaxed));
        });
        is_put.store(true, Relaxed);
        drop(reference);
    });
    // The last waker of a future that exists.
    assert_eq!((first.0.get(), second.0.get()), (0, 1));
    assert_eq!(poll(&mut future, &second.1), Poll::Ready(()));
}

/// Drops a future of the same count when it is called, or dropped itself.
struct Hostile(Mutex<Option<Pin<Box<Zero<'static>>>>>);

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn wakers_run_outside_of_locks() {
    let _running = deadline();
    static COUNT: LazyLock<RefCount> = LazyLock::new(RefCount::new);
    let count: &'static RefCount = &COUNT;
    count.get();
    let pending = |future: &mut Pin<Box<Zero<'_>>>, waker: &Waker| assert!(poll(future, waker).is_pending());
    let hostile = || {
        let mut future = Box::pin(count.zero());
        pending(&mut future, Waker::noop());
        Waker::from(Arc::new(Hostile(Mutex::new(Some(future)))))
    };
    let (mut dropped, mut woken) = (Box::pin(count.zero()), Box::pin(count.zero()));
    for future in [&mut dropped, &mut woken] {
        pending(future, &hostile());
        // The first waker is dropped.
        pending(future, &hostile());
    }
    drop(dropped);
    count.kill();
    count.put();
    assert!(poll(&mut woken, Waker::noop()).is_ready());
}

#[test]
fn killed_count_gives_its_word_back_once() {
    let with_one = || {
        let count = RefCount::new();
        count.get();
        count
    };
    let killed: Vec<_> = (0..64).map(|_| with_one()).collect();
    killed.iter().for_each(|count| _ = count.kill());
    let counts: Vec<_> = (0..64).map(|_| with_one()).collect();
    counts.iter().for_each(RefCount::get);
    // Nor does it take another one.
    killed.iter().for_each(RefCount::prepare);
    drop(killed);
    let _later: Vec<_> = (0..64).map(|_| with_one()).collect();
    for count in &counts {
        assert!(count.kill());
        count.put();
        assert!(!count.is_zero(), "its word is its own");
        count.put();
        assert!(count.is_zero(), "its word has no other owner");
    }
}

#[cfg(not(stillpoint_portable))]
#[test]
fn fork_child_kills_its_copy() {
    alone!(on each backend);
    let count = RefCount::new();
    count.get();
    let mut future = Box::pin(count.zero());
    assert_eq!(poll(&mut future, Waker::noop()), Poll::Pending);
    fork::in_child(|| {
        assert_eq!(poll(&mut future, Waker::noop()), Poll::Pending);
        assert!(count.kill() && !count.is_zero());
        count.put();
        assert!(count.is_zero());
        assert_eq!(poll(&mut future, Waker::noop()), Poll::Ready(()));
    });
    drop(future);
    assert!(count.kill() && !count.is_zero());
    count.put();
    assert!(count.is_zero());
}

#[cfg(not(stillpoint_portable))]
#[test]
fn fork_child_of_a_child_wakes_each_future() {
    alone!(on each backend);
    let count = RefCount::new();
    let [first, second, third] = [(); 3].map(|()| Wakes::new());
    let pending = |(_, waker): &(Arc<Wakes>, Waker)| {
        let mut future = Box::pin(count.zero());
        assert_eq!(poll(&mut future, waker), Poll::Pending);
        future
    };
    // Of two futures of the parent, the child polls one.
    let mut inherited = pending(&first);
    let _left = pending(&first);
    fork::in_child(|| {
        let mut of_the_child = pending(&second);
        fork::in_child(|| {
            let _new = pending(&third);
            for future in [&mut of_the_child, &mut inherited] {
                assert_eq!(poll(future, &second.1), Poll::Pending);
            }
            assert!(count.kill());
            assert_eq!([&first, &second, &third].map(|(wakes, _)| wakes.get()), [0, 2, 1]);
        });
    });
}

#[cfg(not(stillpoint_portable))]
#[test]
fn fork_child_finds_the_locks_of_other_threads_free() {
    alone!(on each backend);
    let await_one = |kill: bool| {
        // More than a bucket for each, and more than a block.
        let counts = [const { RefCount::new() }; 128];
        counts.iter().for_each(RefCount::get);
        let mut futures = counts.each_ref().map(RefCount::zero);
        futures.iter_mut().for_each(|future| assert!(poll(future, Waker::noop()).is_pending()));
        if kill {
            counts.iter().for_each(|count| assert!(count.kill() && !count.is_zero()));
            counts.iter().for_each(RefCount::put);
            futures.iter_mut().for_each(|future| assert!(poll(future, Waker::noop()).is_ready()));
        }
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                await_one(false);
            }
        });
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                RefCount::new().get();
            }
        });
        (0..races(100)).for_each(|_| fork::in_child(|| await_one(true)));
        stop.store(true, Relaxed);
    });
}
