//! Review: who is inside, while owners run destructors and threads end.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;
#[path = "support/until.rs"]
mod until;

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use deadline::deadline;
use stillpoint::rcu::{Domain, Guard, Hints, Rcu};
use until::until;

const LOCAL: Hints = Hints::new().local();

/// Keeps the worker of `D` in a callback, called by a thread that ends, until dropped.
struct Busy(#[allow(dead_code)] Sender<()>);

fn busy<D: Domain>() -> Busy {
    // Not with the queue of the thread that calls: the worker holds that while it is busy.
    D::register();
    let (end, ended) = channel::<()>();
    let (begin, begun) = channel();
    thread::spawn(move || {
        D::call(move || {
            begin.send(()).unwrap();
            let _ = ended.recv();
        });
    })
    .join()
    .unwrap();
    begun.recv().unwrap();
    Busy(end)
}

/// Retires `value`, local, as the first of 64: its grace period has been asked for.
fn retire_first<D: Domain, T: Send + 'static>(value: T) {
    D::retire_with(Box::new(value), LOCAL);
    fill::<D>(63);
}

fn fill<D: Domain>(count: usize) {
    for _ in 0..count {
        D::retire(Box::new(0_u64));
    }
}

/// Calls `before`, and then `f` while a grace period waits, for another reader, that ends when `f` calls its argument.
fn behind_a_grace_period<D: Domain, T>(before: impl FnOnce(), f: impl FnOnce(&dyn Fn()) -> T) -> T {
    let (leave, left) = channel::<()>();
    let (enter, entered) = channel();
    let reader = thread::spawn(move || {
        let guard = D::enter();
        enter.send(()).unwrap();
        left.recv().unwrap();
        drop(guard);
        // Stays registered.
        left.recv().unwrap_err();
    });
    entered.recv().unwrap();
    before();
    let sleeps = D::stats().sleeps;
    let writer = RefCell::new(Some(thread::spawn(D::synchronize)));
    until(|| D::stats().sleeps > sleeps);
    let end = || {
        leave.send(()).unwrap();
        writer.take().unwrap().join().unwrap();
    };
    let value = f(&end);
    drop(leave);
    reader.join().unwrap();
    value
}

/// 1. `repin_slow` leaves, runs a destructor that enters (and keeps the guard), and does not count its own guard.
#[test]
fn repin_counts_its_own_guard_beside_one_that_a_local_destructor_has_made() {
    stillpoint::domain! { struct Own; }
    thread_local! { static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) }; }
    struct Enters;
    impl Drop for Enters {
        fn drop(&mut self) {
            HELD.set(Some(Own::enter()));
        }
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Release);
        }
    }
    let _running = deadline();
    let value = Rcu::new_in(Counts, Own);
    let mut guard = {
        let _busy = busy::<Own>();
        behind_a_grace_period::<Own, _>(
            || retire_first::<Own, _>(Enters),
            |end| {
                let mut guard = Own::enter();
                fill::<Own>(64);
                end();
                assert!(HELD.with_borrow(Option::is_none));
                guard.repin();
                guard
            },
        )
    };
    assert!(HELD.with_borrow(Option::is_some), "the destructor ran in repin");
    let lent = value.load(&guard);
    HELD.set(None);
    let inside = Own::is_inside();
    thread::scope(|scope| {
        scope.spawn(|| drop(value.replace(Counts)));
    });
    thread::sleep(Duration::from_millis(200));
    let drops = DROPS.load(Acquire);
    let _ = std::ptr::from_ref(lent);
    guard.repin();
    assert!(inside && drops == 0, "inside: {inside}; the value that `guard` lends was dropped {drops} times");
}

/// 2. A local destructor enters and keeps the guard; the bookkeeping believes that the thread is outside.
#[test]
fn section_that_a_local_destructor_has_begun_holds_up_the_owners_own_grace_period() {
    stillpoint::domain! { struct Own; }
    thread_local! { static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) }; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Release);
        }
    }
    struct Enters;
    impl Drop for Enters {
        fn drop(&mut self) {
            HELD.set(Some(Own::enter()));
            // Inside: what the guard may have lent.
            Own::retire(Box::new(Counts));
        }
    }
    let _running = deadline();
    {
        let _busy = busy::<Own>();
        retire_first::<Own, _>(Enters);
        // This thread is the only one: its grace periods cost nothing.
        for _ in 0..64 {
            if HELD.with_borrow(Option::is_some) {
                break;
            }
            fill::<Own>(1);
        }
        assert!(HELD.with_borrow(Option::is_some), "the destructor ran here");
    }
    thread::sleep(Duration::from_millis(300));
    let drops = DROPS.load(Acquire);
    HELD.set(None);
    assert_eq!(drops, 0, "dropped inside the section in which it was retired");
}

