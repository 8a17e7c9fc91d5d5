//! An eventcount: threads sleep until another thread makes a condition true.
//!
//! In its word, bit 0, `WAITERS`, is set while a thread may sleep; the rest counts notifications. A notifier first
//! changes what the condition depends on. It then raises the count and clears the bit, in one step, and wakes the
//! sleepers if the bit was set. A waiter sets the bit, checks its condition, and sleeps if the word is still the one
//! that it left.
//!
//! # No wake-up is lost
//!
//! All changes are read-modify-writes of one word. If the waiter's comes first, the notifier finds the bit. If the
//! notifier's comes first, the waiter acquires the change, and its condition holds.

use core::num::NonZeroU32;
use std::time::Duration;

use super::{Futex, Ordering::*, const_unless_loom, now, step};

const WAITERS: u64 = 1;
const ONE: u64 = 2;

/// See the [module](self).
#[derive(Debug)]
pub struct EventCount {
    word: Futex,
}

impl EventCount {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { word: Futex::new(0) }
        }
    }

    /// Wakes all waiters: those that sleep, and those that are about to.
    pub fn notify_all(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            let next = (word + ONE) & !WAITERS;
            // Release: publishes what the waiters' conditions depend on; pairs with the Acquire in `prepare_wait`.
            // Acquire: what a waiter announces; pairs with the Release there.
            match self.word.compare_exchange(word, next, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & WAITERS != 0 {
            step!("sleepers-not-woken", self.word.wake(u32::MAX, NonZeroU32::MAX));
        }
    }

    /// Announces a wait: the next notification finds it. Returns the word that it leaves. The caller then checks its
    /// condition.
    pub fn prepare_wait(&self) -> u64 {
        // Acquire: what was published before the last notification; pairs with the Release in `notify_all`. Release:
        // publishes a waker that the caller has left; pairs with the Acquire there.
        self.word.fetch_or(WAITERS, AcqRel) | WAITERS
    }

    /// Blocks until `reached` returns `true`, or for `limit`, if there is one. Returns the last result of `reached`.
    pub fn wait_until(&self, limit: Option<Duration>, mut reached: impl FnMut() -> bool) -> bool {
        let end = limit.map(|limit| now().saturating_add(limit.as_nanos() as u64));
        loop {
            let word = self.prepare_wait();
            if reached() {
                return true;
            }
            match end.map(|end| end.saturating_sub(now())) {
                None => self.word.wait(word, NonZeroU32::MAX),
                Some(0) => return false,
                Some(left) => self.word.wait_timeout(word, NonZeroU32::MAX, Duration::from_nanos(left)),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use support::deadline::deadline;

    #[test]
    fn notification_wakes_those_that_wait_once() {
        let event = EventCount::new();
        let is_awaited = || event.word.load(Relaxed) & WAITERS != 0;
        let _ = event.prepare_wait();
        assert!(is_awaited());
        event.notify_all();
        // The next one wakes nothing.
        assert!(!is_awaited());
    }

    #[test]
    fn wait_looks_at_its_condition_at_its_limit() {
        assert!(EventCount::new().wait_until(Some(Duration::ZERO), || true));
    }

    #[test]
    fn wait_ends_at_its_limit_although_notifications_go_on() {
        let _running = deadline();
        let event = EventCount::new();
        let limit = Some(Duration::from_millis(5));
        assert!(!event.wait_until(limit, || {
            event.notify_all();
            false
        }));
    }
}
