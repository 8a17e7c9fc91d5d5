//! Who holds something: a number that fits into a word, and by which the child of a fork knows that the holder is not there.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::awaited::Awaited;
use crate::sync::AtomicU64;
use crate::sys::signal::{at_fork_once, before_main};

/// How often this process, or one that it was forked from, was the child of a fork.
static FORKS: AtomicU32 = AtomicU32::new(0);
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The thread that forked, which goes on in the child under its old number.
static SURVIVOR: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// 0 before the first use.
    static ME: Cell<u64> = const { Cell::new(0) };
}

/// The number of the calling thread: not 0, and unlike that of any other thread that lives.
#[inline]
pub fn me() -> u64 {
    match ME.get() {
        0 => me_slow(),
        me => me,
    }
}

#[cold]
fn me_slow() -> u64 {
    // If it has not been called: see `before_main!`.
    arm();
    // Relaxed: a number of its own, and the forks of a process that this thread is in.
    let number = NEXT.fetch_add(1, Relaxed).max(1);
    // Again, if a signal handler has forked in between, where this thread was not known by its number yet.
    loop {
        let forks = FORKS.load(Relaxed);
        let me = u64::from(forks) << 32 | u64::from(number);
        ME.set(me);
        if FORKS.load(Relaxed) == forks {
            return me;
        }
    }
}

/// Whether `holder` is a thread that a fork left behind: in the parent.
pub fn is_gone(holder: u64) -> bool {
    // Relaxed: both change while the process has one thread.
    holder != 0 && holder >> 32 != u64::from(FORKS.load(Relaxed)) && holder != SURVIVOR.load(Relaxed)
}

static IS_ARMED: AtomicBool = AtomicBool::new(false);

before_main!(arm);

extern "C" fn arm() {
    at_fork_once(&IS_ARMED, in_child);
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    SURVIVOR.store(ME.get(), Relaxed);
}

/// What came of an attempt to hold something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is held by the caller now.
    Yes,
    /// The same; a thread that a fork left behind held it, and may have been in the middle of something.
    FromGone,
    /// By another thread, or by the caller before.
    No,
}

/// A word that says who holds something, and what those need who wait until nobody does.
#[derive(Debug)]
pub struct Lock {
    holder: AtomicU64,
    awaited: Awaited,
}

impl Lock {
    pub const fn new() -> Self {
        Self { holder: AtomicU64::new(0), awaited: Awaited::new() }
    }

    /// Takes the lock if nobody has it. Never waits.
    pub fn try_lock(&self) -> Taken {
        // Relaxed: the exchange below orders.
        let holder = self.holder.load(Relaxed);
        if holder != 0 && !is_gone(holder) {
            return Taken::No;
        }
        // Acquire: what the last holder did; partner: the Release in `release`.
        match self.holder.compare_exchange(holder, me(), Acquire, Relaxed) {
            Ok(0) => Taken::Yes,
            Ok(_) => Taken::FromGone,
            Err(_) => Taken::No,
        }
    }

    /// Takes the lock as soon as nobody has it: not for its holder.
    pub fn lock(&self) -> Taken {
        let mut taken = Taken::No;
        self.awaited.wait_until(|| {
            taken = self.try_lock();
            taken != Taken::No
        });
        taken
    }

    /// Whether the caller holds it.
    pub fn is_mine(&self) -> bool {
        // Relaxed: only he himself could have written his number.
        self.holder.load(Relaxed) == me()
    }

    /// Whether anybody holds it, who cannot give it back meanwhile: asked by its owner.
    pub fn is_held(&mut self) -> bool {
        // Relaxed: nobody else has a reference.
        self.holder.load(Relaxed) != 0
    }

    /// Gives it back.
    pub fn unlock(&self) {
        self.awaited.release(&self.holder);
    }
}
