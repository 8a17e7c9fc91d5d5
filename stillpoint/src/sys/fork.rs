//! What the library does when the process forks: one handler of `pthread_atfork(3)`, and the parts of the library that
//! it calls.
//!
//! Each part registers a [`ForkHook`] before `main` ([`init_array!`](super::signal::init_array)), as a handler that
//! is registered while another thread is about to fork comes too late for that child. A part that is used earlier
//! registers itself then: twice does no harm.
//!
//! # Order
//!
//! Parts use the parts before them in [`Part`]. In the thread that forks, `prepare` runs from the last part to the
//! first. After the fork, `parent` and `child` run from the first part to the last: a part may use those before it,
//! which are ready.
//!
//! # The child
//!
//! It has a copy of the parent's memory, and one thread, the one that forked. The kernel copies page by page, in no
//! order, while other threads go on: a store may be in the copy, and an earlier one by the same thread not. So a
//! `child` writes over what other threads may have been at.
//!
//! The thread that forks may be in a function of the library that calls the program:
//!
//! - One that the program has called with a closure, as `Rcu::update`: it goes on in the child. It
//!   relies only on what belongs to its thread, which the hooks leave as it is.
//! - A worker, a leader of a grace period, or an owner that runs its entries. These rely on more. They call callbacks,
//!   destructors of retired values, wakers and hooks for stalls, in which the child must `exec` or `_exit`: so they do
//!   not go on in it.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

/// The parts of the library that a fork concerns, in order.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Fence,
    PerCpu,
    Lock,
    Rcu,
    Srcu,
}

/// What a part does when the process forks.
#[derive(Debug)]
pub struct ForkHook {
    pub part: Part,
    /// Before the fork, in the thread that forks.
    pub prepare: fn(),
    /// After it, in the same thread.
    pub parent: fn(),
    /// In the child.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and goes on in no function of the library but such as the
    /// [module](self) allows.
    pub child: unsafe fn(),
}

impl ForkHook {
    /// A hook for the child alone.
    pub const fn in_child(part: Part, child: unsafe fn()) -> Self {
        Self { part, prepare: || (), parent: || (), child }
    }
}

/// By part; null before it is registered.
static HOOKS: [AtomicPtr<ForkHook>; 5] = [const { AtomicPtr::new(ptr::null_mut()) }; 5];

/// The handler is registered, or a thread is about to do so. Twice would be too much: a hook may take a lock.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

/// Has `hook` called at every later fork. False if there is no memory for that: the next call tries again.
pub fn register_for_fork(hook: &'static ForkHook) -> bool {
    // Release: the hook; pairs with the Acquire in `hooks`.
    HOOKS[hook.part as usize].store(ptr::from_ref(hook).cast_mut(), Release);
    // Relaxed, here and below: the flag says nothing of other memory.
    if IS_ARMED.load(Relaxed) || IS_ARMED.swap(true, Relaxed) {
        return true;
    }
    // SAFETY: functions without arguments that live as long as the program.
    let is_armed = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) == 0 };
    IS_ARMED.store(is_armed, Relaxed);
    is_armed
}

/// The hooks that are registered, in order.
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
    // SAFETY: the child of a fork has one thread; the rest is what programs promise, see the module.
    hooks().for_each(|hook| unsafe { (hook.child)() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fence, lock, percpu, rcu, srcu};

    #[test]
    fn fork_hooks_are_registered_early_and_called_in_order() {
        // Keeps the parts from being left out of the program.
        let _ = (fence::stats, lock::Mutex::<()>::new, percpu::Counter::new, rcu::stats, srcu::Domain::new);
        let parts: Vec<_> = hooks().map(|hook| hook.part as usize).collect();
        assert_eq!(parts, [0, 1, 2, 3, 4]);
    }
}
