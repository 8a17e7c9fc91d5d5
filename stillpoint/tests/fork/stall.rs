//! The child of a fork keeps the stall hook, and the readers of threads that have ended.

use std::process;

use support::asleep::tid;
use support::fork;
use support::prelude::*;

stillpoint::domain! { struct Own; }

/// The process of the last report.
static REPORTED_BY: AtomicU64 = AtomicU64::new(0);

/// The thread that the last report names.
static STALLED: AtomicU64 = AtomicU64::new(0);

/// Returns when a stall has been reported here.
fn stall() {
    static ENTERED: AtomicBool = AtomicBool::new(false);
    ENTERED.store(false, Relaxed);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let _guard = Own::enter();
            ENTERED.store(true, Release);
            until(|| REPORTED_BY.load(Acquire) == u64::from(process::id()));
        });
        until(|| ENTERED.load(Acquire));
        Own.synchronize();
        // A scope does not wait for the end of its threads: see `fork::is_alone`.
        reader.join().expect("no panic");
    });
}

#[test]
fn child_calls_the_hook_that_was_set_before_the_fork() {
    alone!(on each backend);
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(|_| REPORTED_BY.store(process::id().into(), Release)));
    // Twice: the child's child has the hook too.
    fork::in_child(|| {
        stall();
        fork::in_child(stall);
    });
    stall();
}

#[test]
fn child_uses_readers_again() {
    alone!(on each backend);
    // Two threads at once: so there are two readers, one of them free at the fork.
    thread::scope(|scope| {
        Own::register();
        scope.spawn(Own::register).join().expect("no panic");
    });
    let readers = Own.stats().readers;
    assert_eq!(readers, 2);
    fork::in_child(|| {
        thread::spawn(Own::register).join().expect("no panic");
        assert_eq!(Own.stats().readers, readers);
        Own.synchronize();
    });
}

#[test]
fn report_in_a_child_names_its_thread_by_the_new_id() {
    alone!(on each backend);
    stillpoint::qsbr::domain! { struct Reports; }
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(|stall| {
        if let [reader] = stall.readers() {
            STALLED.store(reader.thread_id().into(), Release);
        }
    }));
    let (guard, handle) = (Own::enter(), Reports::register());
    let finds_its_id = |synchronize: fn()| {
        STALLED.store(0, Relaxed);
        let writer = thread::spawn(synchronize);
        let reported = loop {
            match STALLED.load(Acquire) {
                0 => thread::yield_now(),
                reported => break reported,
            }
        };
        assert_eq!(reported, u64::from(tid().unsigned_abs()));
        writer
    };
    fork::in_child(|| {
        let writer = finds_its_id(|| Own.synchronize());
        drop(guard);
        writer.join().expect("no panic");
        let writer = finds_its_id(|| Reports.synchronize());
        drop(handle);
        writer.join().expect("no panic");
    });
}
