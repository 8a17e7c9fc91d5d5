//! Per-CPU data without memory, and what it allocates.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
#[cfg(not(any(stillpoint_portable, miri)))]
use std::{fs, hint};

use stillpoint::percpu::{self, ArcOwner, Counter, Histogram, Pool, RefCount};
use support::counting::{allocations, live, without_memory};
use support::prelude::*;

#[test]
fn add_without_memory_counts() {
    let (counter, histogram) = (Counter::<u64>::new(), Histogram::new());
    without_memory(0, || {
        // The choice of the mode needs memory too.
        counter.prepare();
        for _ in 0..1000 {
            counter.add(1);
            histogram.record(5);
        }
        assert_eq!(counter.get(), 1000);
        assert!(percpu::cpu() < 1 << 16);
    });
    // With memory, and in threads that always had memory.
    thread::scope(|scope| {
        scope.spawn(|| (0..1000).for_each(|_| counter.add(1)));
        scope.spawn(|| without_memory(0, || (0..1000).for_each(|_| counter.add(1))));
    });
    histogram.record(5);
    assert_eq!(counter.get(), 3000);
    assert_eq!(histogram.snapshot().count(), 1001);
    assert_eq!(counter.get(), 3000);
}

#[test]
fn first_use_of_what_is_prepared_allocates_nothing() {
    // Without words of other counts that are free.
    alone!();
    let (counter, histogram, count) = (Counter::<u64>::new(), Histogram::new(), RefCount::new());
    counter.prepare();
    histogram.prepare();
    count.prepare();
    let before = allocations();
    counter.add(1);
    histogram.record(1);
    count.get();
    assert_eq!(allocations(), before);
}

#[test]
fn pool_without_memory_panics() {
    percpu::report();
    // A panic needs memory itself, so here the size is the reason.
    let panic = catch_unwind(|| Pool::<u64>::new(usize::MAX / 64)).expect_err("there is less memory");
    let message = message(&*panic);
    assert!(message.contains("there is memory for per-CPU data"), "{message}");
}

#[test]
fn what_is_dropped_frees_its_memory() {
    // Without threads that take the words of its counts.
    alone!();
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            // Without the hook, which allocates.
            resume_unwind(Box::new(()));
        }
    }
    let use_all = || {
        let (counter, pool) = (Counter::<u64>::new(), Pool::new(4));
        counter.add(1);
        (0..8).for_each(|n| drop(pool.push(Box::new(n))));
        let owner = ArcOwner::new(1);
        let clone = ArcOwner::share(&owner);
        let mut future = ArcOwner::into_inner(owner);
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop((future, clone));
        for last_is_owner in [true, false] {
            let owner = ArcOwner::new(Bomb);
            let clone = ArcOwner::share(&owner);
            if last_is_owner {
                drop(clone);
                assert!(catch_unwind(AssertUnwindSafe(|| drop(owner))).is_err());
            } else {
                drop(owner);
                assert!(catch_unwind(AssertUnwindSafe(|| drop(clone))).is_err());
            }
        }
    };
    use_all();
    let before = live();
    const ROUNDS: usize = 1000;
    (0..ROUNDS).for_each(|_| use_all());
    // The maps of waiters keep some nodes.
    assert!(live() < before + ROUNDS * size_of::<usize>() * 4, "{} bytes", live() - before);
}

#[cfg(not(any(stillpoint_portable, miri)))]
#[test]
fn thread_that_loses_a_race_gives_its_memory_back() {
    alone!();
    let mapped = || {
        let statm = fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
        statm.split(' ').next().expect("there is one").parse::<usize>().expect("a number") * 4
    };
    // Four share 16 KiB for each CPU: what is lost is seen in the size of the address space.
    let mut histograms: Vec<_> = (0..1000).map(|_| Histogram::new()).collect();
    let (ready, start) = (AtomicUsize::new(0), Barrier::new(3));
    let before = thread::scope(|scope| {
        let race = || {
            // Makes a heap for the thread.
            drop(hint::black_box(Box::new(0)));
            start.wait();
            start.wait();
            for (round, histogram) in histograms.iter().enumerate() {
                ready.fetch_add(1, Relaxed);
                // At the same moment: threads that sleep would be woken one after the other.
                while ready.load(Relaxed) < 2 * (round + 1) {
                    thread::yield_now();
                }
                histogram.prepare();
            }
        };
        (0..2).for_each(|_| drop(scope.spawn(race)));
        start.wait();
        let before = mapped();
        start.wait();
        before
    });
    histograms.clear();
    let blocks = 10 * 16 * (percpu::report().cpus() + 1);
    assert!(mapped() <= before + blocks, "{} KiB", mapped() - before);
}

/// Leaves a waker with each of many objects. Returns how often the thread allocates while `end` ends the wait for
/// one.
fn allocations_beside<F: Future + Unpin, T>(make: impl Fn() -> (T, F), end: impl FnOnce(T)) -> usize {
    let (mut ends, mut futures): (Vec<_>, Vec<_>) = (0..16_000).map(|_| make()).unzip();
    let context = &mut Context::from_waker(Waker::noop());
    for future in &mut futures {
        assert!(Pin::new(future).poll(context).is_pending());
    }
    let last = ends.pop().expect("there are some");
    let before = allocations();
    end(last);
    let count = allocations() - before;
    assert!(
        futures
            .iter_mut()
            .rev()
            .map(|future| Pin::new(future).poll(context).is_ready())
            .eq((0..16_000).map(|n| n == 0))
    );
    count
}

#[test]
fn end_of_a_wait_is_not_slower_beside_many_waiters() {
    // What is the work of the map of all waiters is seen in its allocations.
    let owner = || {
        let owner = ArcOwner::new(1);
        (ArcOwner::share(&owner), ArcOwner::into_inner(owner))
    };
    let count = || {
        let count: &'static RefCount = Box::leak(Box::new(RefCount::new()));
        count.get();
        assert!(count.kill());
        (count, count.zero())
    };
    let allocations = [allocations_beside(owner, drop), allocations_beside(count, RefCount::put)];
    assert!(allocations.iter().all(|count| *count <= 2), "{allocations:?}");
}
