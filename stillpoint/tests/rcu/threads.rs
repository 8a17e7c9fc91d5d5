//! Threads that start, exit, and exit inside sections.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Barrier, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::rcu::{Guard, Rcu};
use support::backends;
use support::child;
use support::deadline::deadline;
use support::store_buffer::StoreBuffer;
use support::tracked::Tracked;
use support::waiting::waiting_synchronize;

/// Runs grace periods and callbacks of another domain, so that an error has time to happen.
fn run_other_grace_periods() {
    stillpoint::domain! { struct Other; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..20 {
        let dropped = DROPS.load(Acquire);
        drop(Rcu::new_in(Tracked(&DROPS), Other).replace(Tracked(Box::leak(Box::default()))));
        Other.synchronize();
        while DROPS.load(Acquire) == dropped {
            thread::yield_now();
        }
    }
}

#[test]
fn leaked_guard_protects_while_its_thread_lives_and_afterwards() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let (leaked, leaks) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        // Nested: both guards are leaked.
        mem::forget((Own::enter(), Own::enter()));
        leaked.send(()).expect("the test listens");
        ends.recv().expect("the test sends");
    });
    leaks.recv().expect("the guards are leaked");

    drop(value.replace(Tracked(&DROPS)));
    // Never returns, like all waits here.
    let before = thread::spawn(|| Own.synchronize());
    while Own.stats().callers < 2 || Own.stats().sleeps == 0 {
        thread::yield_now();
    }
    end.send(()).expect("the reader listens");
    reader.join().expect("no panic");
    let after = thread::spawn(|| Own.synchronize());
    let retired = value.replace(Tracked(&DROPS));
    let retiring = thread::spawn(|| drop(retired.wait()));
    drop(value.replace(Tracked(&DROPS)));
    while Own.stats().callers < 4 {
        thread::yield_now();
    }
    run_other_grace_periods();
    assert!([before, after].iter().all(|writer| !writer.is_finished()));
    assert!(!retiring.is_finished());
    assert_eq!(DROPS.load(Acquire), 0);

    // Reads still work, and the owner drops the value that was never retired.
    assert_eq!(value.load(&Own::enter()).0.load(Acquire), 0);
    drop(value);
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn static_reference_from_a_leaked_guard_outlives_its_thread() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let value: &'static Rcu<Tracked, Own> = Box::leak(Box::new(Rcu::new_in(Tracked(&DROPS), Own)));
    let lent: &'static Tracked = thread::spawn(|| {
        let guard: &'static Guard<Own> = Box::leak(Box::new(Own::enter()));
        value.load(guard)
    })
    .join()
    .expect("no panic");

    let readers = Own.stats().readers;
    for _ in 0..100 {
        drop(value.replace(Tracked(&DROPS)));
        // The reader gets no other owner.
        thread::spawn(|| drop(Own::enter())).join().expect("no panic");
    }
    assert!(Own.stats().readers <= readers + 2, "{:?}", Own.stats());
    // Never returns, nor does the worker's wait.
    let writer = thread::spawn(|| Own.synchronize());
    while Own.stats().callers < 2 {
        thread::yield_now();
    }
    run_other_grace_periods();
    assert!(!writer.is_finished());
    assert_eq!(lent.0.load(Acquire), 0);
}

#[test]
fn leaked_guard_leaves_other_domains_alone() {
    stillpoint::domain! { struct Leaked; }
    stillpoint::domain! { struct Other; }
    let _running = deadline();
    let reader = thread::spawn(|| {
        mem::forget(Leaked::enter());
        drop(Other::enter());
    });
    reader.join().expect("no panic");
    let writer = waiting_synchronize::<Leaked>();
    Other.synchronize();
    run_other_grace_periods();
    assert!(!writer.is_finished());
}

#[test]
fn guard_in_a_thread_local_ends_with_its_thread() {
    stillpoint::domain! { struct Own; }
    thread_local! {
        static KEPT: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) };
    }
    let _running = deadline();
    for round in 0..100 {
        let (end, ends) = mpsc::channel::<()>();
        let (kept, keeps) = mpsc::channel();
        let reader = thread::spawn(move || {
            // A variable that is used first is destroyed last.
            if round % 2 == 0 {
                KEPT.set(None);
            }
            KEPT.set(Some(Own::enter()));
            kept.send(()).expect("the test listens");
            ends.recv().expect("the test sends");
        });
        keeps.recv().expect("the guard is kept");
        let writer = waiting_synchronize::<Own>();
        end.send(()).expect("the reader listens");
        writer.join().expect("the grace period ends");
        reader.join().expect("the thread ends");
    }
    assert_eq!(Own.stats().readers, 1);
}

