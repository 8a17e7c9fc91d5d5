//! The lock as the crate `lock_api` wants it, which makes mutexes and guards of it.

use std::time::{Duration, Instant};

use lock_api::GuardSend;

use super::policy::Policy;
use super::raw::Raw;
use crate::sync::now;

/// The reading of the clock after `timeout`; `None` if the clock does not reach that.
pub(super) fn after(timeout: Duration) -> Option<u64> {
    u64::try_from(timeout.as_nanos()).ok()?.checked_add(now())
}

/// The same at `instant`.
pub(super) fn at(instant: Instant) -> Option<u64> {
    after(instant.saturating_duration_since(Instant::now()))
}

impl<P: Policy> Raw<P> {
    fn lock_before(&self, until: Option<u64>) -> bool {
        match until {
            Some(until) => self.lock_until(until),
            None => {
                self.lock();
                true
            }
        }
    }
}

// SAFETY: one thread at a time has the lock, from an acquiring read-modify-write of the word to a releasing one. A lock that is
// held may be moved: a queue without its lock would be one that somebody waits in, who borrows the lock.
unsafe impl<P: Policy> lock_api::RawMutex for Raw<P> {
    const INIT: Self = Self::new();

    type Guard = GuardSend;

    #[inline]
    fn lock(&self) -> GuardSend {
        self.lock();
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.try_lock().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardSend) {
        // SAFETY: the caller's contract.
        unsafe { self.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.is_locked()
    }
}

// SAFETY: as above.
unsafe impl<P: Policy> lock_api::RawMutexFair for Raw<P> {
    #[inline]
    unsafe fn unlock_fair(&self, _: GuardSend) {
        // SAFETY: the caller's contract.
        unsafe { self.unlock_fair() };
    }
}

// SAFETY: as above.
unsafe impl<P: Policy> lock_api::RawMutexTimed for Raw<P> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> Option<GuardSend> {
        (self.try_lock() || self.lock_before(after(timeout))).then(GuardSend::new)
    }

    fn try_lock_until(&self, timeout: Instant) -> Option<GuardSend> {
        (self.try_lock() || self.lock_before(at(timeout))).then(GuardSend::new)
    }
}

#[cfg(feature = "lock_api_04")]
mod api_04 {
    use super::*;

    // SAFETY: as for version 0.5.
    unsafe impl<P: Policy> lock_api_04::RawMutex for Raw<P> {
        const INIT: Self = Self::new();

        type GuardMarker = lock_api_04::GuardSend;

        #[inline]
        fn lock(&self) {
            self.lock();
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.try_lock()
        }

        #[inline]
        unsafe fn unlock(&self) {
            // SAFETY: the caller's contract.
            unsafe { self.unlock() };
        }

        fn is_locked(&self) -> bool {
            self.is_locked()
        }
    }

    // SAFETY: as above.
    unsafe impl<P: Policy> lock_api_04::RawMutexFair for Raw<P> {
        #[inline]
        unsafe fn unlock_fair(&self) {
            // SAFETY: the caller's contract.
            unsafe { self.unlock_fair() };
        }
    }

    // SAFETY: as above.
    unsafe impl<P: Policy> lock_api_04::RawMutexTimed for Raw<P> {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, timeout: Duration) -> bool {
            self.try_lock() || self.lock_before(after(timeout))
        }

        fn try_lock_until(&self, timeout: Instant) -> bool {
            self.try_lock() || self.lock_before(at(timeout))
        }
    }
}
