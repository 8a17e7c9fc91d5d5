//! Guards that outlive their thread's registration: later destructors of the C library hold them.

use std::any::type_name;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

use stillpoint::rcu::Guard;
use support::late::{key, leave_to, set, taken};
use support::owner::{BLOCK, LOCAL, busy, retire_plain, section_elsewhere};
use support::prelude::*;

/// Creates a key whose destructor runs after that of the domain, since glibc runs them in the order of their
/// creation.
fn late_key<D: StaticDomain<Section = Guard<D>>>(
    destructor: unsafe extern "C" fn(*mut c_void),
) -> libc::pthread_key_t {
    Guard::<D>::register();
    key(destructor)
}

#[test]
fn late_guard_drop_gives_the_reader_back_after_the_bookkeeping() {
    own!(Own, DROPS);
    unsafe extern "C" fn drop_guard(guard: *mut c_void) {
        // SAFETY: the guard of the thread below.
        drop(unsafe { taken::<Guard<Own>>(guard) });
    }
    let key = late_key::<Own>(drop_guard);
    let owner = thread::spawn(move || {
        let busy = busy::<Own>();
        let leave = section_elsewhere::<Own>();
        Own.retire_with(Box::new(Tracked(&DROPS)), LOCAL);
        retire_plain::<Own>(BLOCK - 1);
        let writer = waiting_synchronize::<Own>();
        let guard = Own::enter();
        // Defers the bookkeeping until the guard is dropped.
        retire_plain::<Own>(BLOCK);
        leave();
        writer.join().expect("the grace period ends");
        leave_to(key, guard);
        busy
    });
    let busy = owner.join().expect("the thread ends");
    let readers = Own.stats().readers;
    thread::spawn(Own::register).join().expect("no panic");
    assert_eq!(Own.stats().readers, readers, "the reader is free");
    drop(busy);
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn late_guard_drop_ends_a_reported_stall() {
    stillpoint::domain! { struct Own; }
    static REPORTED: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn drop_guard(guard: *mut c_void) {
        // SAFETY: the guard of the thread below.
        let guard = unsafe { taken::<Guard<Own>>(guard) };
        assert!(Own::in_read_section());
        // A nested section of another destructor.
        drop(Own::enter());
        until(|| REPORTED.load(Acquire) != 0);
        drop(guard);
        assert!(!Own::in_read_section());
        drop(Own::enter());
    }
    alone!();
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(|stall| {
        if stall.domain() == type_name::<Own>() {
            assert!(stall.readers().len() <= 1);
            REPORTED.fetch_add(
                stall.readers().iter().filter(|reader| reader.has_exited()).count() as u64,
                Release,
            );
        }
    }));
    let key = late_key::<Own>(drop_guard);
    for _ in 0..3 {
        REPORTED.store(0, Relaxed);
        // Nested: the inner guard is dropped in time.
        let (entered, enters) = mpsc::channel();
        let ends = thread::spawn(move || {
            let guard = Own::enter();
            drop(Own::enter());
            leave_to(key, guard);
            entered.send(()).expect("the test listens");
        });
        enters.recv().expect("the thread is inside");
        let writer = waiting_synchronize::<Own>();
        ends.join().expect("the thread ends");
        writer.join().expect("the grace period ends");
        Own.synchronize();
    }
    assert!(Own.stats().readers <= 3, "{:?}", Own.stats());
}

#[test]
fn repin_of_a_late_guard_keeps_the_reader() {
    own!(Own);
    static REPINNED: Barrier = Barrier::new(2);
    static SEEN: Barrier = Barrier::new(2);
    unsafe extern "C" fn repin(guard: *mut c_void) {
        // SAFETY: the guard of the thread below.
        let mut guard = unsafe { taken::<Guard<Own>>(guard) };
        guard.repin();
        REPINNED.wait();
        SEEN.wait();
    }
    let key = late_key::<Own>(repin);
    let ends = thread::spawn(move || {
        let guard = Own::enter();
        // Defers the bookkeeping until the guard is repinned.
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

#[test]
fn late_destructor_that_defers_gets_a_queue_of_its_own() {
    own!(Own);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static CLAIMED: Barrier = Barrier::new(2);
    unsafe extern "C" fn defer(_: *mut c_void) {
        // Another thread has this one's first reader, and its queue, by now.
        CLAIMED.wait();
        CLAIMED.wait();
        Own.call(|| _ = CALLS.fetch_add(1, Relaxed));
        // With that, both have been used.
        CLAIMED.wait();
    }
    let key = thread::spawn(|| late_key::<Own>(defer)).join().expect("no panic");
    let late = thread::spawn(move || {
        Own.call(|| _ = CALLS.fetch_add(1, Relaxed));
        set(key, ptr::dangling_mut());
    });
    // The late destructor runs, so the thread has given its reader back.
    CLAIMED.wait();
    let readers = Own.stats().readers;
    Own::register();
    assert_eq!(Own.stats().readers, readers, "this thread takes the reader");
    CLAIMED.wait();
    CLAIMED.wait();
    assert_eq!(Own.stats().readers, readers + 1, "the late destructor has another");
    late.join().expect("no panic");
    thread::spawn(Own::register).join().expect("no panic");
    assert_eq!(Own.stats().readers, readers + 1, "the late destructor has given it back");
    Own.barrier();
    assert_eq!(CALLS.load(Relaxed), 2);
}

#[test]
fn late_flush_keeps_the_reader_until_its_end() {
    own!(Own);
    static GUARD: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static NEW_READERS: AtomicU64 = AtomicU64::new(u64::MAX);
    /// Registers another thread, which keeps its reader. Returns by how many the readers have become more.
    fn register_another() -> u64 {
        let readers = Own.stats().readers;
        let (registered, registers) = mpsc::channel();
        thread::spawn(move || {
            Own::register();
            registered.send(()).expect("the test waits");
            thread::park();
        });
        registers.recv().expect("the thread registers");
        Own.stats().readers - readers
    }
    let drops_guard = || {
        // SAFETY: `flush` has stored the guard of this thread.
        drop(unsafe { taken::<Guard<Own>>(GUARD.swap(ptr::null_mut(), Relaxed)) });
        NEW_READERS.store(register_another(), Release);
    };
    unsafe extern "C" fn flush(guard: *mut c_void) {
        // No reader is free after this.
        while register_another() == 0 {}
        GUARD.store(guard, Relaxed);
        Own.flush();
    }
    let key = late_key::<Own>(flush);
    let owner = thread::spawn(move || {
        let busy = busy::<Own>();
        let leave = section_elsewhere::<Own>();
        Own.retire_with(Box::new(OnDrop(drops_guard)), LOCAL);
        // Begins a grace period for it.
        retire_plain::<Own>(BLOCK - 1);
        let writer = waiting_synchronize::<Own>();
        let guard = Own::enter();
        leave();
        writer.join().expect("the grace period ends");
        leave_to(key, guard);
        busy
    });
    drop(owner.join().expect("the thread ends"));
    assert_eq!(NEW_READERS.load(Acquire), 1, "another thread got the reader of the one that flushed");
    assert_eq!(register_another(), 0, "the reader is free");
}