#[test]
fn thread_local_destructor_reads_without_leaking() {
    stillpoint::domain! { struct Own; }
    static READS: AtomicUsize = AtomicUsize::new(0);
    struct ReadsAtTheEnd(Rcu<usize, Own>);
    impl Drop for ReadsAtTheEnd {
        fn drop(&mut self) {
            READS.fetch_add(*self.0.load(&Own::enter()), Relaxed);
        }
    }
    thread_local! {
        static LAST: RefCell<Option<ReadsAtTheEnd>> = const { RefCell::new(None) };
    }
    let _running = deadline();
    for reads_before in [true, false] {
        for _ in 0..50 {
            let reader = thread::spawn(move || {
                LAST.set(Some(ReadsAtTheEnd(Rcu::new_in(1, Own))));
                if reads_before {
                    drop(Own::enter());
                }
            });
            reader.join().expect("the thread ends");
        }
    }
    assert_eq!(READS.load(Relaxed), 100);
    assert_eq!(Own.stats().readers, 1);
    Own.synchronize();
}

#[test]
fn thread_local_destructor_may_retire() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct RetiresAtTheEnd(Rcu<Tracked, Own>);
    impl Drop for RetiresAtTheEnd {
        fn drop(&mut self) {
            drop(self.0.replace(Tracked(&DROPS)));
        }
    }
    thread_local! {
        static LAST: RefCell<Option<RetiresAtTheEnd>> = const { RefCell::new(None) };
    }
    let _running = deadline();
    for _ in 0..50 {
        let writer = thread::spawn(|| LAST.set(Some(RetiresAtTheEnd(Rcu::new_in(Tracked(&DROPS), Own)))));
        writer.join().expect("the thread ends");
    }
    while DROPS.load(Acquire) < 100 {
        thread::yield_now();
    }
}

/// Creates a thread-specific data key with this destructor.
#[cfg(target_os = "linux")]
fn key(destructor: unsafe extern "C" fn(*mut c_void)) -> libc::pthread_key_t {
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(destructor)) }, 0);
    key
}

