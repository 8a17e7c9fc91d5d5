//! Deferred work of which the caller vouches for the types, and `flush`.

use support::counting::allocations;
use support::owner::section_elsewhere;
use support::prelude::*;

const LOCAL: DeferOptions = DeferOptions::new().run_on_retiring_thread();

/// Adds to the counter that `pointer` points to.
///
/// # Safety
///
/// It points to an `AtomicUsize` that lives for ever.
unsafe fn count(pointer: *mut ()) {
    // SAFETY: the caller's contract.
    unsafe { &*pointer.cast::<AtomicUsize>() }.fetch_add(1, Release);
}

fn pointer(counter: &'static AtomicUsize) -> *mut () {
    ptr::from_ref(counter).cast_mut().cast()
}

#[test]
fn raw_pointer_is_dropped_once_and_counts() {
    own!(Own, DROPS);
    let guard = Own::enter();
    for options in [DeferOptions::new(), LOCAL.heap_bytes(24)] {
        // SAFETY: the counter lives for ever.
        unsafe { Own.retire_raw_with(pointer(&DROPS), 1000, count, options) };
    }
    assert_eq!(Own.stats().queued_bytes, 2024);
    assert!(Own.flush());
    assert_eq!(DROPS.load(Acquire), 0);
    drop(guard);
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 2);
    assert_eq!(Own.stats().queued_bytes, 0);
}

#[test]
fn batch_counts_as_many_values_until_it_has_run() {
    own!(Own, DROPS);
    let guard = Own::enter();
    let mut all = 0;
    for (values, counted) in [(0, 1), (1, 1), (2, 2), (62, 62), (128, 128), (200, 128)] {
        // SAFETY: the counter lives for ever.
        unsafe { Own.retire_raw_with(pointer(&DROPS), 1 << 20, count, LOCAL.count(values)) };
        all += counted;
        assert_eq!(Own.stats().queued, all);
    }
    assert_eq!(Own.stats().queued_bytes, 6 << 20);
    drop(guard);
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 6);
    assert_eq!([Own.stats().queued, Own.stats().done], [0, all]);
}

/// However few the batches are.
#[test]
fn batches_count_towards_the_limit_after_64_values() {
    own!(Own, DROPS);
    Own.set_limits(Limits { count: 80, blocks: false, ..Limits::default() });
    let guard = Own::enter();
    for below in [true, true, false] {
        // SAFETY: the counter lives for ever.
        unsafe { Own.retire_raw_with(pointer(&DROPS), 8, count, LOCAL.count(30)) };
        assert_eq!(Own.is_below_limit(), below);
    }
    drop(guard);
    Own.barrier();
}

#[test]
fn call_that_only_pushes_runs_no_destructors() {
    thread_local! { static HERE: Cell<usize> = const { Cell::new(0) }; }
    own!(Own);
    /// # Safety
    ///
    /// None.
    unsafe fn here(_: *mut ()) {
        HERE.set(HERE.get() + 1);
    }
    let retire = |options| {
        // SAFETY: it does not use the pointer.
        (0..70).for_each(|_| unsafe { Own.retire_raw_with(ptr::null_mut(), 8, here, options) });
        Own.synchronize();
    };
    (0..3).for_each(|_| retire(LOCAL.push_only()));
    assert_eq!(HERE.get(), 0);
    // The worker may take what is ready.
    until(|| {
        retire(LOCAL);
        HERE.get() != 0
    });
    Own.barrier();
}

#[test]
fn raw_pointer_needs_no_allocation() {
    own!(Own, DROPS);
    const COUNT: usize = 10_000;
    // Nothing runs, so that the worker stays: each start of one allocates.
    let leave = section_elsewhere::<Own>();
    Own::register();
    let before = allocations();
    for _ in 0..COUNT {
        // SAFETY: the counter lives for ever.
        unsafe { Own.retire_raw_with(pointer(&DROPS), 0, count, DeferOptions::new()) };
    }
    // A block of the queue for 64 of them, and the start of a worker.
    let allocated = allocations() - before;
    assert!(allocated < COUNT / 32, "{allocated} allocations");
    leave();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), COUNT);
}

#[test]
fn panic_of_a_drop_function_is_counted() {
    own!(Own);
    unsafe fn fail(_: *mut ()) {
        panic!("expected: a drop function panics");
    }
    let before = Own.stats().panics;
    // SAFETY: `fail` does not use the pointer.
    unsafe { Own.retire_raw_with(ptr::null_mut(), 0, fail, DeferOptions::new()) };
    Own.barrier();
    assert!(Own.stats().panics > before);
}

#[test]
fn flush_runs_what_the_thread_may_run() {
    own!(Own, DROPS);
    for _ in 0..100 {
        Own.retire_with(Box::new(Tracked(&DROPS)), LOCAL);
    }
    until(|| !Own.flush());
    assert_eq!(DROPS.load(Acquire), 100);
    assert_eq!(Own.stats().queued, 0);
}

#[test]
fn flush_of_an_idle_thread_leaves_nothing() {
    own!(Own);
    assert!(!Own.flush());
    assert_eq!(Own.stats().readers, 0);
    drop(Own::enter());
    assert!(!Own.flush());
    assert!(!rcu::Global.flush());
}

#[test]
fn flush_inside_a_section_returns_at_once() {
    own!(Own, DROPS);
    let guard = Own::enter();
    Own.retire_with(Box::new(Tracked(&DROPS)), LOCAL);
    for _ in 0..100 {
        assert!(Own.flush());
    }
    assert_eq!(DROPS.load(Acquire), 0);
    drop(guard);
    until(|| !Own.flush());
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn flush_does_not_wait_for_other_readers() {
    own!(Own, DROPS);
    thread::scope(|scope| {
        let guard = Own::enter();
        let flushed = scope.spawn(|| {
            Own.retire_with(Box::new(Tracked(&DROPS)), LOCAL);
            Own.flush()
        });
        assert!(flushed.join().expect("it does not panic"));
        assert_eq!(DROPS.load(Acquire), 0);
        drop(guard);
    });
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn flush_leaves_callbacks_to_the_worker() {
    own!(Own);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let domain = srcu::Domain::new();
    let call = || _ = CALLS.fetch_add(1, Release);
    Own.call(call);
    domain.call(call);
    // This thread may not run them.
    until(|| !Own.flush() & !domain.flush());
    assert_eq!(CALLS.load(Acquire), 2);
}

#[test]
fn flush_of_a_sleepable_domain_covers_all_threads() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let domain = srcu::Domain::new();
    assert!(!domain.flush());
    let guard = domain.enter();
    thread::scope(|scope| {
        scope.spawn(|| domain.retire(Box::new(Tracked(&DROPS))));
    });
    assert!(domain.flush());
    drop(guard);
    until(|| !domain.flush());
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn callback_may_defer_enter_and_flush() {
    own!(Own);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    struct Again(usize);
    impl Drop for Again {
        fn drop(&mut self) {
            CALLS.fetch_add(1, Release);
            if self.0 != 0 {
                let _guard = Own::enter();
                Own.retire_with(Box::new(Again(self.0 - 1)), LOCAL);
                Own.flush();
            }
        }
    }
    drop(Again(100));
    until(|| {
        Own.flush();
        CALLS.load(Acquire) == 101
    });
}
