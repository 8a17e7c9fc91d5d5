//! Threads that report quiescent states.

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::qsbr;
use stillpoint::rcu::{GracePeriod, Limits, Rcu};
use support::deadline::deadline;
use support::panics::message;
use support::time_limit::repetitions;
use support::tracked::Tracked;
use support::until::until;

#[test]
fn tried_grace_period_is_blocked_by_threads_that_are_online() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    let mut handle = Own::register();
    let others_try =
        || thread::scope(|scope| scope.spawn(|| Own.try_synchronize()).join()).expect("no panic");
    assert!(!Own.try_synchronize() && !others_try());
    handle.offline(|| assert!(Own.try_synchronize() && others_try()));
}

#[test]
fn readers_see_whole_values_beside_writers() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    let pair = Rcu::new_in((0_u64, Box::new(0_u64)), Own);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut handle = Own::register();
                let mut last = 0;
                while !stop.load(Relaxed) {
                    for _ in 0..10 {
                        let (number, copy) = pair.load(&handle);
                        assert_eq!(*number, **copy);
                        assert!(*number >= last);
                        last = *number;
                    }
                    handle.quiescent();
                }
            });
        }
        for number in 1..=repetitions(2000) as u64 {
            let old = pair.replace((number, Box::new(number)));
            match number % 3 {
                0 => assert_eq!(old.wait().0, number - 1),
                1 => drop(old),
                _ => Own.synchronize(),
            }
        }
        stop.store(true, Relaxed);
    });
    Own.barrier();
    let stats = Own.stats();
    assert_eq!(stats.heavy_fences, 0);
    assert!(stats.wakeups <= stats.sleeps, "{stats:?}");
    assert_eq!(stats.queued, 0);
}

#[test]
fn grace_period_waits_for_online_threads_only() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
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
fn waiting_while_online_panics() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    let mut handle = Own::register();
    let number = Rcu::new_in(1, Own);
    let waits: [(&str, &dyn Fn()); 4] = [
        ("synchronize", &|| Own.synchronize()),
        ("barrier", &|| Own.barrier()),
        ("a cookie", &|| GracePeriod::now_in(Own).wait()),
        ("a value", &|| _ = number.replace(2).wait()),
    ];
    for (what, wait) in waits {
        let panic = catch_unwind(AssertUnwindSafe(wait)).expect_err(what);
        assert!(message(&*panic).contains("whose handle is online would wait for itself"), "{what}");
        handle.offline(wait);
    }
    handle.synchronize();
    assert!(Own::is_online());
    assert_eq!(*number.load(&handle), 2);
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
    qsbr::domain! { struct Own; }
    let _running = deadline();
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
    // The thread above, and one at a time of its own.
    assert!(Own.stats().readers <= 2, "{:?}", Own.stats());
}

#[test]
fn callback_waits_for_online_threads() {
    qsbr::domain! { struct Own; }
    static CALLED: AtomicBool = AtomicBool::new(false);
    let _running = deadline();
    let mut handle = Own::register();
    Own.call(|| {
        // The worker has no handle, and may wait.
        assert!(!Own::is_online());
        CALLED.store(true, Release);
    });
    until(|| Own.stats().sleeps > 0);
    assert!(!CALLED.load(Acquire));
    handle.quiescent();
    until(|| {
        handle.quiescent();
        CALLED.load(Acquire)
    });
}

#[test]
fn online_thread_is_throttled_at_quiescent_states() {
    qsbr::domain! { struct Own; }
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    const LIMIT: u64 = 1000;
    let _running = deadline();
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
fn waiting_offline_does_not_block_grace_periods() {
    qsbr::domain! { struct Own; }
    static LOCK: Mutex<()> = Mutex::new(());
    let _running = deadline();
    let waits = Barrier::new(2);
    thread::scope(|scope| {
        let held = LOCK.lock().expect("no panic");
        scope.spawn(|| {
            let mut handle = Own::register();
            handle.offline(|| {
                waits.wait();
                drop(LOCK.lock().expect("no panic"));
            });
        });
        waits.wait();
        Own.synchronize();
        drop(held);
    });
}

#[test]
fn reported_readers_make_no_system_call() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
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

#[test]
fn debug_output_needs_no_handle() {
    qsbr::domain! { struct Own; }
    assert_eq!(format!("{:?}", Rcu::new_in(1, Own)), "Rcu { .. }");
    assert!(format!("{:?}", Own::register()).contains("Own"));
}

#[test]
fn update_with_a_handle_replaces_the_value() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    let numbers = Rcu::new_in(vec![1], Own);
    let mut handle = Own::register();
    let old = numbers.update_with(&handle, |old| old.iter().copied().chain([2]).collect());
    assert_eq!(handle.offline(|| old.wait()), [1]);
    assert_eq!(*numbers.load(&handle), [1, 2]);
}

#[test]
fn leaked_handle_protects_after_its_thread_has_exited() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    let number: &'static Rcu<u32, Own> = Box::leak(Box::new(Rcu::new_in(7, Own)));
    // The reference stays valid, since the handle never reports.
    let lent: &'static u32 = thread::spawn(|| {
        let handle: &'static _ = Box::leak(Box::new(Own::register()));
        number.load(handle)
    })
    .join()
    .expect("no panic");
    drop(number.replace(8));
    // Never returns.
    let writer = thread::spawn(|| Own.synchronize());
    until(|| Own.stats().sleeps == 1);
    // Other threads register and exit, and other domains are not affected.
    for _ in 0..10 {
        thread::spawn(|| Own::register().quiescent()).join().expect("no panic");
        qsbr::synchronize();
    }
    assert!(!writer.is_finished());
    assert_eq!(*lent, 7);
}

#[cfg(target_os = "linux")]
#[test]
fn late_handle_drop_unblocks_grace_periods() {
    qsbr::domain! { struct Own; }
    unsafe extern "C" fn drop_handle(handle: *mut c_void) {
        // SAFETY: the pointer comes from the Box below; this runs once, on the thread of the handle.
        drop(unsafe { Box::from_raw(handle.cast::<qsbr::Handle<Own>>()) });
    }
    let _running = deadline();
    drop(Own::register());
    // Created after the key of the domain, so that glibc runs its destructor later.
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(drop_handle)) }, 0);
    for _ in 0..3 {
        let reader = thread::spawn(move || {
            let handle = Box::into_raw(Box::new(Own::register()));
            // SAFETY: the key exists, and its destructor takes this pointer.
            assert_eq!(unsafe { libc::pthread_setspecific(key, handle.cast()) }, 0);
        });
        reader.join().expect("the thread ends");
        Own.synchronize();
    }
    assert!(Own.stats().readers <= 2, "{:?}", Own.stats());
}

#[test]
fn handle_in_a_thread_local_is_dropped_with_its_thread() {
    qsbr::domain! { struct Own; }
    thread_local! {
        static HANDLE: RefCell<Option<qsbr::Handle<Own>>> = const { RefCell::new(None) };
    }
    let _running = deadline();
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
    qsbr::domain! { struct Own; }
    let _running = deadline();
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
    qsbr::domain! { struct Own; }
    const LIMIT: u64 = 1000;
    let _running = deadline();
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
