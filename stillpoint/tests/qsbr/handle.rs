//! Threads that report quiescent states.

use std::ffi::c_void;

#[cfg(target_os = "linux")]
use support::late::{key, leave_to, taken};
use support::prelude::*;

#[test]
fn tried_grace_period_is_blocked_by_threads_that_are_online() {
    own!(qsbr Own);
    let mut handle = Own::register();
    let others_try =
        || thread::scope(|scope| scope.spawn(|| Own.try_synchronize()).join()).expect("no panic");
    assert!(!Own.try_synchronize() && !others_try());
    handle.offline(|| assert!(Own.try_synchronize() && others_try()));
}

#[test]
fn grace_period_waits_for_online_threads_only() {
    // All workers may sleep for the readers of other tests. (Miri starts no processes, and runs this test alone.)
    #[cfg(not(miri))]
    alone!();
    own!(qsbr Own);
    let registered = Barrier::new(3);
    let (report, reports) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let registered = &registered;
        // The first thread is offline.
        let (wake, woken) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut handle = Own::register();
            handle.offline(|| {
                registered.wait();
                woken.recv()
            })
        });
        // The second thread is online, and reports when the test says so.
        scope.spawn(move || {
            let mut handle = Own::register();
            registered.wait();
            reports.recv().expect("the test sends");
            handle.quiescent();
            let _ = handle.offline(|| reports.recv());
        });
        registered.wait();
        let period = GracePeriod::start_in(Own);
        until(|| Own.stats().sleeps == 1);
        assert!(!period.is_elapsed());
        report.send(()).expect("the thread listens");
        period.wait();
        drop(report);
        drop(wake);
    });
    let stats = Own.stats();
    assert_eq!((stats.sleeps, stats.wakeups), (1, 1));
}

#[test]
fn thread_has_one_handle() {
    qsbr::domain! { struct Own; }
    qsbr::domain! { struct There; }
    let mut handle = Own::register();
    let refused = || {
        let panic = catch_unwind(Own::register).expect_err("there is one already");
        assert!(message(&*panic).contains("has a handle already"), "{}", message(&*panic));
    };
    refused();
    handle.offline(refused);
    // Only of this domain, and in this thread.
    drop(There::register());
    thread::scope(|scope| {
        scope.spawn(|| drop(Own::register()));
    });
    drop(handle);
    drop(Own::register());
}

#[test]
fn panic_while_offline_leaves_the_thread_online() {
    qsbr::domain! { struct Own; }
    let mut handle = Own::register();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        handle.offline(|| {
            assert!(!Own::is_online());
            panic!("on purpose")
        })
    }));
    assert_eq!(message(&*panic.expect_err("it panics")), "on purpose");
    assert!(Own::is_online());
    drop(handle);
    assert!(!Own::is_online());
}

#[test]
fn short_lived_threads_are_waited_for() {
    own!(qsbr Own);
    let number = Rcu::new_in(Box::new(7), Own);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..repetitions(10_000) {
                let handle = Own::register();
                assert_eq!(**number.load(&handle), 7);
            }
            // Also in threads of their own.
            for _ in 0..repetitions(200) {
                // Joined: a scope does not wait for the destructors of its threads.
                thread::scope(|scope| {
                    let reader = scope.spawn(|| assert_eq!(**number.load(&Own::register()), 7));
                    reader.join().expect("no panic");
                });
            }
            done.store(true, Release);
        });
        while !done.load(Acquire) {
            assert_eq!(*number.replace(Box::new(7)).wait(), 7);
        }
    });
    assert_eq!(Own.stats().heavy_fences, 0);
    // The thread above, and one at a time of its own.
    assert!(Own.stats().readers <= 2, "{:?}", Own.stats());
}

#[test]
fn online_thread_is_throttled_at_quiescent_states() {
    own!(qsbr Own, DROPPED);
    const LIMIT: u64 = 1000;
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let mut handle = Own::register();
    let mut most = 0;
    for _ in 0..2_000 {
        for _ in 0..32 {
            Own.retire(Box::new(Tracked(&DROPPED)));
        }
        handle.quiescent();
        most = most.max(Own.stats().queued);
    }
    assert!(most < 2 * LIMIT, "{most} were queued, {:?}", Own.stats());
    handle.offline(|| Own.barrier());
    assert_eq!(DROPPED.load(Acquire), 64_000);
}

#[test]
fn reported_readers_make_no_system_call() {
    own!(qsbr Own);
    let (online, stop) = (Barrier::new(3), AtomicBool::new(false));
    let reports = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut handle = Own::register();
            online.wait();
            while !stop.load(Acquire) {
                handle.quiescent();
                reports.fetch_add(1, Relaxed);
            }
        });
        scope.spawn(|| {
            let mut handle = Own::register();
            online.wait();
            // Another thread reports often in the meantime.
            until(|| Own.stats().sleeps == 1);
            let before = reports.load(Relaxed);
            until(|| reports.load(Relaxed) > before + 1000);
            handle.quiescent();
            handle.offline(|| until(|| stop.load(Acquire)));
        });
        online.wait();
        Own.synchronize();
        stop.store(true, Release);
    });
    assert_eq!(Own.stats().wakeups, 1);
}

#[cfg(target_os = "linux")]
#[test]
fn late_handle_drop_unblocks_grace_periods() {
    own!(qsbr Own);
    unsafe extern "C" fn drop_handle(handle: *mut c_void) {
        // SAFETY: the handle of the thread below.
        drop(unsafe { taken::<qsbr::Handle<Own>>(handle) });
    }
    drop(Own::register());
    // Created after the key of the domain.
    let key = key(drop_handle);
    for _ in 0..3 {
        let reader = thread::spawn(move || leave_to(key, Own::register()));
        reader.join().expect("the thread ends");
        Own.synchronize();
    }
    assert!(Own.stats().readers <= 2, "{:?}", Own.stats());
}

