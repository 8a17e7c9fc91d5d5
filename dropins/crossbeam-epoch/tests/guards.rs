//! Guards: what they pin, and for how long.

mod support;

use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crossbeam_epoch::{self as epoch, Collector, Guard, LocalHandle, default_collector};
use support::deadline::deadline;
use support::{Participant, Participants};

in_all_ways!(
    guards_nest_and_end_in_any_order,
    repin_lets_functions_run,
    repin_of_nested_guard_does_nothing,
    repin_after_unpins_the_only_guard,
    repin_after_pins_again_after_a_panic,
);

fn guards_nest_and_end_in_any_order(way: &impl Participants) {
    let participant = way.participant();
    assert!(!participant.is_pinned());
    let guards = [(); 3].map(|()| participant.pin());
    for guard in guards {
        assert!(participant.is_pinned());
        drop(guard);
    }
    assert!(!participant.is_pinned());
}

/// A function that another thread defers.
struct Other<'a> {
    defer: &'a dyn Fn(),
    has_run: &'a dyn Fn() -> bool,
}

/// Calls `f` beside another thread, which goes on until the function has run that it defers.
fn beside_another<W: Participants>(way: &W, f: impl FnOnce(&W::Participant, Other<'_>)) {
    let has_run = &AtomicBool::new(false);
    let step = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let participant = way.participant();
            step.wait();
            // SAFETY: this thread does not end before it has run.
            unsafe { participant.pin().defer_unchecked(move || has_run.store(true, Release)) };
            participant.pin().flush();
            step.wait();
            participant.until(|| has_run.load(Acquire));
        });
        let defer = || {
            step.wait();
            step.wait();
        };
        f(&way.participant(), Other { defer: &defer, has_run: &|| has_run.load(Acquire) });
    });
}

/// Waits for longer than a function takes to run that may.
fn some_time() {
    thread::sleep(Duration::from_millis(20));
}

fn repin_lets_functions_run(way: &impl Participants) {
    beside_another(way, |participant, other| {
        let mut guard = participant.pin();
        (other.defer)();
        some_time();
        assert!(!(other.has_run)());
        while !(other.has_run)() {
            guard.repin();
        }
        assert!(participant.is_pinned());
    });
}

fn repin_of_nested_guard_does_nothing(way: &impl Participants) {
    beside_another(way, |participant, other| {
        let mut guards = [participant.pin(), participant.pin()];
        (other.defer)();
        for _ in 0..10 {
            for guard in &mut guards {
                guard.repin();
                assert!(guard.repin_after(|| participant.is_pinned()));
            }
            thread::sleep(Duration::from_millis(2));
        }
        assert!(!(other.has_run)());
    });
}

fn repin_after_unpins_the_only_guard(way: &impl Participants) {
    beside_another(way, |participant, other| {
        let mut guard = participant.pin();
        (other.defer)();
        let result = guard.repin_after(|| {
            assert!(!participant.is_pinned());
            while !(other.has_run)() {
                thread::yield_now();
            }
            // Guards of its own are no matter.
            drop((participant.pin(), participant.pin()));
            7
        });
        assert_eq!(result, 7);
        assert!(participant.is_pinned());
        drop(guard);
        assert!(!participant.is_pinned());
    });
}

fn repin_after_pins_again_after_a_panic(way: &impl Participants) {
    let participant = way.participant();
    let mut guard = participant.pin();
    let run = AssertUnwindSafe(|| guard.repin_after(|| panic!("expected")));
    assert!(catch_unwind(run).is_err());
    assert!(participant.is_pinned());
    drop(guard);
    assert!(!participant.is_pinned());
}

#[test]
fn leaked_guard_keeps_its_handle_pinned() {
    let _running = deadline();
    let has_run = Arc::new(AtomicBool::new(false));
    let collector = Collector::new();
    mem::forget(collector.register().pin());
    let (run, other) = (Arc::clone(&has_run), collector.register());
    other.pin().defer(move || run.store(true, Release));
    other.pin().flush();
    drop(other);
    some_time();
    assert!(!has_run.load(Acquire));
}

