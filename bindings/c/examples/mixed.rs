//! A Rust program with C code in it (`mixed.c`): readers of both are readers of one domain. `ci/capi.sh` builds it.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use std::thread;
use std::time::Duration;

use stillpoint::rcu::{self, GracePeriod};
use stillpoint_capi as _;

unsafe extern "C" {
    fn c_read_lock() -> i32;
    fn c_read_unlock() -> i32;
    fn c_synchronize() -> i32;
    fn c_defer(calls: *const AtomicI32) -> i32;
}

/// Safe functions of the C code. They use the thread-local variable of their thread only.
fn lock() {
    // SAFETY: no contract.
    assert_eq!(unsafe { c_read_lock() }, 0);
}

fn unlock() {
    // SAFETY: no contract.
    assert_eq!(unsafe { c_read_unlock() }, 0);
}

fn main() {
    // A section that C began is known to Rust, and the other way round. Both nest.
    lock();
    assert!(rcu::in_read_section());
    let guard = rcu::enter();
    unlock();
    assert!(rcu::in_read_section());
    drop(guard);
    assert!(!rcu::in_read_section());
    let guard = rcu::enter();
    lock();
    drop(guard);
    assert!(rcu::in_read_section());
    unlock();
    assert!(!rcu::in_read_section());

    // Rust waits for a reader in C.
    let (inside, leave) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            lock();
            inside.store(true, Release);
            while !leave.load(Acquire) {
                thread::yield_now();
            }
            unlock();
        });
        while !inside.load(Acquire) {
            thread::yield_now();
        }
        let readers = GracePeriod::now();
        assert!(!readers.wait_timeout(Duration::from_millis(20)));
        leave.store(true, Release);
        readers.wait();
    });

    // C waits for a reader in Rust, and defers to the same worker.
    static CALLS: AtomicI32 = AtomicI32::new(0);
    thread::scope(|s| {
        let guard = rcu::enter();
        let waiter = s.spawn(|| {
            // SAFETY: no contract; the number is static.
            assert_eq!(unsafe { c_defer(&raw const CALLS) | c_synchronize() }, 0);
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished() && CALLS.load(Acquire) == 0);
        drop(guard);
    });
    rcu::barrier();
    assert_eq!(CALLS.load(Acquire), 1);
    println!("ended");
}
