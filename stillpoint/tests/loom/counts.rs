//! Models of the reference counts of a sleepable domain: it is closed after the last handle, and freed after the last
//! reference.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use stillpoint::srcu::handle_counts::HandleCounts;
use support::model::check;

/// Stands for a domain. Its memory belongs to the `Arc`, so that an early free is a bad access, and no crash.
struct Domain {
    counts: HandleCounts,
    /// Written through handles, read when the domain is closed.
    used: [UnsafeCell<bool>; 2],
    /// Written when the domain is closed, read when it is freed.
    closed: UnsafeCell<bool>,
    /// Read through all references, written when the domain is freed.
    memory: UnsafeCell<bool>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

impl Domain {
    fn new() -> Arc<Self> {
        let cell = || UnsafeCell::new(false);
        Arc::new(Self { counts: HandleCounts::new(), used: [cell(), cell()], closed: cell(), memory: cell() })
    }

    fn set(cell: &UnsafeCell<bool>) {
        cell.with_mut(|cell| unsafe { *cell = true });
    }

    fn get(cell: &UnsafeCell<bool>) -> bool {
        cell.with(|cell| unsafe { *cell })
    }

    /// Uses and drops a handle.
    fn drop_handle(&self, index: usize) {
        assert!(!Self::get(&self.memory), "used when freed");
        Self::set(&self.used[index]);
        if self.counts.drop_handle() {
            assert!(self.used.iter().all(Self::get), "closed while there is a handle");
            Self::set(&self.closed);
            self.counts.notify_no_handles();
            self.release();
        }
    }

    /// Drops an internal reference.
    fn release(&self) {
        assert!(!Self::get(&self.memory), "used when freed");
        if self.counts.drop_internal_ref() {
            assert!(Self::get(&self.closed), "freed before it was closed");
            Self::set(&self.memory);
        }
    }
}

/// Refutes: HandleCounts::drop_handle:Acquire, HandleCounts::drop_handle:Release
#[test]
fn last_handle_closes_and_last_reference_frees() {
    check(0, 3, || {
        let domain = Domain::new();
        domain.counts.add_handle();
        domain.counts.add_internal_ref();
        let (handle, task) = (domain.clone(), domain.clone());
        let threads = [thread::spawn(move || handle.drop_handle(0)), thread::spawn(move || task.release())];
        domain.drop_handle(1);
        for t in threads {
            t.join().unwrap();
        }
        assert!(Domain::get(&domain.memory), "never freed");
    });
}

/// Refutes: last-handle-without-notify, HandleCounts::handles:Acquire
#[test]
fn waiter_returns_when_all_handles_are_gone() {
    check(0, 3, || {
        let domain = Domain::new();
        domain.counts.add_handle();
        domain.counts.add_internal_ref();
        let waiter = domain.clone();
        let t = thread::spawn(move || {
            waiter.drop_handle(0);
            assert!(waiter.counts.wait_for_no_handles(None));
            assert!(waiter.used.iter().all(Domain::get), "there is a handle");
            waiter.release();
        });
        domain.drop_handle(1);
        t.join().unwrap();
        assert!(Domain::get(&domain.memory), "never freed");
    });
}

/// Refutes: HandleCounts::drop_internal_ref:Acquire, HandleCounts::drop_internal_ref:Release
#[test]
fn worker_reference_outlives_all_handles() {
    check(0, 3, || {
        let domain = Domain::new();
        domain.counts.add_handle();
        let handle = domain.clone();
        let t = thread::spawn(move || {
            handle.counts.add_internal_ref();
            handle.drop_handle(0);
            // The task of a closed domain may start another one.
            handle.counts.add_internal_ref();
            handle.release();
            handle.release();
        });
        domain.drop_handle(1);
        t.join().unwrap();
        assert!(Domain::get(&domain.memory), "never freed");
    });
}

/// A thread that has found the domain in a list, which is locked while it looks, and before the domain is freed.
///
/// Refutes: freed-domain-referenced
#[test]
fn reference_by_a_list_keeps_the_domain_or_is_refused() {
    check(0, 3, || {
        let domain = Domain::new();
        let list = Arc::new(Mutex::new(true));
        let (found, listed) = (domain.clone(), list.clone());
        let t = thread::spawn(move || {
            let is_listed = listed.lock().unwrap();
            let has_reference = *is_listed && found.counts.try_add_internal_ref();
            drop(is_listed);
            if has_reference {
                assert!(!Domain::get(&found.memory), "used when freed");
                if found.counts.drop_internal_ref() {
                    *listed.lock().unwrap() = false;
                    Domain::set(&found.memory);
                }
            }
        });
        if domain.counts.drop_handle() && domain.counts.drop_internal_ref() {
            *list.lock().unwrap() = false;
            Domain::set(&domain.memory);
        }
        t.join().unwrap();
        assert!(Domain::get(&domain.memory), "never freed");
    });
}
