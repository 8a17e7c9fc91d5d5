//! Models of the count of handles of a sleepable domain, which is freed after the last one.

use stillpoint::srcu::handles::Handles;
use support::model::*;

/// Stands for a domain. Its memory belongs to the `Arc`, so that an early free is a bad access, and no crash.
struct Domain {
    handles: Handles,
    /// Read through all handles, written when the domain is freed.
    memory: UnsafeCell<bool>,
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self { handles: Handles::new(), memory: UnsafeCell::new(false) })
    }

    fn is_freed(&self) -> bool {
        self.memory.with(|memory| unsafe { *memory })
    }

    /// Uses and drops a handle.
    fn drop_handle(&self, free: impl FnOnce()) {
        assert!(!self.is_freed(), "used when freed");
        if self.handles.drop_one() {
            free();
            self.memory.with_mut(|memory| unsafe { *memory = true });
        }
    }
}

/// Refutes: Handles::drop_one:Acquire, Handles::drop_one:Release
#[test]
fn domain_is_freed_after_its_last_handle() {
    check(0, 3, || {
        let domain = Domain::new();
        domain.handles.add();
        race(
            &domain,
            |domain| domain.drop_handle(|| ()),
            |domain| {
                // A task of the library has one too.
                domain.handles.add();
                domain.drop_handle(|| ());
                domain.drop_handle(|| ());
            },
        );
        assert!(domain.is_freed(), "never freed");
    });
}

/// A thread that has found the domain in a list, which is locked while it looks, and before the domain is freed.
///
/// Refutes: freed-domain-referenced
#[test]
fn handle_by_a_list_keeps_the_domain_or_is_refused() {
    check(0, 3, || {
        let domain = Domain::new();
        let list = Arc::new(Mutex::new(true));
        let listed = list.clone();
        let drop_last = |domain: &Domain| domain.drop_handle(|| *list.lock().unwrap() = false);
        race(&domain, drop_last, move |found| {
            let is_listed = listed.lock().unwrap();
            let has_handle = *is_listed && found.handles.try_add();
            drop(is_listed);
            if has_handle {
                found.drop_handle(|| *listed.lock().unwrap() = false);
            }
        });
        assert!(domain.is_freed(), "never freed");
    });
}
