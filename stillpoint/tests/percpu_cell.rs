//! Values of a CPU: one thread at a time, whatever happens, and a visitor who gets at all of them.
#![cfg(not(loom))]

#[allow(dead_code, reason = "one way to start a child is enough here")]
#[path = "support/child.rs"]
mod child;
#[path = "support/deadline.rs"]
mod deadline;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "support/fork.rs"]
mod fork;
#[path = "support/panics.rs"]
mod panics;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "support/rseq.rs"]
mod rseq;
#[path = "support/ways.rs"]
mod ways;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::mpsc;
use std::{process, ptr, thread};

use deadline::deadline;
use stillpoint::percpu::{self, PerCpu};
use ways::in_every_way;

/// A number that shows whether two threads are at it at once.
#[derive(Debug, Default)]
struct Guarded {
    busy: AtomicBool,
    number: u64,
}

impl Guarded {
    fn add(&mut self, by: u64) {
        assert!(!self.busy.swap(true, Relaxed), "two threads at one value");
        self.number += by;
        self.busy.store(false, Relaxed);
    }
}

fn add_and_visit(threads: usize, rounds: u64, unregistered: impl Fn(usize) -> bool + Sync) {
    let _running = deadline();
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let cpus = rseq::allowed_cpus();
    let done = AtomicUsize::new(0);
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (cells, cpus, done, unregistered) = (&cells, &cpus, &done, &unregistered);
            scope.spawn(move || {
                if unregistered(thread) {
                    rseq::unregister();
                }
                for round in 0..rounds {
                    cells.with(|value| {
                        value.add(1);
                        if round % 512 == 0 {
                            // Others come while this is held, and it is given back from elsewhere.
                            thread::yield_now();
                            rseq::pin(&[cpus[(round as usize / 512 + thread) % cpus.len()]]);
                        }
                        value.add(1);
                    });
                    if round % 512 == 100 {
                        rseq::pin(cpus);
                    }
                }
                done.fetch_add(1, Release);
            });
        }
        while done.load(Acquire) < threads {
            cells.for_each(|value| {
                value.add(0);
                taken.fetch_add(std::mem::take(&mut value.number), Relaxed);
            });
        }
    });
    cells.for_each(|value| _ = taken.fetch_add(value.number, Relaxed));
    assert_eq!(taken.into_inner(), 2 * threads as u64 * rounds);
}

#[test]
fn one_thread_at_a_time_has_a_value_and_a_visitor_finds_all() {
    if in_every_way("one_thread_at_a_time_has_a_value_and_a_visitor_finds_all") {
        add_and_visit(8, 20_000, |_| false);
    }
}

#[test]
fn threads_with_and_without_rseq_use_different_values() {
    add_and_visit(6, 20_000, |thread| thread % 2 == 0);
}

#[test]
fn nested_calls_get_different_values() {
    if !in_every_way("nested_calls_get_different_values") {
        return;
    }
    let cells: PerCpu<Vec<usize>> = PerCpu::new(Vec::new);
    fn nest(cells: &PerCpu<Vec<usize>>, depth: usize) {
        cells.with(|value| {
            value.push(depth);
            if depth < 50 {
                nest(cells, depth + 1);
            }
            assert_eq!(value.pop(), Some(depth), "somebody else used this value");
        });
    }
    nest(&cells, 0);
    let mut values = 0;
    cells.for_each(|value| {
        assert!(value.is_empty());
        values += 1;
    });
    assert_eq!(values, 51);
}

#[test]
fn a_panic_gives_the_value_back() {
    if !in_every_way("a_panic_gives_the_value_back") {
        return;
    }
    let cells: PerCpu<u64> = PerCpu::new(|| 0);
    for _ in 0..10 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            cells.with(|value| {
                *value += 1;
                panic!("as it should");
            })
        }));
        assert!(panicked.is_err());
    }
    let visited = catch_unwind(AssertUnwindSafe(|| cells.for_each(|_| panic!("as it should"))));
    assert!(visited.is_err());
    let mut sum = 0;
    cells.for_each(|value| sum += *value);
    assert_eq!(sum, 10);
    cells.with(|value| *value += 1);
}