#[cfg(target_os = "linux")]
fn set(key: libc::pthread_key_t, pointer: *mut c_void) {
    // SAFETY: the key exists, and its destructor takes this pointer.
    assert_eq!(unsafe { libc::pthread_setspecific(key, pointer) }, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn late_guard_drop_unblocks_grace_periods() {
    stillpoint::domain! { struct Own; }
    unsafe extern "C" fn drop_guard(guard: *mut c_void) {
        // SAFETY: the pointer comes from the Box below; this runs once, on the thread of the guard.
        drop(unsafe { Box::from_raw(guard.cast::<Guard<Own>>()) });
    }
    let _running = deadline();
    drop(Own::enter());
    // Created after the key of the domain, so that glibc runs its destructor later.
    let late = key(drop_guard);
    for _ in 0..3 {
        let reader = thread::spawn(move || set(late, Box::into_raw(Box::new(Own::enter())).cast()));
        reader.join().expect("the thread ends");
        Own.synchronize();
    }
    assert!(Own.stats().readers <= 2, "{:?}", Own.stats());
}

#[cfg(target_os = "linux")]
#[test]
fn pthread_key_destructor_reads_without_leaking() {
    stillpoint::domain! { struct Own; }
    thread_local! {
        static ROUNDS: Cell<usize> = const { Cell::new(0) };
    }
    static READS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn read(again: *mut c_void) {
        drop(Own::enter());
        READS.fetch_add(1, Relaxed);
        if ROUNDS.replace(ROUNDS.get() + 1) == 0 {
            // SAFETY: the pointer of the key's number, which lives as long as the process.
            set(unsafe { *again.cast() }, again);
        }
    }
    let _running = deadline();
    let early: &'static libc::pthread_key_t = Box::leak(Box::new(key(read)));
    drop(Own::enter());
    let late: &'static libc::pthread_key_t = Box::leak(Box::new(key(read)));
    for _ in 0..50 {
        let reader = thread::spawn(move || {
            drop(Own::enter());
            for key in [early, late] {
                set(*key, std::ptr::from_ref(key).cast_mut().cast());
            }
        });
        reader.join().expect("the thread ends");
    }
    assert_eq!(READS.load(Relaxed), 150);
    assert!(Own.stats().readers <= 2, "{:?}", Own.stats());
    Own.synchronize();
}

#[cfg(target_os = "linux")]
#[test]
fn section_in_a_pthread_key_destructor_protects() {
    stillpoint::domain! { struct Own; }
    static VALUE: OnceLock<Rcu<Tracked, Own>> = OnceLock::new();
    static STOP: AtomicBool = AtomicBool::new(false);
    static WRONG: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn read(_: *mut c_void) {
        let value = VALUE.get().expect("the test has set it");
        let mut buffer = StoreBuffer::default();
        while !STOP.load(Relaxed) {
            buffer.fill();
            let guard = Own::enter();
            let drops = value.load(&guard).0;
            WRONG.fetch_add((0..200).map(|_| drops.load(Acquire)).max().unwrap_or(0), Relaxed);
            drop(guard);
        }
    }
    if child::variant().is_none() {
        // The destructors run in the order of the keys' creation, which may differ between processes.
        for backend in backends!() {
            let test = section_in_a_pthread_key_destructor_protects;
            child::run(test, backend, Some(backend));
        }
        return;
    }
    let _running = deadline();
    // Keys of this test, of the domain.
    let between = key(read);
    let value = VALUE.get_or_init(|| Rcu::new_in(Tracked(Box::leak(Box::default())), Own));
    let reader = thread::spawn(move || {
        drop(Own::enter());
        set(between, std::ptr::without_provenance_mut(1));
    });
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) && WRONG.load(Relaxed) == 0 {
        let retired = value.replace(Tracked(Box::leak(Box::default())));
        Own.synchronize();
        // Stands for its drop.
        retired.0.fetch_add(1, Release);
    }
    STOP.store(true, Relaxed);
    reader.join().expect("the thread ends");
    assert_eq!(WRONG.load(Relaxed), 0, "dropped while it was read");
}

#[test]
fn readers_are_reused_by_ten_thousand_threads() {
    stillpoint::domain! { struct Own; }
    const WAVE: usize = 16;
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let mut started = 0;
    while started < 10_000 {
        let all = Barrier::new(WAVE);
        thread::scope(|scope| {
            let read = || {
                let guard = Own::enter();
                assert_eq!(value.load(&guard).0.load(Acquire), 0);
                all.wait();
            };
            // Joined explicitly: a scope does not wait for the destructors of its threads.
            for thread in [(); WAVE].map(|()| scope.spawn(read)) {
                thread.join().expect("the thread ends");
            }
        });
        started += WAVE;
    }
    assert_eq!(Own.stats().readers, WAVE as u64);
    Own.synchronize();
}

#[test]
fn short_lived_threads_do_not_disturb_a_writer() {
    stillpoint::domain! { struct Own; }
    // Beside other load it takes long to yield, so there are fewer threads.
    const TIME: Duration = Duration::from_secs(2);
    let _running = deadline();
    let value = Rcu::new_in(Tracked(Box::leak(Box::default())), Own);
    let begin = Instant::now();
    thread::scope(|scope| {
        let births: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in (0..100).take_while(|_| begin.elapsed() < TIME) {
                        let read = || {
                            for _ in 0..20 {
                                let guard = Own::enter();
                                let drops = value.load(&guard).0;
                                thread::yield_now();
                                assert_eq!(drops.load(Acquire), 0, "freed while it was read");
                            }
                        };
                        thread::scope(|inner| inner.spawn(read).join().expect("no panic"));
                    }
                })
            })
            .collect();
        while !births.iter().all(|birth| birth.is_finished()) {
            drop(value.replace(Tracked(Box::leak(Box::default()))).wait());
        }
    });
    // Four threads, the test itself, and perhaps the worker.
    assert!(Own.stats().readers <= 6, "{:?}", Own.stats());
}
