//! Guards that outlive their thread's registration: destructors of the C library that run later have them.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;
#[path = "support/owner.rs"]
mod owner;
#[path = "support/waiting.rs"]
mod waiting;

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;

use deadline::deadline;
use owner::{BLOCK, LOCAL, busy, retire_plain, section_elsewhere};
use stillpoint::Domain as _;
use stillpoint::rcu::{Guard, RcuDomain};
use waiting::waiting_synchronize;

/// A key whose destructor runs after that of the domain, as glibc goes by their age.
fn late_key<D: RcuDomain>(destructor: unsafe extern "C" fn(*mut c_void)) -> libc::pthread_key_t {
    D::register();
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(destructor)) }, 0);
    key
}

/// Leaves the guard to the destructor of `key`.
fn leave_to<D: RcuDomain>(key: libc::pthread_key_t, guard: Guard<D>) {
    let guard = Box::into_raw(Box::new(guard));
    // SAFETY: the key exists, and its destructor takes this pointer.
    assert_eq!(unsafe { libc::pthread_setspecific(key, guard.cast()) }, 0);
}

/// # Safety
///
/// `guard` comes from [`leave_to`], and is the destructor's argument.
unsafe fn late_guard<D: RcuDomain>(guard: *mut c_void) -> Guard<D> {
    // SAFETY: from a box that the destructor, which runs once and on the thread of the guard, is given.
    *unsafe { Box::from_raw(guard.cast()) }
}

#[test]
fn owner_without_reader_leaves_its_former_queue_alone() {
    stillpoint::domain! { struct Own; }
    thread_local! { static IS_LATE: Cell<bool> = const { Cell::new(false) }; }
    static LATE_DROPS: AtomicU64 = AtomicU64::new(0);
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            LATE_DROPS.fetch_add(IS_LATE.get().into(), Relaxed);
        }
    }
    unsafe extern "C" fn drop_guard(guard: *mut c_void) {
        IS_LATE.set(true);
        // SAFETY: that of the thread below.
        drop(unsafe { late_guard::<Own>(guard) });
    }
    let _running = deadline();
    let key = late_key::<Own>(drop_guard);
    let owner = thread::spawn(move || {
        let busy = busy::<Own>();
        let leave = section_elsewhere::<Own>();
        Own.retire_with(Box::new(Counts), LOCAL);
        retire_plain::<Own>(BLOCK - 1);
        let writer = waiting_synchronize::<Own>();
        let guard = Own::enter();
        // Puts bookkeeping off until the guard is dropped.
        retire_plain::<Own>(BLOCK);
        leave();
        writer.join().expect("the grace period ends");
        leave_to(key, guard);
        busy
    });
    let _busy = owner.join().expect("the thread ends");
    assert_eq!(LATE_DROPS.load(Relaxed), 0, "the queue may be another thread's by now");
}

#[test]
fn repin_of_a_late_guard_keeps_the_reader() {
    stillpoint::domain! { struct Own; }
    static REPINNED: Barrier = Barrier::new(2);
    static SEEN: Barrier = Barrier::new(2);
    unsafe extern "C" fn repin(guard: *mut c_void) {
        // SAFETY: that of the thread below.
        let mut guard = unsafe { late_guard::<Own>(guard) };
        guard.repin();
        REPINNED.wait();
        SEEN.wait();
    }
    let _running = deadline();
    let key = late_key::<Own>(repin);
    let ends = thread::spawn(move || {
        let guard = Own::enter();
        // Puts bookkeeping off until the guard is repinned.
        retire_plain::<Own>(BLOCK);
        leave_to(key, guard);
    });
    REPINNED.wait();
    let register = || {
        Own::register();
        Own::in_read_section()
    };
    let is_inside = thread::spawn(register).join().expect("the thread ends");
    SEEN.wait();
    ends.join().expect("the thread ends");
    assert!(!is_inside, "a thread that has just registered has the guard's reader");
}
