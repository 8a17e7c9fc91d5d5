//! `srcu` domains in children of forks, at any moment of the other threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use stillpoint::rcu::{set_stall_hook, set_stall_timeout};
use stillpoint::srcu::Domain;
use support::prelude::*;

use crate::exercise;

#[test]
fn child_may_use_domains_new_and_old() {
    static UNUSED: Domain = Domain::new();
    static USED: Domain = Domain::new();
    alone!(on each backend);
    exercise(&USED);
    let gone = Domain::new();
    exercise(&gone);
    drop(gone);
    let local = Domain::new();
    for _ in 0..5 {
        in_child(|| {
            exercise(&UNUSED);
            exercise(&USED);
            exercise(&local);
            exercise(&Domain::new());
            // Also in a child of the child.
            in_child(|| exercise(&USED));
        });
        exercise(&USED);
    }
    in_child(|| drop(local));
    exercise(&UNUSED);
}

#[test]
fn forking_threads_section_stays_open_in_the_child() {
    static DOMAIN: Domain = Domain::new();
    alone!(on each backend);
    let drops: &'static AtomicUsize = Box::leak(Box::default());
    let value = Rcu::new_in(Tracked(drops), DOMAIN.clone());
    let guard = DOMAIN.enter();
    let seen = value.load(&guard);
    in_child(|| {
        drop(value.replace(Tracked(drops)));
        let readers = GracePeriod::start_in(DOMAIN.clone());
        until(|| DOMAIN.stats().sleeps != 0);
        assert_eq!(seen.0.load(Acquire), 0);
        assert!(!readers.is_elapsed());
        // The parent drops its own guard.
        // SAFETY: the child's copy; the child exits without destructors.
        drop(unsafe { std::ptr::read(&guard) });
        until(|| readers.is_elapsed());
        DOMAIN.barrier();
        assert_eq!(drops.load(Acquire), 1);
        exercise(&DOMAIN);
    });
    assert_eq!(drops.load(Acquire), 0);
    drop(guard);
    exercise(&DOMAIN);
}

#[test]
fn child_reports_sections_of_lost_threads() {
    static DOMAIN: Domain = Domain::new();
    static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    alone!(on each backend);
    let (inside, leave) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = DOMAIN.enter();
            inside.wait();
            leave.wait();
            drop(guard);
        });
        inside.wait();
        in_child(|| {
            set_stall_timeout(Some(Duration::from_millis(10)));
            set_stall_hook(Box::new(|stall| REPORTS.lock().expect("no panic").push(stall.to_string())));
            let readers = GracePeriod::start_in(DOMAIN.clone());
            until(|| !REPORTS.lock().expect("no panic").is_empty());
            assert!(!readers.is_elapsed());
            let report = REPORTS.lock().expect("no panic")[0].clone();
            assert!(report.contains(": 1 are open"), "{report}");
            assert!(report.contains("; those of threads that this process lost"), "{report}");
            // Another domain works.
            exercise(&Domain::new());
        });
        leave.wait();
    });
    exercise(&DOMAIN);
}

#[test]
fn child_does_not_wait_for_callbacks_of_the_parent() {
    static DOMAIN: Domain = Domain::new();
    alone!(on each backend);
    let called = Arc::new(AtomicUsize::new(0));
    let call = || {
        let called = Arc::clone(&called);
        move || _ = called.fetch_add(1, Release)
    };
    let guard = DOMAIN.enter();
    let (mut inherited, mut left) = (DOMAIN.barrier_async(), DOMAIN.barrier_async());
    fn is_ready(barrier: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        Pin::new(barrier).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
    DOMAIN.call(call());
    assert!(!is_ready(&mut left) && !is_ready(&mut inherited));
    in_child(|| {
        assert!(is_ready(&mut inherited));
        DOMAIN.call(call());
        let mut own = DOMAIN.barrier_async();
        assert!(!is_ready(&mut own));
        // SAFETY: the child's copies; the child exits without destructors.
        drop(unsafe { std::ptr::read(&left) });
        assert!(!is_ready(&mut own), "the section of this thread is open");
        // SAFETY: as above.
        drop(unsafe { std::ptr::read(&guard) });
        until(|| is_ready(&mut own));
        assert_eq!(called.load(Acquire), 1, "what the parent deferred is gone");
    });
    drop(guard);
    until(|| is_ready(&mut inherited));
    assert_eq!(called.load(Acquire), 1);
}

/// Other threads wait, defer, create domains and drop them. No thread holds a guard of `QUIET`.
#[test]
fn children_of_a_busy_process_work() {
    const FORKS: usize = 30;
    static QUIET: Domain = Domain::new();
    static BUSY: Domain = Domain::new();
    alone!(on each backend);
    let stop = AtomicBool::new(false);
    let bodies: [fn(); 5] = [
        || QUIET.synchronize(),
        || QUIET.call(|| ()),
        || QUIET.barrier(),
        || drop(BUSY.enter()),
        || {
            let domain = Domain::new();
            drop(domain.enter());
            domain.call(|| ());
        },
    ];
    let started = Barrier::new(bodies.len() + 1);
    thread::scope(|scope| {
        for body in bodies {
            let (stop, started) = (&stop, &started);
            scope.spawn(move || {
                started.wait();
                while !stop.load(Relaxed) {
                    body();
                    thread::yield_now();
                }
            });
        }
        started.wait();
        for _ in 0..FORKS {
            in_child(|| {
                exercise(&QUIET);
                exercise(&Domain::new());
            });
        }
        stop.store(true, Relaxed);
    });
}
