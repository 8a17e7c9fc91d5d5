//! Deferred functions and destructors: they run once, not too early, and soon.

mod support;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

use ::support::counting::{Counting, allocations, freed};
use ::support::tracked::Tracked;
use ::support::until::until;
use crossbeam_epoch::{self as epoch, Collector, Guard, Owned};
use support::deadline::deadline;
use support::{Participant, Participants, counter};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

in_all_ways!(
    functions_wait_for_all_that_are_pinned,
    functions_of_all_kinds_run_once,
    values_of_all_kinds_are_destroyed_once,
    functions_may_pin_defer_and_flush,
    panic_does_not_keep_others_from_running,
    functions_run_when_their_thread_ends,
);

fn functions_wait_for_all_that_are_pinned(way: &impl Participants) {
    let ran = counter();
    let (pinned, deferred) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let participant = way.participant();
            let guard = participant.pin();
            pinned.store(true, Release);
            until(|| deferred.load(Acquire));
            // Functions run within a millisecond or two if they may.
            thread::sleep(Duration::from_millis(20));
            assert_eq!(ran.load(Acquire), 0);
            drop(guard);
        });
        until(|| pinned.load(Acquire));
        let participant = way.participant();
        for _ in 0..200 {
            let guard = participant.pin();
            guard.defer(|| ran.fetch_add(1, Release));
            guard.flush();
        }
        deferred.store(true, Release);
        participant.until(|| ran.load(Acquire) == 200);
    });
}

fn functions_of_all_kinds_run_once(way: &impl Participants) {
    let ran = counter();
    let participant = way.participant();
    // Not `Send`. Only the functions use it until they have run.
    let shared = Rc::new(ran);
    let guard = participant.pin();
    for _ in 0..100 {
        let (small, large) = (Rc::clone(&shared), (Rc::clone(&shared), [1_usize; 100]));
        guard.defer(|| Tracked(ran));
        // SAFETY: see above.
        unsafe {
            guard.defer_unchecked(move || small.fetch_add(1, Release));
            guard.defer_unchecked(move || large.0.fetch_add(large.1[99], Release));
        }
    }
    drop(guard);
    participant.until(|| ran.load(Acquire) == 300);
    // Their references are dropped a moment later.
    participant.until(|| Rc::strong_count(&shared) == 1);
    assert_eq!(ran.load(Acquire), 300);
}

fn values_of_all_kinds_are_destroyed_once(way: &impl Participants) {
    let dropped = counter();
    let participant = way.participant();
    for _ in 0..100 {
        let guard = &participant.pin();
        // SAFETY: no other thread has the pointers.
        unsafe {
            guard.defer_destroy(Owned::new(Tracked(dropped)).into_shared(guard));
            guard.defer_destroy(Owned::new([(); 10].map(|()| Tracked(dropped))).into_shared(guard));
            guard.defer_destroy(
                Owned::new(vec![Tracked(dropped), Tracked(dropped)]).with_tag(1).into_shared(guard),
            );
            // Without drop glue.
            guard.defer_destroy(Owned::new(7).into_shared(guard));
            guard.defer_destroy(Owned::<[MaybeUninit<u8>]>::init(1000).into_shared(guard));
        }
    }
    participant.until(|| dropped.load(Acquire) >= 1300);
    assert_eq!(dropped.load(Acquire), 1300);
}

fn functions_may_pin_defer_and_flush<W: Participants>(way: &W) {
    /// Defers itself from within, again and again.
    fn again<W: Participants>(way: &W, ran: &AtomicUsize) {
        if ran.fetch_add(1, Release) < 100 {
            let participant = way.participant();
            let guards = [participant.pin(), participant.pin()];
            // SAFETY: the test waits until it has run.
            unsafe { guards[0].defer_unchecked(move || again(way, ran)) };
            guards[1].flush();
        }
    }
    let ran = AtomicUsize::new(0);
    again(way, &ran);
    way.participant().until(|| ran.load(Acquire) == 101);
}

fn panic_does_not_keep_others_from_running(way: &impl Participants) {
    let ran = counter();
    let participant = way.participant();
    let guard = participant.pin();
    for i in 0..10 {
        guard.defer(move || {
            ran.fetch_add(1, Release);
            assert!(i % 2 == 0, "expected");
        });
    }
    drop(guard);
    participant.until(|| ran.load(Acquire) == 10);
}

fn functions_run_when_their_thread_ends(way: &impl Participants) {
    let ran = counter();
    for _ in 0..10 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let participant = way.participant();
                participant.pin().defer(|| ran.fetch_add(1, Release));
            });
        });
    }
    // Nothing else happens.
    until(|| ran.load(Acquire) == 10);
}

#[test]
fn functions_of_a_thread_run_without_further_activity() {
    let _running = deadline();
    let ran = counter();
    epoch::pin().defer(|| ran.fetch_add(1, Release));
    until(|| ran.load(Acquire) != 0);
}

/// Destructors may want the stack of that thread, and its cache has the memory.
#[test]
fn most_functions_run_in_the_thread_that_has_deferred_them() {
    const COUNT: usize = 10_000;
    let _running = deadline();
    let most_run_here = || {
        let (ran, here) = (counter(), counter());
        let thread = thread::current().id();
        for _ in 0..COUNT {
            epoch::pin().defer(move || {
                here.fetch_add(usize::from(thread::current().id() == thread), Relaxed);
                ran.fetch_add(1, Release);
            });
        }
        while ran.load(Acquire) != COUNT {
            drop(epoch::pin());
        }
        2 * here.load(Relaxed) > COUNT
    };
    // Unless another test keeps it pinned, or this thread loses its CPU.
    while !most_run_here() {}
}

