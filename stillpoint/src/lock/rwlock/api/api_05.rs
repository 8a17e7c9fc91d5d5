//! The same for version 0.5 of `lock_api`, whose raw locks return tokens.

#[cfg(not(feature = "send_guard"))]
use lock_api_05::GuardNoSend as GuardMarker;
#[cfg(feature = "send_guard")]
use lock_api_05::GuardSend as GuardMarker;

use super::*;

/// Returns a token for what was acquired.
fn held(is_held: bool) -> Option<GuardMarker> {
    is_held.then(GuardMarker::new)
}

/// Returns the token of what the caller holds, as an error if it is what it held before.
fn upgraded(is_held: bool, token: GuardMarker) -> Result<GuardMarker, GuardMarker> {
    if is_held { Ok(token) } else { Err(token) }
}

// SAFETY: as for version 0.4, here and below.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLock for RawRwLockOf<RECURSIVE> {
    const INIT: Self = Self(RawRw::new());

    type SharedGuard = GuardMarker;
    type ExclusiveGuard = GuardMarker;

    #[inline]
    fn lock_shared(&self) -> GuardMarker {
        self.0.lock_shared::<RECURSIVE>(Timeout::Never);
        GuardMarker::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardMarker> {
        held(self.0.lock_shared::<RECURSIVE>(Timeout::Immediate))
    }

    #[inline]
    unsafe fn unlock_shared(&self, _: GuardMarker) {
        self.0.unlock_shared();
    }

    fn lock_exclusive(&self) -> GuardMarker {
        self.0.lock_exclusive(Timeout::Never);
        GuardMarker::new()
    }

    fn try_lock_exclusive(&self) -> Option<GuardMarker> {
        held(self.0.lock_exclusive(Timeout::Immediate))
    }

    unsafe fn unlock_exclusive(&self, _: GuardMarker) {
        // SAFETY: the caller's contract, here and below.
        unsafe { self.0.unlock_exclusive() };
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockFair for RawRwLockOf<RECURSIVE> {
    #[inline]
    unsafe fn unlock_shared_fair(&self, _: GuardMarker) {
        self.0.unlock_shared();
    }

    unsafe fn unlock_exclusive_fair(&self, _: GuardMarker) {
        // SAFETY: see above.
        unsafe { self.0.unlock_exclusive_fair() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockDowngrade for RawRwLockOf<RECURSIVE> {
    unsafe fn downgrade(&self, token: GuardMarker) -> GuardMarker {
        // SAFETY: see above.
        unsafe { self.0.downgrade() };
        token
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockTimed for RawRwLockOf<RECURSIVE> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardMarker> {
        held(self.0.lock_shared::<RECURSIVE>(within(timeout)))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> Option<GuardMarker> {
        held(self.0.lock_shared::<RECURSIVE>(until(timeout)))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardMarker> {
        held(self.0.lock_exclusive(within(timeout)))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> Option<GuardMarker> {
        held(self.0.lock_exclusive(until(timeout)))
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockUpgrade for RawRwLockOf<RECURSIVE> {
    type UpgradableGuard = GuardMarker;

    fn lock_upgradable(&self) -> GuardMarker {
        self.0.lock_upgradable(Timeout::Never);
        GuardMarker::new()
    }

    fn try_lock_upgradable(&self) -> Option<GuardMarker> {
        held(self.0.lock_upgradable(Timeout::Immediate))
    }

    unsafe fn unlock_upgradable(&self, _: GuardMarker) {
        // SAFETY: see above.
        unsafe { self.0.unlock_upgradable() };
    }

    unsafe fn upgrade(&self, token: GuardMarker) -> GuardMarker {
        // SAFETY: see above. If it panics, the token is dropped with the upgradable read.
        unsafe { self.0.upgrade_or_unlock(Timeout::Never) };
        token
    }

    unsafe fn try_upgrade(&self, token: GuardMarker) -> Result<GuardMarker, GuardMarker> {
        // SAFETY: see above, here and below.
        upgraded(unsafe { self.0.upgrade_or_unlock(Timeout::Immediate) }, token)
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockUpgradeFair for RawRwLockOf<RECURSIVE> {
    unsafe fn unlock_upgradable_fair(&self, _: GuardMarker) {
        // SAFETY: see above.
        unsafe { self.0.unlock_upgradable_fair() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockUpgradeDowngrade for RawRwLockOf<RECURSIVE> {
    unsafe fn downgrade_upgradable(&self, token: GuardMarker) -> GuardMarker {
        // SAFETY: see above.
        unsafe { self.0.downgrade_upgradable() };
        token
    }

    unsafe fn downgrade_to_upgradable(&self, token: GuardMarker) -> GuardMarker {
        // SAFETY: see above.
        unsafe { self.0.downgrade_to_upgradable() };
        token
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_05::RawRwLockUpgradeTimed for RawRwLockOf<RECURSIVE> {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<GuardMarker> {
        held(self.0.lock_upgradable(within(timeout)))
    }

    fn try_lock_upgradable_until(&self, timeout: Instant) -> Option<GuardMarker> {
        held(self.0.lock_upgradable(until(timeout)))
    }

    unsafe fn try_upgrade_for(
        &self,
        token: GuardMarker,
        timeout: Duration,
    ) -> Result<GuardMarker, GuardMarker> {
        // SAFETY: see above.
        upgraded(unsafe { self.0.upgrade_or_unlock(within(timeout)) }, token)
    }

    unsafe fn try_upgrade_until(
        &self,
        token: GuardMarker,
        timeout: Instant,
    ) -> Result<GuardMarker, GuardMarker> {
        // SAFETY: see above.
        upgraded(unsafe { self.0.upgrade_or_unlock(until(timeout)) }, token)
    }
}