#[test]
fn a_value_that_cannot_be_made_is_tried_again() {
    static FAIL: AtomicBool = AtomicBool::new(true);
    let cells: PerCpu<u64> = PerCpu::new(|| if FAIL.load(Relaxed) { panic!("as it should") } else { 7 });
    assert!(catch_unwind(AssertUnwindSafe(|| cells.with(|_| ()))).is_err());
    FAIL.store(false, Relaxed);
    cells.with(|value| assert_eq!(*value, 7));
}

#[test]
fn a_visitor_waits_for_who_has_a_value() {
    if !in_every_way("a_visitor_waits_for_who_has_a_value") {
        return;
    }
    let _running = deadline();
    let cells: PerCpu<u64> = PerCpu::new(|| 0);
    let (entered, is_in) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let left = AtomicBool::new(false);
    thread::scope(|scope| {
        let (cells, left) = (&cells, &left);
        scope.spawn(move || {
            cells.with(|value| {
                entered.send(()).expect("somebody listens");
                may_leave.recv().expect("somebody says so");
                *value = 1;
                left.store(true, Release);
            });
        });
        is_in.recv().expect("it enters");
        let visitor = scope.spawn(move || {
            let mut sum = 0;
            cells.for_each(|value| sum += *value);
            assert!(left.load(Acquire));
            sum
        });
        // Others go on meanwhile.
        for _ in 0..1000 {
            cells.with(|value| *value += 0);
        }
        leave.send(()).expect("it waits for that");
        assert_eq!(visitor.join().expect("the visitor ends"), 1);
    });
}

#[test]
fn a_visit_from_within_panics_and_does_not_hang() {
    if !in_every_way("a_visit_from_within_panics_and_does_not_hang") {
        return;
    }
    let _running = deadline();
    let cells: PerCpu<u64> = PerCpu::new(|| 0);
    let from_with = catch_unwind(AssertUnwindSafe(|| cells.with(|_| cells.for_each(|_| ()))));
    let from_visit = catch_unwind(AssertUnwindSafe(|| cells.for_each(|_| cells.for_each(|_| ()))));
    for panic in [from_with, from_visit] {
        let panic = panic.expect_err("it would wait for itself");
        assert!(panics::message(&*panic).starts_with("PerCpu::for_each is called from within"));
    }
    // But a visitor may use values.
    cells.for_each(|_| cells.with(|value| *value += 1));
}

#[test]
fn the_child_of_a_fork_uses_and_visits_all_values_whatever_others_were_doing() {
    if !in_every_way("the_child_of_a_fork_uses_and_visits_all_values_whatever_others_were_doing") {
        return;
    }
    let _running = deadline();
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    cells.with(|value| value.add(1));
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                cells.for_each(|value| value.add(1));
            }
        });
        for _ in 0..100 {
            // SAFETY: the child only uses the values, and ends.
            match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: ends a child that hangs.
                    unsafe { libc::alarm(20) };
                    let used = catch_unwind(AssertUnwindSafe(|| {
                        for _ in 0..10 {
                            cells.with(|value| value.add(1));
                            cells.for_each(|value| value.add(1));
                        }
                    }));
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(if used.is_ok() { 0 } else { 1 }) };
                }
                child => {
                    let mut status = 0;
                    // SAFETY: waits for our own child, into a place that outlives the call.
                    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
                }
            }
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn the_child_of_a_fork_does_not_wait_for_who_held_a_value() {
    if !in_every_way("the_child_of_a_fork_does_not_wait_for_who_held_a_value") {
        return;
    }
    let _running = deadline();
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let (entered, is_in) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let cells = &cells;
        scope.spawn(move || {
            cells.with(|value| {
                value.busy.store(true, Relaxed);
                entered.send(()).expect("somebody listens");
                may_leave.recv().expect("somebody says so");
            });
        });
        is_in.recv().expect("it enters");
        // SAFETY: the child only uses the values, and ends.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: ends a child that hangs.
                unsafe { libc::alarm(20) };
                // What the other was at is gone.
                let used = catch_unwind(AssertUnwindSafe(|| {
                    cells.for_each(|value| value.add(1));
                    for _ in 0..1000 {
                        cells.with(|value| value.add(1));
                    }
                }));
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(if used.is_ok() { 0 } else { 1 }) };
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for our own child, into a place that outlives the call.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                leave.send(()).expect("it waits for that");
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
            }
        }
    });
}