#[test]
fn flush_does_not_wait_for_other_handles() {
    let _running = deadline();
    let ran = counter();
    let collector = Collector::new();
    let (handle, other) = (collector.register(), collector.register());
    let guard = other.pin();
    handle.pin().defer(|| ran.fetch_add(1, Release));
    for _ in 0..10 {
        handle.pin().flush();
    }
    assert_eq!(ran.load(Acquire), 0);
    drop(guard);
    // A thread of the library does it.
    until(|| ran.load(Acquire) != 0);
}

#[test]
fn functions_run_when_the_collector_is_dropped() {
    let _running = deadline();
    let ran = counter();
    let collector = Collector::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let handle = collector.register();
                (0..1000).for_each(|_| handle.pin().defer(|| ran.fetch_add(1, Release)));
            });
        }
    });
    drop(collector);
    until(|| ran.load(Acquire) == 4000);
}

/// A thread of the library runs them at this moment.
#[test]
fn functions_have_run_when_the_collector_has_been_dropped() {
    let _running = deadline();
    let (began, ran) = (counter(), counter());
    let handle = Collector::new().register();
    let guard = handle.pin();
    guard.defer(|| {
        began.store(1, Release);
        thread::sleep(Duration::from_millis(100));
    });
    (0..10).for_each(|_| guard.defer(|| ran.fetch_add(1, Release)));
    drop(guard);
    until(|| began.load(Acquire) != 0);
    drop(handle);
    assert_eq!(ran.load(Acquire), 10);
}

/// Nor does the function wait for itself.
#[test]
fn function_may_drop_the_collector() {
    let _running = deadline();
    let ran = counter();
    for _ in 0..10 {
        let collector = Collector::new();
        let handle = collector.register();
        let guard = handle.pin();
        // SAFETY: the collector may be dropped in any thread.
        unsafe { guard.defer_unchecked(move || drop(collector)) };
        (0..100).for_each(|_| guard.defer(|| ran.fetch_add(1, Release)));
    }
    until(|| ran.load(Acquire) == 1000);
}

#[test]
fn participants_that_have_ended_take_no_memory() {
    const COUNT: usize = 10_000;
    // Threads of other tests would free what this one allocates.
    ::support::alone!();
    let ran = counter();
    let collector = Collector::new();
    let handle = collector.register();
    let guard = handle.pin();
    let used = || allocations().wrapping_sub(freed());
    let before = used();
    for _ in 0..COUNT {
        collector.register().pin().defer(|| ran.fetch_add(1, Release));
    }
    let blocks = used() - before;
    assert_eq!(ran.load(Acquire), 0, "{blocks} blocks");
    assert!(blocks < COUNT / 32, "{blocks} blocks");
    drop(guard);
    handle.until(|| ran.load(Acquire) == COUNT);
}

/// The time would be quadratic if each that ends looked at all others.
#[test]
fn many_participants_end() {
    const COUNT: usize = 300_000;
    let _running = deadline();
    let ran = counter();
    let collector = Collector::new();
    let mut handles = Vec::new();
    for _ in 0..COUNT / 1000 {
        let more: Vec<_> = (0..1000).map(|_| collector.register()).collect();
        more.iter().for_each(|handle| handle.pin().defer(|| ran.fetch_add(1, Release)));
        handles.extend(more);
        handles[0].pin().flush();
    }
    handles[0].until(|| ran.load(Acquire) == COUNT);
    drop(handles);
}

/// The destructors of the crate have run.
#[test]
fn destructors_of_late_thread_locals_defer() {
    const COUNT: usize = 10_000;
    struct Late(Cell<Option<&'static [AtomicUsize; 2]>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let [ran, allocated] = self.0.get().expect("it was set");
            let before = allocations();
            (0..COUNT).for_each(|_| epoch::pin().defer(|| ran.fetch_add(1, Release)));
            allocated.store(allocations() - before, Release);
        }
    }
    thread_local! {
        static LATE: Late = const { Late(Cell::new(None)) };
    }
    let _running = deadline();
    let counters @ [ran, allocated]: &[_; 2] = Box::leak(Box::default());
    // Nothing runs, so that the worker stays: each start of one allocates.
    let pinned = epoch::pin();
    let exiting = thread::spawn(|| {
        // First, so that it is dropped last.
        LATE.with(|late| late.0.set(Some(counters)));
        epoch::pin().defer(|| ());
    });
    exiting.join().expect("it does not panic");
    drop(pinned);
    // A block of the queue for 64 of them, and the start of a worker.
    let allocated = allocated.load(Acquire);
    assert!(allocated < COUNT / 32, "{allocated} allocations");
    until(|| ran.load(Acquire) == COUNT);
}

#[test]
fn destroying_a_value_allocates_nothing() {
    const COUNT: usize = 10_000;
    let _running = deadline();
    let dropped = counter();
    let allocations = |guard: &Guard| {
        let values: Vec<_> = (0..COUNT).map(|_| Owned::new(Tracked(dropped))).collect();
        let before = allocations();
        for value in values {
            // SAFETY: no other thread has the pointer.
            unsafe { guard.defer_destroy(value.into_shared(guard)) };
        }
        allocations() - before
    };
    // A block of the queue for 64 of them. Of a handle, the bag too.
    let handle = Collector::new().register();
    for (guard, limit) in [(epoch::pin(), COUNT / 32), (handle.pin(), COUNT / 4)] {
        let count = allocations(&guard);
        assert!(count < limit, "{count} allocations");
    }
    handle.until(|| dropped.load(Acquire) == 2 * COUNT);
}
