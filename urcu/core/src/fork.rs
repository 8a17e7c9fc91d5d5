//! What a process does when it forks.
//!
//! Programs that fork and go on in the child call `call_rcu_before_fork` and its two counterparts: these pause the
//! workers, so that no callback is half done. The library has a handler of its own as well, which needs no cooperation:
//! the child forgets the readers and the leader that it has lost, so reading and waiting work in any child. It is
//! registered when the library is loaded. So handlers of programs and libraries that are linked to it run later.
//!
//! No handler runs in a child that `_Fork`, or a system call of the program's own, has made. There the hooks do what
//! the handler does: they find the [`generation`] of the process that has called a hook before the fork.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use stillpoint::urcu::reset_fence_in_child;

use crate::flavor::{Flavor, SignalsBlocked, registered};
use crate::report::Thread;
use crate::sync::Lock;
use crate::workers;

/// How many forks lie between the first process and this one, plus one.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Returns a number that is another one in each generation of processes.
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// The [`generation`] in which a hook has been called before a fork; 0 if none was.
static ANNOUNCED_IN: AtomicU32 = AtomicU32::new(0);

/// A hook has been called before a fork. All threads of a process store the same number.
pub fn announce() {
    ANNOUNCED_IN.store(generation(), Relaxed);
}

/// A hook is called in the child: does what the library's own handler does, unless that has run.
pub fn repair_child<F: Flavor>() {
    if ANNOUNCED_IN.load(Relaxed) == generation() {
        if F::FENCED {
            // SAFETY: the child has one thread, which has forked outside the library.
            unsafe { reset_fence_in_child() };
        }
        in_child::<F>();
    }
}

/// `struct urcu_atfork`: hooks of liburcu-cds.
#[repr(C)]
#[derive(Debug)]
pub struct AtFork {
    before: Option<unsafe extern "C" fn(*mut c_void)>,
    parent: Option<unsafe extern "C" fn(*mut c_void)>,
    child: Option<unsafe extern "C" fn(*mut c_void)>,
    private: *mut c_void,
}

/// The registered hooks, and how often they have been registered. They change under the lock of the workers, which a
/// fork holds. So does the count to and from 0.
#[derive(Debug)]
pub struct Hooks {
    hooks: AtomicPtr<AtFork>,
    count: AtomicU32,
}

impl Hooks {
    pub(crate) const fn new() -> Self {
        Self { hooks: AtomicPtr::new(ptr::null_mut()), count: AtomicU32::new(0) }
    }

    fn call(&self, which: impl FnOnce(&AtFork) -> Option<unsafe extern "C" fn(*mut c_void)>) {
        // SAFETY: the program keeps hooks valid while they are registered.
        if let Some(hooks) = unsafe { self.hooks.load(Relaxed).as_ref() }
            && let Some(hook) = which(hooks)
        {
            // SAFETY: the program's function, with the argument that belongs to it.
            unsafe { hook(hooks.private) };
        }
    }
}

/// `register_rculfhash_atfork`. Waits for a fork only if no hooks are registered: a fork may wait for a section in which
/// a thread registers them again.
pub fn register_hooks<F: Flavor>(hooks: *mut AtFork) {
    let workers = &F::domain().workers;
    let again = |count: u32| (count > 0).then_some(count + 1);
    // Relaxed: the hooks are used under the lock.
    if workers.hooks.count.fetch_update(Relaxed, Relaxed, again).is_ok() {
        return;
    }
    let _held = workers.lock.hold();
    if workers.hooks.count.fetch_add(1, Relaxed) == 0 {
        workers.hooks.hooks.store(hooks, Relaxed);
    }
}

/// `unregister_rculfhash_atfork`. Waits for a fork only if the hooks go.
pub fn unregister_hooks<F: Flavor>() {
    let workers = &F::domain().workers;
    let not_last = |count: u32| (count > 1).then(|| count - 1);
    if workers.hooks.count.fetch_update(Relaxed, Relaxed, not_last).is_ok() {
        return;
    }
    let _held = workers.lock.hold();
    if workers.hooks.count.fetch_sub(1, Relaxed) == 1 {
        workers.hooks.hooks.store(ptr::null_mut(), Relaxed);
    }
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
pub fn before<F: Flavor>() {
    let workers = &F::domain().workers;
    announce();
    workers.lock.acquire();
    workers.hooks.call(|hooks| hooks.before);
    // Not under `starting`: a thread that needs it may be inside a section for which a worker waits.
    loop {
        workers::pause::<F>();
        workers.starting.acquire();
        if workers.is_paused() {
            return;
        }
        workers.starting.release();
    }
}

/// `call_rcu_after_fork_parent`.
pub fn after_in_parent<F: Flavor>() {
    let workers = &F::domain().workers;
    workers.starting.release();
    workers::resume::<F>();
    workers.hooks.call(|hooks| hooks.parent);
    workers.lock.release();
}

/// `call_rcu_after_fork_child`.
pub fn after_in_child<F: Flavor>() {
    let workers = &F::domain().workers;
    repair_child::<F>();
    workers.hooks.call(|hooks| hooks.child);
    workers::restart_in_child::<F>();
}

/// The library's own handler, in the child.
pub(crate) fn in_child<F: Flavor>() {
    let domain = F::domain();
    GENERATION.fetch_add(1, Relaxed);
    let own = registered::<F>();
    domain.engine.reset_in_child();
    // SAFETY: the child has one thread, which was in `fork`.
    unsafe { domain.readers().reset_in_child(own, Thread::current().0) };
    F::reset_in_child();
    workers::reset_in_child::<F>();
}
