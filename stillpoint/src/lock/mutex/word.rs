//! The lock word: the holder, the wait queue, and what the next release has to do; and how a thread that is not the
//! head takes a free lock.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 17.. | tail | the last node in the queue; 0 if the queue is empty |
//! | 3..17 | head | the first node in the queue; 0 if the queue is empty |
//! | 2 | [`PENDING`] | the lock is reserved for the head: no other thread may take it |
//! | 1 | [`PARKED`] | the head is parked: the release has to wake it |
//! | 0 | [`LOCKED`] | a thread holds the lock |
//!
//! # Stalled heads
//!
//! If the head is not scheduled (CPU quota, debugger, priority), other threads may bypass it. The first thread that
//! finds the lock free and reserved stores the time in the head's node. `BYPASS_NS` later the head counts as
//! *stalled*: a thread that finds the lock reserved for it takes the lock. The bypass clears the reservation and
//! restarts the head's quantum with a delay, so that the lock is not reserved for that head for some time.

use core::marker::PhantomData;
use core::ops::Deref;

use crate::lock::nodes::{DEAD, NODE_BITS, table};
use crate::lock::policy::{BYPASS_APART, Policy};
use crate::lock::waiter::{self, Waiter};
use crate::sync::{AtomicU32, LoomAccess, Ordering::*, const_unless_loom, now, step};

pub const LOCKED: u32 = 1;
pub const PARKED: u32 = 2;
pub const PENDING: u32 = 4;

const FLAGS: u32 = LOCKED | PARKED | PENDING;
const HEAD_SHIFT: u32 = 3;
const TAIL_SHIFT: u32 = HEAD_SHIFT + NODE_BITS;

#[inline(always)]
pub fn head(word: u32) -> u32 {
    word >> HEAD_SHIFT & ((1 << NODE_BITS) - 1)
}

#[inline(always)]
pub fn tail(word: u32) -> u32 {
    word >> TAIL_SHIFT
}

#[inline(always)]
pub fn flags(word: u32) -> u32 {
    word & FLAGS
}

/// Returns the word of a queue from `head` to `tail`, with `flags`.
#[inline(always)]
pub fn with_queue(flags: u32, head: u32, tail: u32) -> u32 {
    flags | head << HEAD_SHIFT | tail << TAIL_SHIFT
}

/// Returns `word` with the queue that is left. Without a queue nothing is parked, and there is no reservation.
pub fn with_rest(word: u32, queue: u32) -> u32 {
    queue | flags(word) & if queue != 0 { !0 } else { LOCKED }
}

/// Returns `true` if the lock is free and not reserved for the head.
#[inline(always)]
pub fn is_open(word: u32) -> bool {
    word & LOCKED == 0 && !is_reserved(word)
}

/// Returns `true` if the lock is free, and reserved for the head.
#[inline(always)]
pub fn is_reserved(word: u32) -> bool {
    word & (LOCKED | PENDING) == PENDING
}

/// The word of a lock with the mechanisms and constants of a policy.
#[derive(Debug)]
pub struct LockWord<P> {
    word: AtomicU32,
    memory: LoomAccess,
    policy: PhantomData<P>,
}

impl<P> Deref for LockWord<P> {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        self.memory.shared();
        &self.word
    }
}

impl<P: Policy> LockWord<P> {
    const_unless_loom! {
        pub fn new(word: u32) -> Self {
            Self { word: AtomicU32::new(word), memory: LoomAccess::new(), policy: PhantomData }
        }
    }

    /// The caller frees the memory of the lock, in a model.
    #[cfg(loom)]
    pub fn free_memory(&self) {
        self.memory.exclusive();
    }

