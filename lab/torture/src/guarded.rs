//! The lock of `torture lock`, and what it guards.

use std::thread;

use stillpoint::lock::{Condvar, Mutex};

use super::common::{Kind, fail};

pub(super) const NAME: &str = "lock";

/// What the lock guards: both halves are equal whenever the lock is free.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    pub(super) first: u64,
    pub(super) second: u64,
    /// The thread whose turn it is, in rounds.
    pub(super) turn: u64,
}

pub(super) static LOCK: Mutex<Guarded> = Mutex::new(Guarded { first: 0, second: 0, turn: 0 });
pub(super) static CHANGED: Condvar = Condvar::new();

impl Guarded {
    /// Works under the lock. Ends the process if another thread does.
    pub(super) fn work(&mut self) {
        self.first += 1;
        for _ in 0..fastrand::u32(..200) {
            std::hint::spin_loop();
        }
        if fastrand::u8(..) == 0 {
            thread::yield_now();
        }
        self.second += 1;
        if self.first != self.second {
            fail(NAME, Kind::Exclusion, "two threads held the lock");
        }
    }
}
