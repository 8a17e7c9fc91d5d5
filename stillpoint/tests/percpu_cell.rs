//! `PerCpu`: one thread at a time uses a value, and `for_each` visits all of them.
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

/// A number that detects two threads using it at once.
#[derive(Debug, Default)]
struct Guarded {
    busy: AtomicBool,
    number: u64,
}

impl Guarded {
    fn add(&mut self, by: u64) {
        assert!(!self.busy.swap(true, Relaxed), "two threads use one value");
        self.number += by;
        self.busy.store(false, Relaxed);
    }
}

fn add_and_collect(threads: usize, rounds: u64, unregistered: impl Fn(usize) -> bool + Sync) {
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
                            // Other threads run while this one owns the value, and releases it on another CPU.
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
fn values_are_exclusive_and_for_each_visits_all() {
    if in_every_way("values_are_exclusive_and_for_each_visits_all") {
        add_and_collect(8, 20_000, |_| false);
    }
}

#[test]
fn unregistered_threads_use_other_values() {
    add_and_collect(6, 20_000, |thread| thread % 2 == 0);
}

#[test]
fn nested_with_gets_another_value() {
    if !in_every_way("nested_with_gets_another_value") {
        return;
    }
    let cells: PerCpu<Vec<usize>> = PerCpu::new(Vec::new);
    fn nest(cells: &PerCpu<Vec<usize>>, depth: usize) {
        cells.with(|value| {
            value.push(depth);
            if depth < 50 {
                nest(cells, depth + 1);
            }
            assert_eq!(value.pop(), Some(depth), "another thread used this value");
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
fn panic_releases_the_value() {
    if !in_every_way("panic_releases_the_value") {
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
fn panicking_constructor_is_called_again() {
    static FAIL: AtomicBool = AtomicBool::new(true);
    let cells: PerCpu<u64> = PerCpu::new(|| if FAIL.load(Relaxed) { panic!("as it should") } else { 7 });
    assert!(catch_unwind(AssertUnwindSafe(|| cells.with(|_| ()))).is_err());
    FAIL.store(false, Relaxed);
    cells.with(|value| assert_eq!(*value, 7));
}

#[test]
fn for_each_waits_for_values_in_use() {
    if !in_every_way("for_each_waits_for_values_in_use") {
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
                entered.send(()).expect("the test receives it");
                may_leave.recv().expect("the test sends it");
                *value = 1;
                left.store(true, Release);
            });
        });
        is_in.recv().expect("it enters");
        let caller = scope.spawn(move || {
            let mut sum = 0;
            cells.for_each(|value| sum += *value);
            assert!(left.load(Acquire));
            sum
        });
        // Meanwhile other threads use other values.
        for _ in 0..1000 {
            cells.with(|value| *value += 0);
        }
        leave.send(()).expect("it waits for that");
        assert_eq!(caller.join().expect("the thread ends"), 1);
    });
}

#[test]
fn for_each_within_with_panics() {
    if !in_every_way("for_each_within_with_panics") {
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
    // But `for_each` may call `with`.
    cells.for_each(|_| cells.with(|value| *value += 1));
}

#[test]
fn fork_child_uses_all_values() {
    if !in_every_way("fork_child_uses_all_values") {
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
fn fork_child_does_not_wait_for_dead_owners() {
    if !in_every_way("fork_child_does_not_wait_for_dead_owners") {
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
                entered.send(()).expect("the test receives it");
                may_leave.recv().expect("the test sends it");
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
fn forking_owner_keeps_its_value_in_the_child() {
    if !in_every_way("forking_owner_keeps_its_value_in_the_child") {
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
fn area_reopens_after_for_each() {
    if !in_every_way("area_reopens_after_for_each") {
        return;
    }
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let before = address_of_value(&cells);
    cells.for_each(|value| assert!(ptr::eq(value, before), "one value so far"));
    assert_eq!(address_of_value(&cells), before, "the value of the CPU is not in use");
}

#[test]
fn fork_child_recreates_the_visited_value() {
    if !in_every_way("fork_child_recreates_the_visited_value") {
        return;
    }
    let _running = deadline();
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let cells: PerCpu<Guarded> = PerCpu::new(Guarded::default);
    let before = address_of_value(&cells).addr();
    let (entered, is_in) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let cells = &cells;
    // Owns `leave`: `for_each` ends also if the child fails.
    thread::scope(move |scope| {
        scope.spawn(move || {
            cells.for_each(|value| {
                value.busy.store(true, Relaxed);
                entered.send(()).expect("the test receives it");
                let _ = may_leave.recv();
            });
        });
        is_in.recv().expect("`for_each` has begun");
        fork::in_child(|| {
            cells.with(|value| {
                assert_eq!(ptr::from_ref(value).addr(), before, "the area is open, and its cell free");
                // Panics if it is the one that `for_each` was changing.
                value.add(1);
            });
        });
        leave.send(()).expect("`for_each` waits for it");
    });
}

/// A value that must not be dropped or read while a thread changes it.
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
fn fork_child_does_not_drop_values_in_use() {
    if !in_every_way("fork_child_does_not_drop_values_in_use") {
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
                entered.send(()).expect("the test receives it");
                may_leave.recv().expect("the test sends it");
            });
        });
        is_in.recv().expect("it enters");
        // SAFETY: the child drops its copy, which no thread there uses, and ends.
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
