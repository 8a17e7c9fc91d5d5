//! Destructors that the retiring thread runs, and that begin a read-side critical section or end one.

use stillpoint::rcu::Guard;
use support::owner::{BLOCK, LOCAL, busy, retire_plain, section_elsewhere};
use support::prelude::*;

#[test]
fn repin_beside_a_guard_of_a_destructor_keeps_both() {
    own!(Own);
    thread_local! { static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) }; }
    let _busy = busy::<Own>();
    let leave = section_elsewhere::<Own>();
    Own.retire_with(Box::new(OnDrop(|| HELD.set(Some(Own::enter())))), LOCAL);
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
    own!(Own);
    thread_local! { static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) }; }
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let _busy = busy::<Own>();
    let enters = OnDrop(|| {
        HELD.set(Some(Own::enter()));
        BEFORE.store(Own.stats().grace_periods, Relaxed);
    });
    Own.retire_with(Box::new(enters), LOCAL);
    // This is the only thread, so its bookkeeping completes a grace period; the next one runs the destructor first.
    retire_plain::<Own>(2 * BLOCK - 1);
    let after = Own.stats().grace_periods;
    assert!(HELD.take().is_some(), "the destructor runs here");
    assert_eq!(after, BEFORE.load(Relaxed), "a grace period ends inside the section");
}

#[cfg(not(stillpoint_portable))]
#[test]
fn signal_after_a_destructor_left_the_section_runs_none() {
    own!(Own);
    thread_local! {
        static HELD: RefCell<Option<Guard<Own>>> = const { RefCell::new(None) };
        static HANDLES: Cell<bool> = const { Cell::new(false) };
    }
    static IN_HANDLER: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handle(_: libc::c_int) {
        HANDLES.set(true);
        drop(Own::enter());
        HANDLES.set(false);
    }
    // SAFETY: the handler only reads.
    unsafe { libc::signal(libc::SIGUSR1, handle as *const () as libc::sighandler_t) };
    let _busy = busy::<Own>();
    let leave = section_elsewhere::<Own>();
    Own.retire_with(Box::new(OnDrop(|| HELD.set(None))), LOCAL);
    let counts = || _ = IN_HANDLER.fetch_add(HANDLES.get().into(), Relaxed);
    (1..BLOCK).for_each(|_| Own.retire_with(Box::new(OnDrop(counts)), LOCAL));
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
