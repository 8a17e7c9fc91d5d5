//! The list of a thread, in thread-local variables with destructors: one for each round.
//!
//! The standard library runs destructors of variables in an order of its own. Those that run later, and arm, use the
//! variable of the next round.

use core::cell::Cell;
use core::ptr;
use std::thread::LocalKey;

use super::{Armed, ROUNDS, run};

struct Round(Cell<*mut Armed>);

thread_local! {
    static FIRST: Round = const { Round(Cell::new(ptr::null_mut())) };
    static SECOND: Round = const { Round(Cell::new(ptr::null_mut())) };
    static THIRD: Round = const { Round(Cell::new(ptr::null_mut())) };
    static FOURTH: Round = const { Round(Cell::new(ptr::null_mut())) };
}

const VARIABLES: [&LocalKey<Round>; ROUNDS] = [&FIRST, &SECOND, &THIRD, &FOURTH];

/// Replaces the list by the result of `f`. Returns `false` if that is `None`.
pub fn change(f: impl Fn(*mut Armed) -> Option<*mut Armed>) -> bool {
    let change = |Round(first): &Round| f(first.get()).map(|changed| first.set(changed)).is_some();
    // After the last round nothing runs any more.
    VARIABLES.into_iter().find_map(|variable| variable.try_with(change).ok()).unwrap_or(true)
}

/// Returns `true` if no list of the thread will run.
pub fn is_over() -> bool {
    VARIABLES.into_iter().all(|variable| variable.try_with(|_| ()).is_err())
}

impl Drop for Round {
    fn drop(&mut self) {
        // SAFETY: taken from this thread. What the functions arm is in the next variable, as this one is being destroyed.
        unsafe { run(self.0.replace(ptr::null_mut())) };
    }
}
