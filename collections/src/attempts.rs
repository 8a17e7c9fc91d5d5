//! Attempts to change an entry, and code of the program that defeats them.
//!
//! A writer looks its key up, which compares keys, and may call a closure of the program. Then it changes the entry,
//! unless another change came first. Then it tries again. After [`PATIENCE`] attempts its operation takes its
//! [turn](crate::turn), so that other threads let it succeed.
//!
//! The comparison or the closure may itself change the entry. If it does so in each attempt, no attempt succeeds. So
//! from attempt [`LIMIT`] on, the map watches for changes by the code that it calls, and panics if there is one.
//! Attempts that fail because of other threads have no limit.
//!
//! Keys with the same hash are one key here. An entry that comes to one of them does defeat an insertion of another:
//! in a chain that has changed, [hashes](crate::table::entries) are compared under the lock, and not keys.

use core::cell::Cell;
use core::ptr;

use crate::turn::{Held, Turn};

/// Attempts without a turn.
const PATIENCE: u32 = 8;
/// The first attempt that is watched.
const LIMIT: u32 = 1000;

thread_local! {
    /// The attempt whose code this thread is running, if it is watched.
    static WATCHED: Cell<Option<Attempt>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Attempt {
    /// The address of the turn in the map.
    map: usize,
    hash: u64,
    is_defeated: bool,
}

/// The attempts of an operation.
pub struct Attempts<'m> {
    turn: &'m Turn,
    hash: u64,
    begun: u32,
    held: Option<Held<'m>>,
    /// How long it has waited for others.
    round: u32,
}

impl<'m> Attempts<'m> {
    #[inline(always)]
    pub fn new(turn: &'m Turn, hash: u64) -> Self {
        Self { turn, hash, begun: 0, held: None, round: 0 }
    }

    /// Those that follow a first one, which was made without this.
    pub fn after_first(turn: &'m Turn, hash: u64) -> Self {
        Self { begun: 1, ..Self::new(turn, hash) }
    }

    /// Begins an attempt, in which the program's code is called.
    #[inline(always)]
    pub fn begin(&mut self) -> Option<Watch> {
        self.begun += 1;
        if self.begun <= PATIENCE { None } else { self.begin_slow() }
    }

    #[cold]
    fn begin_slow(&mut self) -> Option<Watch> {
        match &self.held {
            Some(held) => held.renew(),
            None => self.held = self.turn.take(self.hash),
        }
        if self.begun < LIMIT {
            return None;
        }
        self.begun = LIMIT;
        Some(self.watch())
    }

    /// Waits while it is another operation's turn, before the change of an attempt.
    #[inline(always)]
    pub fn wait(&mut self) {
        self.turn.wait(self.hash, &mut self.round);
    }

    /// The hash of the key.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn watch(&self) -> Watch {
        let attempt = Attempt { map: address(self.turn), hash: self.hash, is_defeated: false };
        Watch { outer: WATCHED.replace(Some(attempt)) }
    }
}

/// Notes that the calling thread has changed the entry of a hash.
#[inline(always)]
pub fn note_change(turn: &Turn, hash: u64) {
    let Some(attempt) = WATCHED.get() else { return };
    if (attempt.map, attempt.hash) == (address(turn), hash) {
        WATCHED.set(Some(Attempt { is_defeated: true, ..attempt }));
    }
}

/// An attempt that is watched, until dropped.
pub struct Watch {
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
pub fn end(watch: Option<Watch>) {
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
        "a closure, or the comparison of keys, changes entries with the hash of its own key again and again"
    );
}

fn address(turn: &Turn) -> usize {
    ptr::from_ref(turn).addr()
}
