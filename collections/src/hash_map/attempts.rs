//! Attempts to change an entry, and code of the program that defeats them.
//!
//! A writer looks its key up, which compares keys, and may call a closure of the program. Then it changes the entry,
//! unless another change came first. Then it tries again. From attempt [`PATIENCE`] on, its operation takes
//! [precedence](super::precedence), so that other threads let it succeed.
//!
//! The comparison or the closure may itself change the entry. If it does so in each attempt, no attempt succeeds. So
//! from attempt [`LIMIT`] on, the map watches for changes by the code that it calls, and panics if there is one.
//! Attempts that fail because of other threads have no limit.

use core::cell::Cell;
use core::ptr;

use super::precedence::{Claim, Patience, Precedence};

/// Attempts without precedence.
const PATIENCE: u32 = 8;
/// Attempts that are not watched.
const LIMIT: u32 = 1000;

thread_local! {
    /// The attempt whose code this thread is running, if it is watched.
    static WATCHED: Cell<Option<Attempt>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Attempt {
    /// The address of the precedence in the map.
    map: usize,
    hash: u64,
    is_defeated: bool,
}

/// The attempts of an operation.
pub(super) struct Attempts<'m> {
    precedence: &'m Precedence,
    hash: u64,
    begun: u32,
    held: Option<Claim<'m>>,
    patience: Patience,
}

impl<'m> Attempts<'m> {
    #[inline(always)]
    pub(super) fn new(precedence: &'m Precedence, hash: u64) -> Self {
        Self { precedence, hash, begun: 0, held: None, patience: Patience::default() }
    }

    /// Begins an attempt, in which the program's code is called.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Option<Watch> {
        self.begun += 1;
        if self.begun <= PATIENCE { None } else { self.begin_slow() }
    }

    #[cold]
    fn begin_slow(&mut self) -> Option<Watch> {
        self.held.get_or_insert_with(|| self.precedence.claim()).take(self.hash, &mut self.patience);
        if self.begun <= LIMIT {
            return None;
        }
        self.begun = LIMIT;
        Some(self.watch())
    }

    /// Waits for an operation that has precedence, before the change of an attempt.
    #[inline(always)]
    pub(super) fn give_way(&mut self) {
        self.precedence.give_way(self.hash, &mut self.patience);
    }

    /// The hash of the key.
    #[inline(always)]
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    fn watch(&self) -> Watch {
        let attempt = Attempt { map: address(self.precedence), hash: self.hash, is_defeated: false };
        Watch { outer: WATCHED.replace(Some(attempt)) }
    }
}

/// Notes that the calling thread has changed the entry of a hash.
#[inline(always)]
pub(super) fn note_change(precedence: &Precedence, hash: u64) {
    let Some(attempt) = WATCHED.get() else { return };
    if (attempt.map, attempt.hash) == (address(precedence), hash) {
        WATCHED.set(Some(Attempt { is_defeated: true, ..attempt }));
    }
}

/// An attempt that is watched, until dropped.
pub(super) struct Watch {
    /// The attempt whose code has begun this one.
    outer: Option<Attempt>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.set(self.outer);
    }
}

/// Ends the part of an attempt in which the program's code is called.
///
/// # Panics
///
/// If the attempt is watched, and that code has changed the entry.
#[inline(always)]
#[track_caller]
pub(super) fn end(watch: Option<Watch>) {
    if watch.is_some() {
        end_slow();
    }
}

#[cold]
#[track_caller]
fn end_slow() {
    let is_defeated = WATCHED.get().is_some_and(|attempt| attempt.is_defeated);
    assert!(
        !is_defeated,
        "a closure, or the comparison of keys, changes the entry of its own key again and again"
    );
}

fn address(precedence: &Precedence) -> usize {
    ptr::from_ref(precedence).addr()
}
