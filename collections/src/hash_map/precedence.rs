//! Precedence of an operation that has lost to other writers of its key again and again.
//!
//! A closure that takes longer than other writers need to change the entry would lose for ever. So after some attempts
//! its operation takes precedence: other writers of the key wait before they take the lock. No lock is held for that,
//! and the wait ends when the precedence does, however long the closure takes. So code of the program cannot deadlock,
//! even if it waits for one of these writers, or for an operation that waits for its own.
//!
//! 1. An operation has precedence for twice as long as its last attempt took, at least [`LEAST`], at most [`MOST`].
//! 2. One operation of a map has it at a time. Others of that key wait as writers do; those of other keys continue without.
//! 3. A thread that has it, for any map, does not wait for others.
//! 4. An operation waits for [`MOST`] in all, however many others have it, and however often. So it ends beside an
//!    operation whose closure changes its own entry in each attempt, which precedence does not help.
//!
//! Nothing but the time of writers depends on it, so all orderings are Relaxed.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::clock::{now, sleep_until};

/// In nanoseconds.
const LEAST: u64 = 1_000_000;
const MOST: u64 = 1_000_000_000;

/// A waiting writer yields this often, and then looks at each `PAUSE` nanoseconds.
const YIELDS: u32 = 20;
const PAUSE: u64 = 100_000;

thread_local! {
    /// Operations of this thread that have precedence: one may call another.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The precedence in a map.
pub(super) struct Precedence {
    /// The time when it ends; 0 if no operation has it.
    end: AtomicU64,
    /// The hash of its key.
    hash: AtomicU64,
}

/// How long an operation waits for others.
#[derive(Default)]
pub(super) struct Patience {
    /// The time when it ends, once the operation has waited.
    end: Option<u64>,
}

/// What an operation has of it.
pub(super) struct Claim<'m> {
    precedence: &'m Precedence,
    /// As in [`Precedence`], or 0 before it is taken.
    end: u64,
    /// When the last attempt began.
    began: u64,
}

impl Precedence {
    pub(super) const fn new() -> Self {
        Self { end: AtomicU64::new(0), hash: AtomicU64::new(0) }
    }

    /// Returns `true` if no operation has it.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        self.end.load(Relaxed) == 0
    }

    /// Waits while an operation of another thread has precedence for entries of `hash`.
    #[inline(always)]
    pub(super) fn give_way(&self, hash: u64, patience: &mut Patience) {
        if !self.is_free() {
            self.give_way_slow(hash, patience);
        }
    }

    #[cold]
    fn give_way_slow(&self, hash: u64, patience: &mut Patience) {
        if HELD.get() > 0 {
            return;
        }
        for round in 0.. {
            let end = self.end.load(Relaxed);
            if end == 0 || self.hash.load(Relaxed) != hash {
                return;
            }
            let now = now();
            if now >= end {
                // An error means that another operation has it.
                let _ = self.end.compare_exchange(end, 0, Relaxed, Relaxed);
                continue;
            }
            let last = *patience.end.get_or_insert(now + MOST);
            if now >= last {
                return;
            } else if round < YIELDS {
                thread::yield_now();
            } else {
                sleep_until(end.min(last).min(now + PAUSE));
            }
        }
    }

    /// Returns what an operation needs to take precedence.
    pub(super) fn claim(&self) -> Claim<'_> {
        Claim { precedence: self, end: 0, began: 0 }
    }
}

