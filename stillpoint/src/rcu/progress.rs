//! Sleeping until the worker has got somewhere: for `barrier` and for callers above the high-water mark.
//!
//! One word: bit 0 says that somebody sleeps, the rest counts. The worker makes its progress visible, raises the count and
//! takes the bit away, in one step; it wakes the sleepers if the bit was set. A waiter sets the bit, looks whether what it
//! waits for has happened, and sleeps if the word is still the one that it left. All changes are read-modify-writes of one
//! word: if the waiter's came first, the worker finds the bit; if the worker's came first, the waiter finds what has been
//! done.

use core::num::NonZeroU32;
use std::time::Duration;

use crate::sync::{Futex, Ordering::*, const_unless_loom, now, step};

const SLEEPERS: u64 = 1;
const ONE: u64 = 2;
const ANYBODY: NonZeroU32 = NonZeroU32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub struct Progress {
    word: Futex,
}

impl Progress {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { word: Futex::new(0) }
        }
    }

    /// The worker has got somewhere.
    pub fn advance(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            let next = (word + ONE) & !SLEEPERS;
            // Release: what has been done; partner: the Acquire in `wait_until`.
            match self.word.compare_exchange(word, next, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & SLEEPERS != 0 {
            step!("sleepers-not-woken", self.word.wake(u32::MAX, ANYBODY));
        }
    }

    /// Returns when `reached` is true, or after `patience`, if there is a limit to it. Whether `reached` was.
    pub fn wait_until(&self, patience: Option<Duration>, mut reached: impl FnMut() -> bool) -> bool {
        let end = patience.map(|patience| now().saturating_add(patience.as_nanos() as u64));
        loop {
            // Acquire: what was done before the last `advance`.
            let word = self.word.fetch_or(SLEEPERS, Acquire) | SLEEPERS;
            if reached() {
                return true;
            }
            match end {
                None => self.word.wait(word, ANYBODY),
                Some(end) => {
                    let left = end.saturating_sub(now());
                    if left == 0 {
                        return false;
                    }
                    self.word.wait_timeout(word, ANYBODY, Duration::from_nanos(left));
                }
            }
        }
    }
}
