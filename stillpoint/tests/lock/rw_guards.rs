//! Guards of the reader-writer lock: what they exclude, upgrades and downgrades, and how they are released.

use super::rwlock::{SHORT, with_each_gate};
use stillpoint::lock::RwLockUpgradableReadGuard;
use support::asleep::asleep_in;
use support::prelude::*;

/// Refutes: tried-write-queues
#[test]
fn tries_succeed_unless_excluded() {
    let _running = deadline();
    with_each_gate((), |lock| {
        let reads = (lock.read(), lock.try_read().expect("readers coexist"));
        assert!(lock.is_locked() && !lock.is_locked_exclusive());
        assert!(lock.try_write().is_none());
        let upgradable = lock.try_upgradable_read().expect("it coexists with readers");
        assert!(lock.try_upgradable_read().is_none());
        assert!(lock.try_read().is_some());
        drop(reads);
        assert!(lock.is_locked() && !lock.is_locked_exclusive(), "for an upgradable read");
        let reads = lock.read();
        let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect_err("there are readers");
        drop(reads);
        let write = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect("there are none");
        assert!(lock.is_locked() && lock.is_locked_exclusive());
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        assert!(lock.try_upgradable_read().is_none());
        drop(write);
        assert!(!lock.is_locked() && !lock.is_locked_exclusive());
        drop(lock.try_write().expect("it is free"));
        assert!(lock.try_read().is_some());
    });
}

#[test]
fn upgrade_waits_for_readers_and_keeps_writers_out() {
    let _running = deadline();
    with_each_gate(0, |lock| {
        let read = lock.read();
        let upgradable = lock.upgradable_read();
        thread::scope(|scope| {
            let writer = asleep_in(scope, || mem::replace(&mut *lock.write(), 2));
            let upgrade = scope.spawn({
                // The guard stays in this thread, so another one upgrades the raw lock.
                mem::forget(upgradable);
                let lock = &lock;
                move || {
                    // SAFETY: the guard is forgotten, so this thread has its part.
                    let guard = unsafe { lock.make_upgradable_guard_unchecked() };
                    *RwLockUpgradableReadGuard::upgrade(guard) = 1;
                }
            });
            until(|| lock.try_read().is_none());
            assert_eq!(*read, 0);
            drop(read);
            upgrade.join().expect("it has written");
            assert_eq!(writer.join().expect("it has written"), 1);
        });
        assert_eq!(*lock.read(), 2);
    });
}

#[test]
fn leaked_guard_of_an_exited_thread_keeps_the_lock() {
    let _running = deadline();
    with_each_gate(5, |lock| {
        thread::scope(|scope| {
            scope.spawn(|| mem::forget(lock.read())).join().expect("it exits");
        });
        assert!(lock.try_write().is_none() && lock.try_write_for(SHORT).is_none());
        assert_eq!(*lock.read(), 5);
        // SAFETY: the read of the thread that has exited is released once.
        unsafe { lock.force_unlock_read() };
        *lock.try_write().expect("it is free") = 6;
        assert_eq!(lock.into_inner(), 6);
    });
}