    /// Returns the address of the lock.
    pub fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the lock if it is free, and either not reserved or reserved for a stalled head. Returns `true` if the
    /// caller holds it.
    #[inline]
    pub fn steal(&self, mut word: u32) -> bool {
        if is_reserved(word) {
            if self.has_live_head(word) {
                return self.try_bypass(word);
            }
            word = self.load(Relaxed);
        }
        while Self::may_steal(word) {
            match waiter::with(|waiter| self.try_steal(word, waiter)) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Returns `true` if threads that are not the head may take the lock.
    pub fn may_steal(word: u32) -> bool {
        is_open(word) && (P::STEALING || head(word) == 0)
    }

    /// Takes an open lock, past the queue if there is one. Checks the clock on behalf of the head every few times.
    /// Returns the current word as an error if it is not `word`.
    #[inline]
    pub fn try_steal(&self, word: u32, waiter: &Waiter) -> Result<(), u32> {
        if head(word) == 0 {
            // Acquire, here and below: pairs with the Release in `Raw::unlock` and `Raw::unlock_fair`.
            return self.compare_exchange(word, LOCKED, Acquire, Relaxed).map(|_| ());
        }
        let checks_clock = P::RESERVATION && waiter.clock_check_due();
        let pending = if checks_clock { self.check_quantum(word) } else { 0 };
        self.compare_exchange(word, word | LOCKED | pending, Acquire, Relaxed)?;
        waiter.count_steal();
        Ok(())
    }

    /// Returns [`PENDING`] if the head has waited for so long that the lock is to be reserved for it.
    #[cold]
    fn check_quantum(&self, word: u32) -> u32 {
        let overdue = self.has_live_head(word) && table().node(head(word)).waited_as_head() >= P::RESERVE_NS;
        step!(
            "steals-reserve-nothing",
            if overdue {
                return PENDING;
            }
        );
        0
    }

    /// Returns `true` if there is a head. A queue that the child of a fork has inherited is dropped, which changes
    /// the word.
    pub fn has_live_head(&self, word: u32) -> bool {
        // Relaxed: dead nodes are older than this process.
        let has_dead = table().has_dead.load(Relaxed) != 0;
        head(word) != 0 && !(has_dead && self.drop_dead_queue(word))
    }

    /// Drops the queue of `word` if the child of a fork has inherited it. Returns `true` if so: the word has changed
    /// then.
    #[cold]
    fn drop_dead_queue(&self, word: u32) -> bool {
        // Relaxed, all: the nodes have been dead since the process began. If the exchange fails, another thread has
        // dropped the queue.
        if table().node(head(word)).state.load(Relaxed) != DEAD {
            return false;
        }
        let _ = self.compare_exchange(word, with_rest(word, 0), Relaxed, Relaxed);
        true
    }

    /// Returns `true` if the lock is free, and either not reserved or reserved for a stalled head.
    pub fn may_bypass(word: u32) -> bool {
        word & LOCKED == 0 && (word & PENDING == 0 || Self::head_is_stalled(head(word)))
    }

    /// Returns `true` if a free lock has been reserved for this head for `BYPASS_NS`. The first call stores the time.
    pub fn head_is_stalled(id: u32) -> bool {
        let reserved_since = &table().node(id).reserved_since;
        // Relaxed, both: approximate times are enough.
        match reserved_since.load(Relaxed) {
            0 => {
                reserved_since.store(now().max(1), Relaxed);
                false
            }
            since => now().saturating_sub(since) >= P::BYPASS_NS,
        }
    }

    /// Takes the lock past its head if it [may](Self::may_bypass). Returns `true` if the caller holds it.
    #[cold]
    pub fn try_bypass(&self, mut word: u32) -> bool {
        while P::BYPASS && Self::may_bypass(word) {
            let taken = (word | LOCKED) & !PENDING;
            // Acquire: as in `try_steal`.
            match self.compare_exchange(word, taken, Acquire, Relaxed) {
                Ok(_) if word & PENDING == 0 => return true,
                Ok(_) => {
                    let quantum = || table().node(head(word)).start_quantum(BYPASS_APART * P::BYPASS_NS);
                    step!("bypass-keeps-quantum", quantum());
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }
}
