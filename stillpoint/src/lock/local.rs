//! What a thread keeps for locks: its slot, and a memory of what it did.
//!
//! # The slot
//!
//! A thread leases a slot at its first wait and gives it back when it ends; a destructor that locks after that leases one for
//! as long as it waits. [`Local::busy`] says that the slot is in use. A signal handler that finds it uses no slot: it takes
//! a lock [outside](super::outside) of the queue.
//!
//! A wait that times out may leave the slot in the queue. The thread keeps it, to take its place again when it comes back to
//! that lock, or to use it elsewhere once it has been passed over. Until then it leases another one for a single wait, which
//! it does not leave before it has been the head; or, if it would wait for a limited time again, waits outside: so no thread leaves
//! more than one slot behind.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;

use super::policy::LOOK_EVERY;
use super::table::{GONE, IDLE, WAIT, table};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{mutant, weaken};

/// See the [module](self). Only this thread and its signal handlers touch it, which is why `core`'s atomics do in the model too.
#[derive(Debug)]
pub struct Local {
    /// Changes by single instructions, for signal handlers, which leave what concerns slots alone if it is 1.
    busy: AtomicU32,
    /// The slot, or 0.
    own: Cell<u32>,
    /// The lock, by address, in whose queue the slot was left; 0 if none.
    left_at: Cell<usize>,
    /// The slot has been given back by the destructor.
    has_ended: Cell<bool>,
    /// Locks taken past a queue.
    steals: Cell<u32>,
}

/// Where a thread is to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the end of the queue, in this slot.
    Last(u32),
    /// Where the slot is in the queue already.
    Back(u32),
    /// Outside the queue.
    Outside,
}

#[cfg(not(loom))]
thread_local! {
    static LOCAL: Local = const { Local::new() };
}
#[cfg(loom)]
loom::thread_local! {
    static LOCAL: Local = Local::new();
}

/// Calls `f` with what the calling thread keeps.
#[inline(always)]
pub fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

impl Local {
    const fn new() -> Self {
        Self {
            busy: AtomicU32::new(0),
            own: Cell::new(0),
            left_at: Cell::new(0),
            has_ended: Cell::new(false),
            steals: Cell::new(0),
        }
    }

    /// Whether the thread has left its slot in the queue of the lock with this address, or has it there again.
    pub fn has_left(&self, lock: usize) -> bool {
        self.left_at.get() == lock
    }

    /// A place to wait in for the lock with this address. A slot is in use until [`put`](Self::put).
    pub fn take(&self, lock: usize, is_timed: bool) -> Place {
        // Acquire and Release, here and below, between the thread and its handlers.
        if self.busy.swap(1, Acquire) != 0 {
            return Place::Outside;
        }
        let place = self.find_place(lock, is_timed);
        if place == Place::Outside {
            self.busy.store(0, Release);
        }
        place
    }

    fn find_place(&self, lock: usize, is_timed: bool) -> Place {
        let own = self.own.get();
        let left_at = self.left_at.get();
        if left_at == 0 && own != 0 {
            return Place::Last(own);
        }
        if left_at != 0 {
            let state = &table().node(own).state;
            // Relaxed: only its owner has used the slot.
            if left_at == lock && state.compare_exchange(GONE, WAIT, Relaxed, Relaxed).is_ok() {
                self.left_at.set(0);
                return Place::Back(own);
            }
            // Acquire: who passed it over has done with it; partner: the Release in `pass_over`.
            if state.load(weaken(Acquire, "idle-read-relaxed")) == IDLE {
                self.left_at.set(0);
                return Place::Last(own);
            }
        }
        let keeps = own == 0 && !self.has_ended.get() && exit::arm();
        if is_timed && !keeps {
            return Place::Outside;
        }
        let Some(slot) = table().lease() else { return Place::Outside };
        if keeps {
            self.own.set(slot);
        }
        Place::Last(slot)
    }

    /// Whether the thread keeps this slot, and so may leave it in a queue.
    pub fn owns(&self, slot: u32) -> bool {
        self.own.get() == slot
    }

    /// Ends the use of a slot, which is in no queue unless the thread has left it there.
    pub fn put(&self, slot: u32) {
        if slot != self.own.get() && !mutant("borrowed-node-leaked") {
            table().give_back(slot);
        }
        self.busy.store(0, Release);
    }

    /// The own slot stays in the queue of the lock with this address.
    pub fn leave(&self, lock: usize) {
        self.left_at.set(lock);
    }

    /// The thread ends. If it locks after that, in a later destructor, it leases slots for single waits.
    pub fn end(&self) {
        let busy = self.busy.swap(1, Acquire);
        self.has_ended.set(true);
        let slot = self.own.replace(0);
        if self.left_at.replace(0) != 0 {
            table().orphan(slot);
        } else if slot != 0 && !mutant("own-node-leaked") {
            table().give_back(slot);
        }
        self.busy.store(busy, Release);
    }

    /// Whether the thread looks at the clock when it takes a lock past a queue.
    #[inline]
    pub fn looks_next(&self) -> bool {
        self.steals.get() % LOOK_EVERY == LOOK_EVERY - 1
    }

    /// The thread has taken a lock past a queue.
    #[inline]
    pub fn has_stolen(&self) {
        self.steals.set(self.steals.get().wrapping_add(1));
    }
}

#[cfg(loom)]
mod exit {
    /// The model's threads keep their slots.
    pub fn arm() -> bool {
        true
    }
}

#[cfg(not(loom))]
mod exit {
    use core::ffi::c_void;
    use core::ptr;

    use super::{IDLE, Relaxed, table, with};
    use crate::sys::at_exit::AtThreadExit;
    use crate::sys::signal::{at_fork, before_main};

    static EXIT: AtThreadExit = AtThreadExit::new(at_exit);

    before_main!(prepare);

    /// Early, so that the key is one of those for which the C library needs no memory: the first contended lock of a thread
    /// may be in a signal handler.
    extern "C" fn prepare() {
        EXIT.prepare();
        // Without memory, children of forks keep the queues that they inherit.
        let _ = at_fork(in_child);
    }

    /// Has the slot given back at the end of the thread. False if that cannot be done.
    pub fn arm() -> bool {
        // SAFETY: `at_exit` does not use the pointer, which is not null only because it would not be called else.
        unsafe { EXIT.arm(ptr::without_provenance_mut(1)) }
    }

    unsafe extern "C" fn at_exit(_: *mut c_void) {
        with(super::Local::end);
    }

    unsafe extern "C" fn in_child() {
        with(|local| {
            let own = local.own.get();
            // One that was left in a queue goes with that queue. Relaxed: the only thread.
            if own != 0 && table().node(own).state.load(Relaxed) != IDLE {
                local.own.set(0);
            }
            local.left_at.set(0);
            table().reset_in_child(local.own.get());
        });
    }
}
