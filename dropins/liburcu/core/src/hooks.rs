//! The hooks of liburcu-cds for forks: `struct urcu_atfork`.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use crate::lock::Lock;

/// `struct urcu_atfork`.
#[repr(C)]
#[derive(Debug)]
pub struct AtFork {
    pub(crate) before: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) parent: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) child: Option<unsafe extern "C" fn(*mut c_void)>,
    private: *mut c_void,
}

/// The registered hooks, and how often they have been registered. They change under a lock that a fork holds. So does
/// the count to and from 0.
#[derive(Debug)]
pub struct Hooks {
    hooks: AtomicPtr<AtFork>,
    count: AtomicU32,
}

impl Hooks {
    pub(crate) const fn new() -> Self {
        Self { hooks: AtomicPtr::new(ptr::null_mut()), count: AtomicU32::new(0) }
    }

    pub(crate) fn call(&self, which: impl FnOnce(&AtFork) -> Option<unsafe extern "C" fn(*mut c_void)>) {
        // SAFETY: the program keeps hooks valid while they are registered.
        let Some(hooks) = (unsafe { self.hooks.load(Relaxed).as_ref() }) else { return };
        if let Some(hook) = which(hooks) {
            // SAFETY: the program's function, with the argument that belongs to it.
            unsafe { hook(hooks.private) };
        }
    }

    /// Waits for `lock` only if no hooks are registered: a fork may wait for a section in which a thread registers
    /// them again.
    pub(crate) fn register(&self, hooks: *mut AtFork, lock: &Lock) {
        let again = |count: u32| (count > 0).then_some(count + 1);
        // Relaxed: the hooks are used under the lock.
        if self.count.fetch_update(Relaxed, Relaxed, again).is_ok() {
            return;
        }
        let _held = lock.hold();
        if self.count.fetch_add(1, Relaxed) == 0 {
            self.hooks.store(hooks, Relaxed);
        }
    }

    /// Waits for `lock` only if the hooks go.
    pub(crate) fn unregister(&self, lock: &Lock) {
        let not_last = |count: u32| (count > 1).then(|| count - 1);
        if self.count.fetch_update(Relaxed, Relaxed, not_last).is_ok() {
            return;
        }
        let _held = lock.hold();
        if self.count.fetch_sub(1, Relaxed) == 1 {
            self.hooks.store(ptr::null_mut(), Relaxed);
        }
    }
}
