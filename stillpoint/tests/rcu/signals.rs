//! Signal handlers that read at any moment of the interrupted thread.

use libc::c_int;
use support::prelude::*;
use support::signals::{expect, install, interrupt, send};

#[test]
fn signal_handlers_may_read_at_any_moment() {
    own!(Own);
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
fn signal_handlers_may_read_in_threads_that_wait() {
    static READS: AtomicUsize = AtomicUsize::new(0);
    own!(Own);
    extern "C" fn read(_signal: c_int) {
        drop(Own::enter());
        READS.fetch_add(1, Release);
    }
    let signal = install(2, read);
    let guard = Own::enter();
    let writers = [(); 3].map(|()| {
        thread::spawn(|| {
            Own::register();
            Own.synchronize();
        })
    });
    until(|| Own.stats().sleeps != 0 && Own.stats().callers == writers.len() as u64);
    for round in 1..=1000 {
        writers.iter().for_each(|writer| send(signal, writer));
        until(|| READS.load(Acquire) == round * writers.len());
        assert!(writers.iter().all(|writer| !writer.is_finished()));
    }
    drop(guard);
    writers.into_iter().for_each(|writer| writer.join().expect("the grace period ends"));
}

#[test]
fn worker_handles_no_process_signals() {
    own!(Own);
    let (sender, receiver) = channel();
    Own.call(move || {
        // SAFETY: the set is plain data, which the call only writes.
        let blocked = unsafe {
            let mut blocked: libc::sigset_t = mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut blocked);
            blocked
        };
        let asynchronous = [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGCHLD, libc::SIGRTMIN()];
        // SAFETY: the set is initialized.
        let is_open = |signal: &&c_int| unsafe { libc::sigismember(&blocked, **signal) } == 0;
        sender.send(asynchronous.iter().filter(is_open).count()).expect("the test listens");
    });
    assert_eq!(receiver.recv().expect("the callback runs"), 0);
}
