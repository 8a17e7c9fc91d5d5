//! Signal handlers that read at any moment of the interrupted thread.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::{mem, thread};

use libc::c_int;
use stillpoint::Domain as _;
use stillpoint::rcu::Rcu;
use support::deadline::deadline;
use support::signals::{expect, install, interrupt, send};
use support::tracked::Tracked;

#[test]
fn signal_handlers_may_read_at_any_moment() {
    stillpoint::domain! { struct Own; }
    static VALUE: OnceLock<Rcu<Tracked, Own>> = OnceLock::new();
    /// Handlers that ran between sections and inside one.
    static MOMENTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    fn check(drops: &AtomicUsize) {
        expect(drops.load(Acquire) == 0);
    }

    fn handle() {
        let was_inside = Own::in_read_section();
        let moment = MOMENTS[usize::from(was_inside)].fetch_add(1, Relaxed);
        if let Some(value) = VALUE.get() {
            let mut outer = Own::enter();
            let first = value.load(&outer).0;
            let inner = Own::enter();
            let second = value.load(&inner).0;
            check(first);
            check(second);
            if moment % 2 == 0 {
                drop(outer);
                check(second);
                drop(inner);
            } else {
                drop(inner);
                check(first);
                outer.repin();
                check(value.load(&outer).0);
                drop(outer);
            }
        }
        expect(Own::in_read_section() == was_inside);
    }

    let _running = deadline();
    let value = VALUE.get_or_init(|| Rcu::new_in(Tracked::leaked(), Own));
    let read = |round| {
        if round % 3 == 0 {
            Own::hint_idle();
        }
        let mut outer = Own::enter();
        let first = value.load(&outer).0;
        let inner = Own::enter();
        let second = value.load(&inner).0;
        check(first);
        drop(inner);
        check(second);
        outer.repin();
        check(value.load(&outer).0);
        drop(outer);
        assert!(!Own::in_read_section());
    };
    let write = |round| {
        let retired = value.replace(Tracked::leaked());
        if round % 2 == 0 {
            drop(retired.wait());
        }
    };
    let enough = || MOMENTS.iter().all(|count| count.load(Relaxed) >= 100);
    interrupt(handle, Own::register, read, write, enough);
    Own.synchronize();
}

#[test]
fn signals_do_not_affect_a_wait_for_readers() {
    stillpoint::domain! { struct Own; }
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_signal: c_int) {
        HANDLED.fetch_add(1, Release);
    }
    let _running = deadline();
    let signal = install(2, count);
    let guard = Own::enter();
    let writers = [(); 3].map(|()| thread::spawn(|| Own.synchronize()));
    while Own.stats().sleeps == 0 || Own.stats().callers < writers.len() as u64 {
        thread::yield_now();
    }
    for round in 1..=1000 {
        for writer in &writers {
            send(signal, writer);
        }
        while HANDLED.load(Acquire) < round * writers.len() {
            thread::yield_now();
        }
        assert!(writers.iter().all(|writer| !writer.is_finished()));
    }
    drop(guard);
    for writer in writers {
        writer.join().expect("the grace period ends");
    }
}

#[test]
fn signal_handlers_may_read_during_synchronize() {
    stillpoint::domain! { struct Own; }
    static READS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn read(_signal: c_int) {
        drop(Own::enter());
        READS.fetch_add(1, Release);
    }
    let _running = deadline();
    let signal = install(3, read);
    for _ in 0..20 {
        let guard = Own::enter();
        let before = Own.stats().sleeps;
        let writer = thread::spawn(|| {
            Own::register();
            Own.synchronize();
        });
        while Own.stats().sleeps == before {
            thread::yield_now();
        }
        for _ in 0..100 {
            let reads = READS.load(Acquire);
            send(signal, &writer);
            while READS.load(Acquire) == reads {
                thread::yield_now();
            }
        }
        drop(guard);
        writer.join().expect("the grace period ends");
    }
}

#[test]
fn worker_handles_no_process_signals() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    /// Signals that the worker does not block, seen from a destructor.
    static OPEN: AtomicUsize = AtomicUsize::new(usize::MAX);
    struct LooksAtTheMask;
    impl Drop for LooksAtTheMask {
        fn drop(&mut self) {
            // SAFETY: the set is plain data, which the call only writes.
            let blocked = unsafe {
                let mut blocked: libc::sigset_t = mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut blocked);
                blocked
            };
            let asynchronous = [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGCHLD, libc::SIGRTMIN()];
            // SAFETY: the set is initialized.
            let open =
                asynchronous.iter().filter(|&&signal| unsafe { libc::sigismember(&blocked, signal) } == 0);
            OPEN.store(open.count(), Relaxed);
            DROPS.fetch_add(1, Release);
        }
    }
    let _running = deadline();
    drop(Rcu::new_in(Some(LooksAtTheMask), Own).replace(None));
    while DROPS.load(Acquire) == 0 {
        thread::yield_now();
    }
    assert_eq!(OPEN.load(Relaxed), 0);
}