#[test]
fn a_thread_that_forks_while_it_has_a_value_keeps_it_in_the_child() {
    if !in_every_way("a_thread_that_forks_while_it_has_a_value_keeps_it_in_the_child") {
        return;
    }
    let _running = deadline();
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let fork_in = |value: &mut Guarded| {
        value.busy.store(true, Relaxed);
        fork::in_child(|| {
            for _ in 0..10 {
                cells.with(|other| {
                    assert!(!ptr::eq(other, value), "the value has two holders");
                    other.add(1);
                });
            }
            assert!(value.busy.load(Relaxed), "the value is another one");
        });
        value.busy.store(false, Relaxed);
    };
    cells.with(fork_in);
    cells.for_each(fork_in);
}

/// The address of the value that a call finds.
fn address_of_value(cells: &PerCpu<Guarded>) -> *const Guarded {
    cells.with(|value| ptr::from_ref(value))
}

#[test]
fn row_opens_again_after_a_visit() {
    if !in_every_way("row_opens_again_after_a_visit") {
        return;
    }
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let before = address_of_value(&cells);
    cells.for_each(|value| assert!(ptr::eq(value, before), "one value so far"));
    assert_eq!(address_of_value(&cells), before, "the value of the CPU is not in use");
}

#[test]
fn child_of_a_fork_remakes_a_value_under_visit() {
    if !in_every_way("child_of_a_fork_remakes_a_value_under_visit") {
        return;
    }
    let _running = deadline();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let before = address_of_value(&cells).addr();
    let (entered, is_in) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let cells = &cells;
    // Owns `leave`: the visit ends also if the child fails.
    thread::scope(move |scope| {
        scope.spawn(move || {
            cells.for_each(|value| {
                value.busy.store(true, Relaxed);
                entered.send(()).expect("the test receives it");
                let _ = may_leave.recv();
            });
        });
        is_in.recv().expect("the visit begins");
        fork::in_child(|| {
            cells.with(|value| {
                assert_eq!(ptr::from_ref(value).addr(), before, "the row is open, and its cell free");
                // Panics if it is the one that the visit was changing.
                value.add(1);
            });
        });
        leave.send(()).expect("the visit waits for it");
    });
}

/// A value that must not be dropped, nor looked at, while somebody changes it.
#[derive(Debug, Default)]
struct Whole(Guarded);

impl Drop for Whole {
    fn drop(&mut self) {
        if *self.0.busy.get_mut() {
            // No panic: these must not leave a destructor.
            process::abort();
        }
    }
}

/// `depth` calls, each within the last.
fn nested(cells: &PerCpu<Whole>, depth: usize, innermost: &mut dyn FnMut()) {
    cells.with(|value| {
        value.0.busy.store(true, Relaxed);
        if depth > 1 {
            nested(cells, depth - 1, innermost)
        } else {
            innermost()
        }
        value.0.busy.store(false, Relaxed);
    });
}

#[test]
fn the_child_of_a_fork_does_not_drop_what_others_were_changing() {
    if !in_every_way("the_child_of_a_fork_does_not_drop_what_others_were_changing") {
        return;
    }
    let _running = deadline();
    let cells = Box::into_raw(Box::new(PerCpu::new(Whole::default)));
    // SAFETY: from a Box, which the parent takes back at the end.
    let shared: &PerCpu<Whole> = unsafe { &*cells };
    let (entered, is_in) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let status = thread::scope(|scope| {
        scope.spawn(move || {
            // One more than there are places at first.
            nested(shared, 2 + percpu::report().cpus(), &mut || {
                entered.send(()).expect("somebody listens");
                may_leave.recv().expect("somebody says so");
            });
        });
        is_in.recv().expect("it enters");
        // SAFETY: the child drops its copy, which nobody there uses, and ends.
        unsafe {
            match libc::fork() {
                0 => {
                    drop(Box::from_raw(cells));
                    libc::_exit(0);
                }
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    leave.send(()).expect("it waits for that");
                    status
                }
            }
        }
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    // SAFETY: the threads of this process have ended.
    drop(unsafe { Box::from_raw(cells) });
}
