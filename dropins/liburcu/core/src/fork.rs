//! What a process does when it forks.
//!
//! Programs that fork and continue in the child call `call_rcu_before_fork` and its two counterparts: these pause the
//! workers, so that no callback is half done. The library has a handler of its own as well, which needs no
//! cooperation: the child forgets the readers and the leader that it has lost, so reading and waiting work in any
//! child. It is registered when the library is loaded. So handlers of programs and libraries that are linked to it
//! run later. It runs in forks after `exit` too.
//!
//! No handler runs in a child that `_Fork`, or a system call of the program's own, has made. There the hooks do what
//! the handler does: they find the [`generation()`] of the process that has called a hook before the fork.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use stillpoint::urcu::{at_fork, reset_fence_in_child};

use crate::call_rcu::{self, CallRcu};
use crate::flavor::SignalsBlocked;
use crate::generation::{self, generation};
use crate::hooks::AtFork;
use crate::lock::Lock;
use crate::report::Thread;

/// The [`generation`] in which a hook has been called before a fork; 0 if none was.
static ANNOUNCED_IN: AtomicU32 = AtomicU32::new(0);

/// A hook has been called before a fork. All threads of a process store the same number.
pub fn announce() {
    ANNOUNCED_IN.store(generation(), Relaxed);
}

/// A hook is called in the child: does what the library's own handler does, unless that has run.
pub fn repair_child<F: CallRcu>() {
    if ANNOUNCED_IN.load(Relaxed) == generation() {
        if F::FENCED {
            // SAFETY: the child has one thread, which has forked outside the library.
            unsafe { reset_fence_in_child() };
        }
        in_child::<F>();
    }
}

/// `register_rculfhash_atfork`.
pub fn register_hooks<F: CallRcu>(hooks: *mut AtFork) {
    let workers = F::workers();
    workers.hooks.register(hooks, &workers.lock);
}

/// `unregister_rculfhash_atfork`.
pub fn unregister_hooks<F: CallRcu>(_hooks: *mut AtFork) {
    let workers = F::workers();
    workers.hooks.unregister(&workers.lock);
}

/// The signals that were blocked before the hook of a fork.
struct Forking {
    lock: Lock,
    blocked: UnsafeCell<Option<SignalsBlocked>>,
}

// SAFETY: the cell is accessed under the lock.
unsafe impl Sync for Forking {}

static FORKING: Forking = Forking { lock: Lock::new(), blocked: UnsafeCell::new(None) };

/// For the hook before a fork, of a flavor with readers in signal handlers: blocks all signals until one of the
/// counterparts. A handler that registers the thread in the child might wait for a lock of a thread that is lost.
pub fn block_signals() {
    let blocked = SignalsBlocked::always();
    FORKING.lock.acquire();
    // SAFETY: under the lock.
    unsafe { *FORKING.blocked.get() = Some(blocked) };
}

pub fn unblock_in_parent() {
    // SAFETY: under the lock, which the thread has acquired in `block_signals`.
    if let Some(_blocked) = unsafe { (*FORKING.blocked.get()).take() } {
        FORKING.lock.release();
    }
}

/// After [`repair_child`]: the lock is free.
pub fn unblock_in_child() {
    // SAFETY: the only thread.
    drop(unsafe { (*FORKING.blocked.get()).take() });
}

/// `call_rcu_before_fork`. Holds the locks until one of the counterparts.
pub fn before<F: CallRcu>() {
    let workers = F::workers();
    announce();
    workers.lock.acquire();
    workers.hooks.call(|hooks| hooks.before);
    // Not under `starting`: a thread that needs it may be inside a section for which a worker waits.
    loop {
        call_rcu::pause::<F>();
        workers.starting.acquire();
        if workers.is_paused() {
            return;
        }
        workers.starting.release();
    }
}

/// `call_rcu_after_fork_parent`.
pub fn after_in_parent<F: CallRcu>() {
    let workers = F::workers();
    workers.starting.release();
    call_rcu::resume::<F>();
    workers.hooks.call(|hooks| hooks.parent);
    workers.lock.release();
}

/// `call_rcu_after_fork_child`.
pub fn after_in_child<F: CallRcu>() {
    let workers = F::workers();
    repair_child::<F>();
    workers.hooks.call(|hooks| hooks.child);
    call_rcu::restart_in_child::<F>();
}

/// Registers the library's own handler.
pub fn load<F: CallRcu>() {
    extern "C" fn child<F: CallRcu>() {
        in_child::<F>();
    }
    // Without memory for it, children keep what they inherit.
    at_fork(None, None, Some(child::<F>));
}

/// The library's own handler, in the child.
fn in_child<F: CallRcu>() {
    generation::begin_next();
    F::engine().reset_in_child();
    // SAFETY: the child has one thread, which was in `fork`.
    unsafe { F::readers().reset_in_child(F::own_if_any(), Thread::current().0) };
    F::reset_in_child();
    call_rcu::reset_in_child::<F>();
}