#[test]
fn handle_is_pinned_by_its_own_guards_only() {
    let _running = deadline();
    for collector in [&Collector::new(), default_collector()] {
        let (handle, other) = (collector.register(), collector.register());
        let guard = epoch::pin();
        assert!(epoch::is_pinned() && !handle.is_pinned());
        let own = handle.pin();
        assert!(epoch::is_pinned() && handle.is_pinned());
        drop(guard);
        assert!(handle.is_pinned() && !other.is_pinned() && !epoch::is_pinned());
        // Both ways to pin, in any order.
        let guards = [epoch::pin(), handle.pin(), epoch::pin()];
        drop(own);
        assert!(epoch::is_pinned() && handle.is_pinned());
        drop(guards);
        assert!(!epoch::is_pinned() && !handle.is_pinned());
    }
}

/// Functions that run when a handle is pinned may pin it too: as in a program whose handle is a thread-local
/// variable.
#[test]
fn handle_that_a_function_pins_keeps_other_functions_from_running() {
    let _running = deadline();
    for collector in [&Collector::new(), default_collector()] {
        let (handle, kept) = (collector.register(), RefCell::new(None));
        let is_held = AtomicBool::new(false);
        let (pinned, keep, held) = (&handle, &kept, &is_held);
        let function = move || {
            let guard = pinned.pin();
            let has_run = Arc::new(AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let (run, other) = (Arc::clone(&has_run), collector.register());
                    other.pin().defer(move || run.store(true, Release));
                    (0..100).for_each(|_| other.pin().flush());
                });
            });
            some_time();
            held.store(!has_run.load(Acquire), Release);
            keep.replace(Some(guard));
        };
        // The function must run in this thread, not in the library's: again until it does.
        let thread = thread::current().id();
        let has_run: &AtomicBool = Box::leak(Box::default());
        while !has_run.load(Acquire) {
            let function = move || {
                if thread::current().id() == thread && !has_run.swap(true, AcqRel) {
                    function();
                }
            };
            // SAFETY: what is borrowed is used only by the one that runs in this thread, before the loop ends.
            unsafe { handle.pin().defer_unchecked(function) };
            handle.pin().flush();
            drop(handle.pin());
        }
        assert!(is_held.load(Acquire));
        assert!(handle.is_pinned() && !epoch::is_pinned());
        drop(kept.take());
        assert!(!handle.is_pinned() && !epoch::is_pinned());
    }
}

#[test]
fn guard_outlives_its_handle_and_collector() {
    let _running = deadline();
    let collector = Collector::new();
    let handle = collector.register();
    let guard = handle.pin();
    let clone = collector.clone();
    drop((collector, handle));
    assert!(guard.collector() == Some(&clone));
    drop(clone);
    assert!(guard.collector().is_some());
    guard.defer(|| ());
    guard.flush();
}

#[test]
fn collectors_are_equal_if_they_are_the_same() {
    let (one, two) = (Collector::new(), Collector::default());
    assert!(one == one.clone() && one != two && one != *default_collector());
    assert!(*one.register().collector() == one && one.register().pin().collector() == Some(&one));
    assert!(epoch::pin().collector() == default_collector().register().pin().collector());
    let handle = one.register();
    assert_eq!(
        format!("{one:?} {handle:?} {:?}", handle.pin()),
        "Collector { .. } LocalHandle { .. } Guard { .. }"
    );
}

#[test]
fn thread_local_destructors_may_pin() {
    struct Pins(Option<LocalHandle>);
    impl Drop for Pins {
        fn drop(&mut self) {
            let guard = self.0.as_ref().map_or_else(epoch::pin, LocalHandle::pin);
            guard.defer(|| ());
            guard.flush();
        }
    }
    thread_local! {
        static FIRST: RefCell<Vec<Pins>> = const { RefCell::new(Vec::new()) };
        static SECOND: RefCell<Vec<Pins>> = const { RefCell::new(Vec::new()) };
    }
    let _running = deadline();
    let add = |list: &RefCell<Vec<Pins>>| {
        let handles = [None, Some(default_collector().register()), Some(Collector::new().register())];
        list.borrow_mut().extend(handles.map(Pins));
    };
    // Before the thread's own state is made, and after.
    thread::spawn(move || {
        FIRST.with(add);
        drop(epoch::pin());
        SECOND.with(add);
    })
    .join()
    .expect("it does not panic");
}

#[test]
fn guard_may_be_dropped_by_a_thread_local_destructor() {
    thread_local! {
        static GUARDS: RefCell<Vec<Guard>> = const { RefCell::new(Vec::new()) };
    }
    let _running = deadline();
    let collector = Collector::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            GUARDS.with_borrow_mut(|guards| {
                guards.extend([epoch::pin(), collector.register().pin(), epoch::pin()]);
                guards.iter().for_each(|guard| guard.defer(|| ()));
            });
        });
    });
}
