//! The turn of an operation that has lost to other writers of its key again and again.
//!
//! A closure that takes longer than other writers need to change the entry would lose for ever. So after some
//! attempts it is the turn of its operation: other writers of the key wait before they lock the bucket. No lock is
//! held for that, and no writer waits for ever, however long the closure takes. So code of the program cannot
//! deadlock, even if it waits for one of these writers, or for an operation that waits for its own.
//!
//! 1. It is the turn of one operation of a map at a time. Others of that key wait as writers do; those of other keys
//!    continue without. An operation whose first attempt began before the turn does not wait in that one.
//! 2. A thread whose turn it is, in any map, does not wait for others.
//! 3. A writer that has waited for [`ROUNDS`] ends the turn. The operation may take another one in its next attempt.
//!    A writer waits for no more than that in all, so it ends beside an operation whose closure changes its own entry
//!    in each attempt.
//!
//! Nothing but the time of writers depends on it, so all orderings are Relaxed.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sync::pause;

/// Rounds of a wait: about a second.
const ROUNDS: u32 = 10_000;

thread_local! {
    /// Operations of this thread whose turn it is: one may call another.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Whose turn it is in a map: the hash of the key, with the lowest bit set, or 0.
pub struct Turn(AtomicU64);

/// The turn of an operation, until dropped.
pub struct Held<'m> {
    turn: &'m Turn,
    hash: u64,
}

impl Turn {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns `true` if it is the turn of no operation.
    #[inline(always)]
    pub fn is_free(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Waits while it is the turn of another thread's operation of the key. `round` counts how long the caller has
    /// waited.
    #[inline(always)]
    pub fn wait(&self, hash: u64, round: &mut u32) {
        if !self.is_free() {
            *round = self.wait_slow(hash, *round);
        }
    }

    #[cold]
    fn wait_slow(&self, hash: u64, mut round: u32) -> u32 {
        while self.0.load(Relaxed) == hash | 1 && HELD.get() == 0 && round <= ROUNDS {
            if round == ROUNDS {
                self.end(hash);
            }
            pause(round);
            round += 1;
        }
        round
    }

    /// Takes a turn, unless it is that of another operation.
    pub fn take(&self, hash: u64) -> Option<Held<'_>> {
        self.0.compare_exchange(0, hash | 1, Relaxed, Relaxed).ok()?;
        HELD.set(HELD.get() + 1);
        Some(Held { turn: self, hash })
    }

    fn end(&self, hash: u64) {
        // An error: it is the turn of another operation.
        let _ = self.0.compare_exchange(hash | 1, 0, Relaxed, Relaxed);
    }
}

impl Held<'_> {
    /// Takes another turn, if this one has ended.
    pub fn renew(&self) {
        let _ = self.turn.0.compare_exchange(0, self.hash | 1, Relaxed, Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        self.turn.end(self.hash);
    }
}
