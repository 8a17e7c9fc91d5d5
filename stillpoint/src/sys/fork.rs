//! The library's handlers of forks (`pthread_atfork(3)`), and the hooks that they call.
//!
//! A part of the library registers its [`ForkHook`] before `main` ([`init_array!`](super::init_array)). A handler
//! that is registered while another thread is about to fork comes too late for that child. A part that is used before
//! that registers its hook then; a hook may be registered twice.
//!
//! # Other handlers
//!
//! In the child, handlers run in the order in which they were registered. A handler of the program that runs before
//! the library's finds the locks, the readers and the workers of the parent's threads: it may wait for them for ever,
//! and the hooks reset what threads that it starts are doing. So the library registers its handlers before the
//! constructors of its program or shared library run. Those of shared libraries that are initialized before may still
//! be earlier.
//!
//! `exit(3)`, and `dlclose(3)`, take the handlers of an object out of the list, but other objects' destructors and
//! threads that still run may fork later. With glibc, the library's handlers belong to no object, so they stay, as
//! does their code ([`super::pin`]).
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

use core::ffi::c_int;
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
    let is_armed = at_fork(Some(prepare), Some(in_parent), Some(in_child)) == 0;
    IS_ARMED.store(is_armed, Relaxed);
    is_armed
}

/// A function without arguments.
pub type Handler = Option<unsafe extern "C" fn()>;

/// `pthread_atfork(3)`, for functions of this object. They run after `exit` too.
pub fn at_fork(prepare: Handler, parent: Handler, child: Handler) -> c_int {
    #[cfg(all(target_env = "gnu", not(miri)))]
    if super::pin::is_pinned() {
        unsafe extern "C" {
            fn __register_atfork(
                prepare: Handler,
                parent: Handler,
                child: Handler,
                object: *const core::ffi::c_void,
            ) -> c_int;
        }
        // SAFETY: functions that stay mapped. glibc calls those of no object until the process ends.
        return unsafe { __register_atfork(prepare, parent, child, ptr::null()) };
    }
    // SAFETY: functions that live until the object is unmapped, when the C library forgets them.
    unsafe { libc::pthread_atfork(prepare, parent, child) }
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
