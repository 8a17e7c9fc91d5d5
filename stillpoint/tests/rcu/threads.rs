//! Threads that start, exit, and exit inside sections.

use std::ffi::c_void;

use stillpoint::rcu::Guard;
#[cfg(target_os = "linux")]
use support::late::{key, set};
use support::prelude::*;

/// Runs grace periods and callbacks of another domain, so that an error has time to happen.
fn run_other_grace_periods() {
    stillpoint::domain! { struct Other; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..20 {
        let dropped = DROPS.load(Acquire);
        drop(Rcu::new_in(Tracked(&DROPS), Other).replace(Tracked::leaked()));
        Other.synchronize();
        until(|| DROPS.load(Acquire) != dropped);
    }
}

#[test]
fn leaked_guard_protects_while_its_thread_lives_and_afterwards() {
    // Threads of the library wait for ever, which those of other tests may need. (Miri starts no processes.)
    #[cfg(not(miri))]
    alone!();
    own!(Own, DROPS);
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
    until(|| !(Own.stats().callers < 2 || Own.stats().sleeps == 0));
    end.send(()).expect("the reader listens");
    reader.join().expect("no panic");
    let after = thread::spawn(|| Own.synchronize());
    let retired = value.replace(Tracked(&DROPS));
    let retiring = thread::spawn(|| drop(retired.wait()));
    drop(value.replace(Tracked(&DROPS)));
    until(|| Own.stats().callers >= 4);
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
    // Threads of the library wait for ever, which those of other tests may need. (Miri starts no processes.)
    #[cfg(not(miri))]
    alone!();
    own!(Own, DROPS);
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
    until(|| Own.stats().callers >= 2);
    run_other_grace_periods();
    assert!(!writer.is_finished());
    assert_eq!(lent.0.load(Acquire), 0);
}

#[test]
fn guard_in_a_thread_local_ends_with_its_thread() {
    own!(Own);
    thread_local! {
        static KEPT: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) };
    }
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
    own!(Own);
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

#[cfg(target_os = "linux")]
#[test]
fn pthread_key_destructor_reads_without_leaking() {
    own!(Own);
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
