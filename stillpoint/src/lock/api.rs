//! The lock as the crate `lock_api` wants it, which makes mutexes and guards of it.

use std::time::{Duration, Instant};

use lock_api::GuardSend;

use super::RawMutex;
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

impl RawMutex {
    /// Takes the lock, unless the clock shows `until` before, if it ever does.
    fn lock_before(&self, until: Option<u64>) -> bool {
        match until {
            _ if self.0.try_lock() => true,
            Some(until) => self.0.lock_until(until),
            None => {
                self.0.lock();
                true
            }
        }
    }
}

// SAFETY: one thread at a time has the lock, from an acquiring read-modify-write of the word to a releasing one. A lock that is
// held may be moved: who waits in its queue borrows it. Those who did not survive a fork come back to none.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self(Raw::new());

    type Guard = GuardSend;

    #[inline]
    fn lock(&self) -> GuardSend {
        self.0.lock();
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.0.try_lock().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardSend) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self, _: GuardSend) {
        // SAFETY: the caller's contract.
        unsafe { self.0.unlock_fair() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.lock_before(after(timeout)).then(GuardSend::new)
    }

    fn try_lock_until(&self, timeout: Instant) -> Option<GuardSend> {
        self.lock_before(at(timeout)).then(GuardSend::new)
    }
}

#[cfg(feature = "lock_api_04")]
mod api_04 {
    use super::*;

    // SAFETY: as for version 0.5.
    unsafe impl lock_api_04::RawMutex for RawMutex {
        const INIT: Self = Self(Raw::new());

        type GuardMarker = lock_api_04::GuardSend;

        #[inline]
        fn lock(&self) {
            self.0.lock();
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.0.try_lock()
        }

        #[inline]
        unsafe fn unlock(&self) {
            // SAFETY: the caller's contract.
            unsafe { self.0.unlock() };
        }

        fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
    }

    // SAFETY: as above.
    unsafe impl lock_api_04::RawMutexFair for RawMutex {
        #[inline]
        unsafe fn unlock_fair(&self) {
            // SAFETY: the caller's contract.
            unsafe { self.0.unlock_fair() };
        }
    }

    // SAFETY: as above.
    unsafe impl lock_api_04::RawMutexTimed for RawMutex {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, timeout: Duration) -> bool {
            self.lock_before(after(timeout))
        }

        fn try_lock_until(&self, timeout: Instant) -> bool {
            self.lock_before(at(timeout))
        }
    }
}