/// 3. The bookkeeping that a section has put off is done with a reader that has been given back.
#[test]
fn owner_that_has_given_its_reader_back_leaves_its_queue_alone() {
    stillpoint::domain! { struct Own; }
    static RUNS: AtomicBool = AtomicBool::new(false);
    static GO: AtomicBool = AtomicBool::new(false);
    static PARTED: AtomicBool = AtomicBool::new(false);
    struct Blocks;
    impl Drop for Blocks {
        fn drop(&mut self) {
            if PARTED.load(Acquire) {
                RUNS.store(true, Release);
                until(|| GO.load(Acquire));
            }
        }
    }
    unsafe extern "C" fn drop_guard(guard: *mut c_void) {
        PARTED.store(true, Release);
        // SAFETY: the pointer comes from the Box below; this runs once, on the thread of the guard.
        drop(unsafe { Box::from_raw(guard.cast::<Guard<Own>>()) });
    }
    let _running = deadline();
    drop(Own::enter());
    // Made after the key of the domain, so that its destructor runs later.
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(drop_guard)) }, 0);
    let ends = thread::spawn(move || {
        // Before the helpers: not one of their queues.
        let _busy = busy::<Own>();
        std::mem::forget(_busy);
        behind_a_grace_period::<Own, _>(
            || retire_first::<Own, _>(Blocks),
            |end| {
                let guard = Own::enter();
                fill::<Own>(64);
                end();
                // SAFETY: as above.
                assert_eq!(
                    unsafe { libc::pthread_setspecific(key, Box::into_raw(Box::new(guard)).cast()) },
                    0
                );
            },
        );
    });
    until(|| RUNS.load(Acquire) || ends.is_finished());
    let ran = RUNS.load(Acquire);
    let readers = Own::stats().readers;
    // Two readers are free now: that of the thread, and that of its helper. Both go to others.
    let (stay, stays) = channel::<()>();
    let stays = std::sync::Arc::new(std::sync::Mutex::new(stays));
    let all = std::sync::Arc::new(std::sync::Barrier::new(4));
    for _ in 0..3 {
        let (stays, all) = (stays.clone(), all.clone());
        thread::spawn(move || {
            drop(Own::enter());
            all.wait();
            let _ = stays.lock().unwrap().recv();
        });
    }
    all.wait();
    let grown = Own::stats().readers - readers;
    GO.store(true, Release);
    ends.join().unwrap();
    drop(stay);
    assert!(
        !ran,
        "the thread runs entries of a queue that it has given back (which others have by now: {grown} new)"
    );
}

/// 4. The same, with a late repin: it enters with the reader of another thread.
#[test]
fn repin_of_a_late_guard_does_not_give_the_reader_back() {
    stillpoint::domain! { struct Own; }
    static PINNED: AtomicBool = AtomicBool::new(false);
    static GO: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn repin(guard: *mut c_void) {
        // SAFETY: the pointer comes from the Box below; this runs once, on the thread of the guard.
        let mut guard = unsafe { Box::from_raw(guard.cast::<Guard<Own>>()) };
        guard.repin();
        PINNED.store(true, Release);
        until(|| GO.load(Acquire));
    }
    let _running = deadline();
    Own::register();
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(repin)) }, 0);
    let ends = thread::spawn(move || {
        let guard = Own::enter();
        fill::<Own>(64);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_setspecific(key, Box::into_raw(Box::new(guard)).cast()) }, 0);
    });
    until(|| PINNED.load(Acquire));
    let inside = thread::spawn(|| {
        Own::register();
        Own::is_inside()
    });
    let inside = inside.join().unwrap();
    GO.store(true, Release);
    ends.join().unwrap();
    assert!(!inside, "a thread that has just registered is inside a section");
}

/// 5. The mark is left on a thread that is outside: a signal handler that reads does the bookkeeping, wherever it comes.
#[test]
fn signal_handler_that_reads_runs_no_destructors() {
    stillpoint::domain! { struct Own; }
    thread_local! {
        static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) };
        static HANDLES: Cell<bool> = const { Cell::new(false) };
    }
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            HELD.set(None);
        }
    }
    struct Local;
    impl Drop for Local {
        fn drop(&mut self) {
            HANDLED.fetch_add(usize::from(HANDLES.get()), Release);
        }
    }
    extern "C" fn handle(_: libc::c_int) {
        HANDLES.set(true);
        drop(Own::enter());
        HANDLES.set(false);
    }
    let _running = deadline();
    Own::register();
    // SAFETY: the handler reads only.
    unsafe { libc::signal(libc::SIGUSR1, handle as *const () as libc::sighandler_t) };
    let _busy = busy::<Own>();
    let before = || {
        Own::retire_with(Box::new(Leaves), LOCAL);
        for _ in 0..63 {
            Own::retire_with(Box::new(Local), LOCAL);
        }
    };
    behind_a_grace_period::<Own, _>(before, |end| {
        HELD.set(Some(Own::enter()));
        fill::<Own>(63);
        end();
        // The bookkeeping, inside; the section ends meanwhile.
        fill::<Own>(1);
    });
    assert!(!Own::is_inside());
    // Anywhere in the program.
    // SAFETY: a plain call.
    unsafe { libc::raise(libc::SIGUSR1) };
    assert_eq!(HANDLED.load(Acquire), 0, "destructors ran in a signal handler");
}
