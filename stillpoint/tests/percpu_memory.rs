//! Per-CPU data without memory, and what it allocates.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::thread;

use stillpoint::percpu::{self, ArcOwner, Counter, Histogram, Pool, RefCount};
use support::child;
use support::panics::message;

/// Refuses memory to threads that have set [`EXHAUSTED`], and counts that of the others.
struct Exhaustible;

thread_local! {
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
    /// The bytes that the thread has allocated and not freed.
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator, or null, which is allowed at any time.
unsafe impl GlobalAlloc for Exhaustible {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if EXHAUSTED.get() {
            return ptr::null_mut();
        }
        LIVE.set(LIVE.get().wrapping_add(layout.size()));
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Exhaustible = Exhaustible;

/// Calls `f` while this thread gets no memory.
fn without_memory<R>(f: impl FnOnce() -> R) -> R {
    EXHAUSTED.set(true);
    let result = f();
    EXHAUSTED.set(false);
    result
}

#[test]
fn add_without_memory_counts() {
    let (counter, histogram) = (Counter::<u64>::new(), Histogram::new());
    without_memory(|| {
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
        scope.spawn(|| without_memory(|| (0..1000).for_each(|_| counter.add(1))));
    });
    histogram.record(5);
    assert_eq!(counter.get(), 3000);
    assert_eq!(histogram.snapshot().count(), 1001);
    assert_eq!(counter.get(), 3000);
}

#[test]
fn first_use_of_what_is_prepared_allocates_nothing() {
    // Without words of other counts that are free.
    if child::variant().is_none() {
        return child::run(first_use_of_what_is_prepared_allocates_nothing, "alone", None);
    }
    let (counter, histogram, count) = (Counter::<u64>::new(), Histogram::new(), RefCount::new());
    counter.prepare();
    histogram.prepare();
    count.prepare();
    let before = ALLOCATIONS.get();
    counter.add(1);
    histogram.record(1);
    count.get();
    assert_eq!(ALLOCATIONS.get(), before);
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
fn words_given_back_in_any_order_are_taken_again() {
    const COUNTS: usize = 20_000;
    let orders: [fn(usize) -> usize; 4] =
        [|i| i, |i| COUNTS - 1 - i, |i| i * 7919 % COUNTS, |i| (i % 16) * (COUNTS / 16) + i / 16];
    let (mut live, before) = ([0; 10], LIVE.get());
    for (wave, live) in live.iter_mut().enumerate() {
        let mut counts: Vec<_> = (0..COUNTS).map(|_| Some(RefCount::new())).collect();
        counts.iter().flatten().for_each(RefCount::get);
        for i in 0..COUNTS {
            let count = counts[orders[wave % 4](i)].take().expect("an order takes each once");
            if i % 2 == 0 {
                assert!(count.kill());
            }
        }
        drop(counts);
        *live = LIVE.get().wrapping_sub(before);
    }
    assert!(live[9] <= live[1] + live[1] / 10, "{live:?}");
}

#[test]
fn what_is_dropped_frees_its_memory() {
    // Without threads that take the words of its counts.
    if child::variant().is_none() {
        return child::run(what_is_dropped_frees_its_memory, "alone", None);
    }
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
        let (clone, weak) = (ArcOwner::share(&owner), ArcOwner::downgrade(&owner));
        let mut future = ArcOwner::into_inner(owner);
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop((future, clone, weak));
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
    let before = LIVE.get();
    const ROUNDS: usize = 1000;
    (0..ROUNDS).for_each(|_| use_all());
    // The maps of waiters keep some nodes.
    assert!(LIVE.get() < before + ROUNDS * size_of::<usize>() * 4, "{} bytes", LIVE.get() - before);
}

/// Makes objects, which threads race to use first. Returns the bytes that are kept when the objects are gone.
fn kept_after_races<T: Sync>(new: fn() -> T, first_use: fn(&T)) -> isize {
    let live_during = |f: &mut dyn FnMut()| {
        let before = LIVE.get();
        f();
        LIVE.get().wrapping_sub(before) as isize
    };
    let race = |_| {
        let (mut object, ready) = (Some(new()), AtomicUsize::new(0));
        let used = thread::scope(|scope| {
            let race = || {
                ready.fetch_add(1, Relaxed);
                // At the same moment: threads that sleep would be woken one after the other.
                while ready.load(Relaxed) < 2 {
                    thread::yield_now();
                }
                live_during(&mut || first_use(object.as_ref().expect("not yet dropped")))
            };
            [(); 2].map(|()| scope.spawn(race)).map(|thread| thread.join().unwrap()).iter().sum::<isize>()
        });
        used + live_during(&mut || drop(object.take()))
    };
    (0..1000).map(race).sum()
}

#[test]
fn thread_that_loses_a_race_gives_its_memory_back() {
    if child::variant().is_none() {
        return child::run(thread_that_loses_a_race_gives_its_memory_back, "alone", None);
    }
    assert_eq!(kept_after_races(Counter::<u64>::new, Counter::prepare), 0);
    // A block for each thread, which later counts use.
    let block = 128 * (percpu::report().cpus() as isize + 1);
    let kept = kept_after_races(RefCount::new, RefCount::prepare);
    assert!(kept <= 2 * block, "{kept} bytes");
}

/// Leaves a waker with each of many objects. Returns how often the thread allocates while `end` ends the wait for one.
fn allocations_beside<F: Future + Unpin, T>(make: impl Fn() -> (T, F), end: impl FnOnce(T)) -> usize {
    let (mut ends, mut futures): (Vec<_>, Vec<_>) = (0..16_000).map(|_| make()).unzip();
    let context = &mut Context::from_waker(Waker::noop());
    for future in &mut futures {
        assert!(Pin::new(future).poll(context).is_pending());
    }
    let last = ends.pop().expect("there are some");
    let before = ALLOCATIONS.get();
    end(last);
    let allocations = ALLOCATIONS.get() - before;
    assert!(
        futures
            .iter_mut()
            .rev()
            .map(|future| Pin::new(future).poll(context).is_ready())
            .eq((0..16_000).map(|n| n == 0))
    );
    allocations
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