impl Claim<'_> {
    /// Takes precedence for another attempt, or continues without it if another operation has it.
    pub(super) fn take(&mut self, hash: u64, patience: &mut Patience) {
        self.precedence.give_way(hash, patience);
        let Precedence { end, hash: of } = self.precedence;
        let now = now();
        let last = if self.began == 0 { 0 } else { now - self.began };
        self.began = now;
        let current = end.load(Relaxed);
        if current > now && current != self.end {
            return;
        }
        let new = now + (2 * last).clamp(LEAST, MOST);
        if end.compare_exchange(current, new, Relaxed, Relaxed).is_ok() {
            of.store(hash, Relaxed);
            if self.end == 0 {
                HELD.set(HELD.get() + 1);
            }
            self.end = new;
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.end != 0 {
            HELD.set(HELD.get() - 1);
            // An error means that it has ended, and another operation may have it.
            let _ = self.precedence.end.compare_exchange(self.end, 0, Relaxed, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_ends_with_its_operation() {
        let precedence = Precedence::new();
        let (mut first, mut second) = (precedence.claim(), precedence.claim());
        first.take(1, &mut Patience::default());
        assert!(first.end != 0 && HELD.get() == 1);
        // Of another key: continues without. This thread does not wait for itself.
        second.take(2, &mut Patience::default());
        assert_eq!((second.end, precedence.hash.load(Relaxed)), (0, 1));
        precedence.give_way(1, &mut Patience::default());
        drop(first);
        assert_eq!((precedence.end.load(Relaxed), HELD.get()), (0, 0));
        second.take(2, &mut Patience::default());
        drop(second);
        assert_eq!((precedence.end.load(Relaxed), HELD.get()), (0, 0));
    }

    #[test]
    fn operation_waits_no_longer_than_its_patience() {
        let precedence = Precedence::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = precedence.claim();
                held.take(1, &mut Patience::default());
                core::mem::forget(held);
            });
        });
        // As if its operation had it for ever.
        precedence.end.store(u64::MAX, Relaxed);
        let mut patience = Patience::default();
        precedence.give_way(2, &mut patience);
        assert_eq!(patience.end, None);
        let begin = now();
        precedence.give_way(1, &mut patience);
        assert!(now() - begin >= MOST && patience.end.is_some_and(|end| (begin..=now()).contains(&end)));
        let end = patience.end;
        precedence.give_way(1, &mut patience);
        assert_eq!((patience.end, precedence.end.load(Relaxed)), (end, u64::MAX));
    }

    #[test]
    fn writers_do_not_wait_for_precedence_that_has_ended() {
        let precedence = Precedence::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = precedence.claim();
                held.take(1, &mut Patience::default());
                // As if its operation never ended.
                core::mem::forget(held);
            });
        });
        precedence.give_way(2, &mut Patience::default());
        assert!(precedence.end.load(Relaxed) != 0);
        precedence.give_way(1, &mut Patience::default());
        assert_eq!(precedence.end.load(Relaxed), 0);
    }

    /// The change takes the path of the usual case, in which no operation has precedence.
    #[test]
    fn change_by_a_closure_counts_although_its_precedence_has_ended() {
        let (map, guard, mut calls) = (crate::HashMap::from([(1, 0)]), stillpoint::rcu::enter(), 0);
        let changes = |_: &_| {
            calls += 1;
            map.precedence.end.store(0, Relaxed);
            if calls < 2000 {
                map.insert(1, 0, &guard);
            }
            7
        };
        let update = std::panic::AssertUnwindSafe(|| map.update(1, changes, &guard));
        assert!(std::panic::catch_unwind(update).is_err(), "no panic after {calls} calls");
    }

    #[test]
    fn all_changes_of_the_key_wait_for_an_operation_that_has_precedence() {
        type Map = crate::HashMap<u32, u32>;
        let changes: [fn(&Map); 5] = [
            |map| _ = map.pin().insert(1, 1),
            |map| _ = map.pin().remove(&1),
            |map| _ = map.pin().update(1, |old| old + 1),
            |map| _ = map.pin().remove_if(&1, |_, _| true),
            |map| map.pin().clear(),
        ];
        thread::scope(|scope| {
            for (number, change) in changes.into_iter().enumerate() {
                scope.spawn(move || {
                    let map = Map::from([(1, 0)]);
                    // As if an operation of another thread had it for ever.
                    map.precedence.hash.store(crate::hash::hash_of(map.hasher(), &1_u32), Relaxed);
                    map.precedence.end.store(u64::MAX, Relaxed);
                    let begin = now();
                    change(&map);
                    assert!(now() - begin >= MOST, "change {number} has not waited");
                });
            }
        });
    }
}
