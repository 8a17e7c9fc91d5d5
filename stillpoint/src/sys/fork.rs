//! The library's `pthread_atfork(3)` handler, and the hooks that it calls.
//!
//! A part of the library registers its [`ForkHook`] before `main` ([`init_array!`](super::init_array)). A handler
//! that is registered while another thread is about to fork comes too late for that child. A part that is used before
//! that registers its hook then; a hook may be registered twice.
//!
//! # Order
//!
//! A part uses the parts whose hooks have a lower order. In the forking thread, `prepare` runs from the highest order
//! to the lowest. After the fork, `parent` and `child` run from the lowest to the highest, so the parts that a hook
//! uses are ready.
//!
//! # The child
//!
//! The child has a copy of the parent's memory, and one thread: the one that forked. The kernel protects its pages
//! against writes one by one, in no order, while other threads run, and a write to a protected page waits until the
//! fork is over. So the child has a prefix of each thread's writes, which may end in the middle of a change: a
//! `child` hook overwrites everything that other threads may have been changing. (Of pages that a device is about to
//! access, the kernel makes copies at once. There is no prefix if the memory of a lock is in such a page.)
//!
//! The forking thread may be in a function of the library that calls the program:
//!
//! - A function that takes a closure, such as `Rcu::update`, continues in the child. It relies only on what
//!   belongs to its thread, which the hooks do not change.
//! - A worker, a leader of a grace period, or an owner that runs its callbacks relies on more, and does not continue
//!   in the child. It calls callbacks, destructors of retired values, wakers and stall hooks, in which the child must
//!   `exec` or `_exit`.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

/// Orders are less than this.
const ORDERS: usize = 10;

/// The functions of a part that run when the process forks.
#[derive(Debug)]
pub struct ForkHook {
    /// No other hook has it.
    pub order: usize,
    /// Runs before the fork, in the forking thread.
    pub prepare: fn(),
    /// Runs after the fork, in the same thread.
    pub parent: fn(),
    /// Runs in the child.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process. It continues in no function of the library but those that
    /// the
    /// [module](self) allows.
    pub child: unsafe fn(),
}

impl ForkHook {
    /// Creates a hook for the child alone.
    pub const fn in_child(order: usize, child: unsafe fn()) -> Self {
        Self { order, prepare: || (), parent: || (), child }
    }
}

/// The hooks by order; null before they are registered.
static HOOKS: [AtomicPtr<ForkHook>; ORDERS] = [const { AtomicPtr::new(ptr::null_mut()) }; ORDERS];

/// The handler is registered, or a thread is about to register it. It must not run twice: a hook may take a lock.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

/// Has `hook` called at every later fork. Returns `false` if there is no memory for the handler: the next call tries
/// again.
pub fn register_for_fork(hook: &'static ForkHook) -> bool {
    // Release: publishes the hook; pairs with the Acquire in `hooks`.
    HOOKS[hook.order].store(ptr::from_ref(hook).cast_mut(), Release);
    // Relaxed, here and below: the flag publishes nothing.
    if IS_ARMED.load(Relaxed) || IS_ARMED.swap(true, Relaxed) {
        return true;
    }
    // SAFETY: functions without arguments that live as long as the program.
    let is_armed = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) == 0 };
    IS_ARMED.store(is_armed, Relaxed);
    is_armed
}

/// Returns the registered hooks, in order.
fn hooks() -> impl DoubleEndedIterator<Item = &'static ForkHook> {
    // Acquire: the hook; pairs with the Release in `register_for_fork`.
    // SAFETY: only hooks, which are static, are ever stored.
    HOOKS.iter().filter_map(|hook| unsafe { hook.load(Acquire).as_ref() })
}

unsafe extern "C" fn prepare() {
    hooks().rev().for_each(|hook| (hook.prepare)());
}

unsafe extern "C" fn in_parent() {
    hooks().for_each(|hook| (hook.parent)());
}

unsafe extern "C" fn in_child() {
    // SAFETY: the child of a fork has one thread; the rest is the program's promise (see the module).
    hooks().for_each(|hook| unsafe { (hook.child)() });
}

/// Returns the orders of the registered hooks.
#[cfg(test)]
pub fn orders() -> Vec<usize> {
    hooks().map(|hook| hook.order).collect()
}
