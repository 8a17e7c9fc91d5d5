//! Owners of per-CPU data: a word that holds the owner's number. The number tells the child of a fork whether the owner survived.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::owner_event::OwnerEvent;
use crate::sync::AtomicU64;
use crate::sys::fork::{ForkHook, Part, register_for_fork};
use crate::sys::signal::init_array;

/// Forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The number of the thread that forked, which keeps it in the child.
static SURVIVOR: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// 0 before the first use.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of the calling thread: not 0, and different from that of every other live thread.
#[inline]
pub fn current_owner() -> u64 {
    match CURRENT.get() {
        0 => current_owner_slow(),
        owner => owner,
    }
}

#[cold]
fn current_owner_slow() -> u64 {
    // It may not have been called before `main`.
    register_for_fork(&FORK);
    // Relaxed: the number alone must be unique, and the count of forks changes while the process has one thread.
    let number = NEXT.fetch_add(1, Relaxed).max(1);
    // Repeated if a signal handler forks before this thread has a number.
    loop {
        let forks = FORKS.load(Relaxed);
        let owner = u64::from(forks) << 32 | u64::from(number);
        CURRENT.set(owner);
        if FORKS.load(Relaxed) == forks {
            return owner;
        }
    }
}

/// Returns `true` if `owner` is a thread of the parent that did not survive the fork.
pub fn died_in_fork(owner: u64) -> bool {
    // Relaxed: both change while the process has one thread.
    owner != 0 && owner >> 32 != u64::from(FORKS.load(Relaxed)) && owner != SURVIVOR.load(Relaxed)
}

static FORK: ForkHook = ForkHook::in_child(Part::PerCpu, in_child);
init_array!(register_for_fork(&FORK));

fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    SURVIVOR.store(CURRENT.get(), Relaxed);
}

/// Result of an attempt to become the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    /// The caller is the owner now.
    Yes,
    /// The same, and the last owner died in a fork, perhaps within a change.
    OwnerDead,
    /// Another thread is the owner, or the caller was already.
    No,
}

/// A try-lock with an owner. A few callers wait for it.
#[derive(Debug)]
pub struct OwnerLock {
    owner: AtomicU64,
    released: OwnerEvent,
}

impl OwnerLock {
    pub const fn new() -> Self {
        Self { owner: AtomicU64::new(0), released: OwnerEvent::new() }
    }

    /// Acquires the lock if it is free. Never blocks.
    pub fn try_lock(&self) -> Acquired {
        // Relaxed: the compare-exchange below orders.
        let owner = self.owner.load(Relaxed);
        if owner != 0 && !died_in_fork(owner) {
            return Acquired::No;
        }
        // Acquire: sees what the last owner did; pairs with the Release in `OwnerEvent::release`.
        match self.owner.compare_exchange(owner, current_owner(), Acquire, Relaxed) {
            Ok(0) => Acquired::Yes,
            Ok(_) => Acquired::OwnerDead,
            Err(_) => Acquired::No,
        }
    }

    /// Acquires the lock. Blocks while another thread is the owner. The owner must not call this.
    pub fn lock(&self) -> Acquired {
        let mut acquired = Acquired::No;
        self.released.wait_until(|| {
            acquired = self.try_lock();
            acquired != Acquired::No
        });
        acquired
    }

    /// Returns `true` if the caller is the owner.
    pub fn is_mine(&self) -> bool {
        // Relaxed: no other thread writes this thread's number.
        self.owner.load(Relaxed) == current_owner()
    }

    /// Returns `true` if the lock has an owner.
    pub fn is_locked(&mut self) -> bool {
        // Relaxed: no other thread has a reference.
        self.owner.load(Relaxed) != 0
    }

    /// Releases the lock.
    pub fn unlock(&self) {
        self.released.release(&self.owner);
    }
}
