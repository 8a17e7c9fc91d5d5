//! Attempts to change an entry, and code of the program that defeats them.
//!
//! A writer looks its key up, which compares keys, and may call a closure of the program. Then it changes the entry,
//! unless another change came first. Then it tries again.
//!
//! The comparison or the closure may itself change the entry. If it does so in each attempt, no attempt succeeds. So
//! from attempt [`LIMIT`] on, the map watches for changes by the code that it calls, and panics if there is one.
//! Attempts that fail because of other threads have no limit.

use core::cell::Cell;

/// Attempts that are not watched.
const LIMIT: u32 = 1000;

thread_local! {
    /// The attempt whose code this thread is running, if it is watched.
    static WATCHED: Cell<Option<Attempt>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Attempt {
    /// The address of the map.
    map: usize,
    hash: u64,
    is_defeated: bool,
}

/// The attempts of an operation.
pub(super) struct Attempts {
    map: usize,
    hash: u64,
    begun: u32,
}

impl Attempts {
    #[inline(always)]
    pub(super) fn new<M>(map: &M, hash: u64) -> Self {
        Self { map: address(map), hash, begun: 0 }
    }

    /// Begins an attempt, in which the program's code is called.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Option<Watch> {
        if self.begun < LIMIT {
            self.begun += 1;
            return None;
        }
        Some(self.watch())
    }

    #[cold]
    fn watch(&self) -> Watch {
        let attempt = Attempt { map: self.map, hash: self.hash, is_defeated: false };
        Watch { outer: WATCHED.replace(Some(attempt)) }
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
pub(super) fn end(watch: Option<Watch>) {
    if watch.is_some() {
        end_slow();
    }
}

#[cold]
fn end_slow() {
    let is_defeated = WATCHED.get().is_some_and(|attempt| attempt.is_defeated);
    assert!(
        !is_defeated,
        "a closure, or the comparison of keys, changes the entry of its own key again and again"
    );
}

/// Notes that the calling thread has changed an entry of a hash.
#[inline(always)]
pub(super) fn note_change<M>(map: &M, hash: u64) {
    if let Some(attempt) = WATCHED.get()
        && (attempt.map, attempt.hash) == (address(map), hash)
    {
        WATCHED.set(Some(Attempt { is_defeated: true, ..attempt }));
    }
}

fn address<M>(map: &M) -> usize {
    core::ptr::from_ref(map).addr()
}