#[test]
fn handle_in_a_thread_local_is_dropped_with_its_thread() {
    own!(qsbr Own);
    thread_local! {
        static HANDLE: RefCell<Option<qsbr::Handle<Own>>> = const { RefCell::new(None) };
    }
    for round in 0..10 {
        let reader = thread::spawn(move || {
            // A variable that is used first is destroyed last.
            if round % 2 == 0 {
                HANDLE.set(None);
            }
            HANDLE.set(Some(Own::register()));
        });
        reader.join().expect("no panic");
        Own.synchronize();
    }
    // The reader was given back once each time: two threads have two.
    let online = Own::register();
    thread::spawn(|| drop(Own::register())).join().expect("no panic");
    let blocked = thread::spawn(|| GracePeriod::now_in(Own).wait_timeout(Duration::from_millis(20)));
    assert!(!blocked.join().expect("no panic"), "a grace period ends beside a thread that is online");
    drop(online);
    assert_eq!(Own.stats().readers, 2);
}

#[cfg(target_os = "linux")]
#[test]
fn long_grace_period_costs_its_leader_no_cpu_time() {
    own!(qsbr Own);
    let online = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let handle = Own::register();
            online.wait();
            until(|| Own.stats().sleeps == 1);
            thread::sleep(Duration::from_millis(300));
            drop(handle);
        });
        online.wait();
        let before = cpu_time();
        Own.synchronize();
        let spent = cpu_time() - before;
        assert!(spent < Duration::from_millis(100), "{spent:?} of 300 ms");
    });
}

/// Returns the CPU time of the calling thread.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place outlives the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn limits_hold_for_threads_going_offline_or_exiting() {
    own!(qsbr Own);
    const LIMIT: u64 = 1000;
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let work = |round, handle: Option<&mut qsbr::Handle<Own>>| {
        if round % 50 == 0 {
            // The worker stops here until a caller is throttled.
            let waits = Own.stats().limit_waits;
            Own.call(move || until(|| Own.stats().limit_waits > waits));
        }
        (0..64).for_each(|_| Own.call(|| ()));
        if let Some(handle) = handle {
            handle.offline(|| ());
        }
        // 64 come at a time. As many may have run that are still counted, if the worker has lost its CPU.
        assert!(Own.stats().queued <= LIMIT + 2 * 64, "{}", Own.stats());
    };
    let mut handle = Own::register();
    (0..500).for_each(|round| work(round, Some(&mut handle)));
    drop(handle);
    for round in 0..500 {
        let handle = Own::register();
        work(round, None);
        drop(handle);
    }
    assert!(Own.stats().limit_waits >= 20, "{}", Own.stats());
}

#[test]
fn destructor_in_the_drop_of_a_handle_gets_no_second_handle() {
    own!(qsbr Own);
    const LIMIT: u64 = 128;
    static REFUSED: AtomicU64 = AtomicU64::new(0);
    static HERE: AtomicU64 = AtomicU64::new(0);
    struct Registers(thread::ThreadId);
    impl Drop for Registers {
        fn drop(&mut self) {
            if thread::current().id() == self.0 {
                HERE.fetch_add(1, Relaxed);
                let refused = catch_unwind(Own::register).is_err();
                REFUSED.fetch_add(refused.into(), Relaxed);
            }
        }
    }
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let mut handle = Own::register();
    // The worker is busy, with a callback of a thread that has ended: so this thread runs its destructors itself.
    let (end, ended) = channel::<()>();
    let (begin, begun) = channel();
    let call = move || {
        Own.call(move || {
            begin.send(()).expect("the test waits");
            ended.recv().expect_err("the sender is dropped");
        });
    };
    thread::spawn(call).join().expect("no panic");
    handle.offline(|| begun.recv().expect("the callback runs"));
    let own = thread::current().id();
    // The first half of them are ready when the grace period of the drop has ended, and the others below the limit.
    for _ in 0..LIMIT {
        Own.retire_with(Box::new(Registers(own)), DeferOptions::new().run_on_retiring_thread());
    }
    assert_eq!(HERE.load(Relaxed), 0, "the thread is online");
    drop(handle);
    assert!(HERE.load(Relaxed) > 0, "the thread is throttled as it drops its handle");
    assert_eq!(REFUSED.load(Relaxed), HERE.load(Relaxed));
    drop(Own::register());
    drop(end);
    Own.barrier();
}

/// The thread has exited, but for a destructor that still has the handle.
#[cfg(target_os = "linux")]
#[test]
fn late_handle_keeps_its_reader_while_it_is_offline() {
    own!(qsbr Own);
    static READERS: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn use_handle(handle: *mut c_void) {
        // SAFETY: the handle of the thread below.
        let mut handle = unsafe { taken::<qsbr::Handle<Own>>(handle) };
        handle.offline(|| {
            Own.call(|| ());
            Own.flush();
            // If the reader were free, this thread would get it.
            thread::spawn(|| drop(Own::register())).join().expect("no panic");
            READERS.store(Own.stats().readers, Relaxed);
        });
    }
    // The only reader so far. The key is created after that of the domain.
    thread::spawn(|| drop(Own::register())).join().expect("no panic");
    let key = key(use_handle);
    let exits = thread::spawn(move || leave_to(key, Own::register()));
    exits.join().expect("no panic");
    assert_eq!(READERS.load(Relaxed), 2, "the thread still has its reader");
    Own.synchronize();
    Own.barrier();
}
