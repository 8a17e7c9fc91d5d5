//! Destructors that the retiring thread runs, and that begin a read-side critical section or end one.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::*};

use stillpoint::Domain as _;
use stillpoint::rcu::Guard;
use support::deadline::deadline;
use support::owner::{BLOCK, LOCAL, busy, retire_plain, section_elsewhere};
use support::waiting::waiting_synchronize;

#[test]
fn repin_beside_a_guard_of_a_destructor_keeps_both() {
    stillpoint::domain! { struct Own; }
    thread_local! { static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) }; }
    struct Enters;
    impl Drop for Enters {
        fn drop(&mut self) {
            HELD.set(Some(Own::enter()));
        }
    }
    let _running = deadline();
    let _busy = busy::<Own>();
    let leave = section_elsewhere::<Own>();
    Own.retire_with(Box::new(Enters), LOCAL);
    retire_plain::<Own>(BLOCK - 1);
    let writer = waiting_synchronize::<Own>();
    let mut guard = Own::enter();
    retire_plain::<Own>(BLOCK);
    leave();
    writer.join().expect("the grace period ends");
    assert!(HELD.with_borrow(Option::is_none));
    guard.repin();
    assert!(HELD.take().is_some(), "the destructor runs in repin");
    assert!(Own::in_read_section(), "`guard` is still open after the destructor's guard is dropped");
    drop(guard);
    assert!(!Own::in_read_section());
}

#[test]
fn section_begun_by_a_destructor_delays_its_own_thread() {
    stillpoint::domain! { struct Own; }
    thread_local! { static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) }; }
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    struct Enters;
    impl Drop for Enters {
        fn drop(&mut self) {
            HELD.set(Some(Own::enter()));
            BEFORE.store(Own.stats().grace_periods, Relaxed);
        }
    }
    let _running = deadline();
    let _busy = busy::<Own>();
    Own.retire_with(Box::new(Enters), LOCAL);
    // This is the only thread, so its bookkeeping completes a grace period; the next one runs the destructor first.
    retire_plain::<Own>(2 * BLOCK - 1);
    let after = Own.stats().grace_periods;
    assert!(HELD.take().is_some(), "the destructor runs here");
    assert_eq!(after, BEFORE.load(Relaxed), "a grace period ends inside the section");
}

#[cfg(not(stillpoint_portable))]
#[test]
fn signal_after_a_destructor_left_the_section_runs_none() {
    stillpoint::domain! { struct Own; }
    thread_local! {
        static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) };
        static HANDLES: Cell<bool> = const { Cell::new(false) };
    }
    static IN_HANDLER: AtomicU64 = AtomicU64::new(0);
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            HELD.set(None);
        }
    }
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            IN_HANDLER.fetch_add(HANDLES.get().into(), Relaxed);
        }
    }
    extern "C" fn handle(_: libc::c_int) {
        HANDLES.set(true);
        drop(Own::enter());
        HANDLES.set(false);
    }
    let _running = deadline();
    // SAFETY: the handler only reads.
    unsafe { libc::signal(libc::SIGUSR1, handle as *const () as libc::sighandler_t) };
    let _busy = busy::<Own>();
    let leave = section_elsewhere::<Own>();
    Own.retire_with(Box::new(Leaves), LOCAL);
    (1..BLOCK).for_each(|_| Own.retire_with(Box::new(Counts), LOCAL));
    let writer = waiting_synchronize::<Own>();
    HELD.set(Some(Own::enter()));
    retire_plain::<Own>(BLOCK - 1);
    leave();
    writer.join().expect("the grace period ends");
    assert!(Own::in_read_section());
    // The bookkeeping begins inside the section and ends outside.
    retire_plain::<Own>(1);
    assert!(!Own::in_read_section(), "the destructor runs here");
    // SAFETY: a plain call.
    unsafe { libc::raise(libc::SIGUSR1) };
    assert_eq!(IN_HANDLER.load(Relaxed), 0, "destructors run in a signal handler");
}
