//! The same for version 0.4 of `lock_api`.

use super::*;

/// `lock_api` 0.4 locks again under a live guard (`unlocked`, `bump`), which must not be dropped without the lock.
/// Version 0.5 aborts by itself there, if the fence of a write is denied.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

// SAFETY: as for version 0.5, here and below.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLock for RawRwLockOf<RECURSIVE> {
    const INIT: Self = Self(RawRw::new());

    #[cfg(not(feature = "send_guard"))]
    type GuardMarker = lock_api_04::GuardNoSend;
    #[cfg(feature = "send_guard")]
    type GuardMarker = lock_api_04::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        self.0.lock_shared::<RECURSIVE>(Timeout::Never);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.0.lock_shared::<RECURSIVE>(Timeout::Immediate)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.0.unlock_shared();
    }

    fn lock_exclusive(&self) {
        let abort = AbortOnUnwind;
        self.0.lock_exclusive(Timeout::Never);
        core::mem::forget(abort);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.lock_exclusive(Timeout::Immediate)
    }

    unsafe fn unlock_exclusive(&self) {
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
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockFair for RawRwLockOf<RECURSIVE> {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.0.unlock_shared();
    }

    unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: see above.
        unsafe { self.0.unlock_exclusive_fair() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockDowngrade for RawRwLockOf<RECURSIVE> {
    unsafe fn downgrade(&self) {
        // SAFETY: see above.
        unsafe { self.0.downgrade() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockTimed for RawRwLockOf<RECURSIVE> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.0.lock_shared::<RECURSIVE>(within(timeout))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.0.lock_shared::<RECURSIVE>(until(timeout))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.0.lock_exclusive(within(timeout))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.0.lock_exclusive(until(timeout))
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockRecursive for RawRwLockOf<RECURSIVE> {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.0.lock_shared::<true>(Timeout::Never);
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.0.lock_shared::<true>(Timeout::Immediate)
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockRecursiveTimed for RawRwLockOf<RECURSIVE> {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.0.lock_shared::<true>(within(timeout))
    }

    fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
        self.0.lock_shared::<true>(until(timeout))
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockUpgrade for RawRwLockOf<RECURSIVE> {
    fn lock_upgradable(&self) {
        self.0.lock_upgradable(Timeout::Never);
    }

    fn try_lock_upgradable(&self) -> bool {
        self.0.lock_upgradable(Timeout::Immediate)
    }

    unsafe fn unlock_upgradable(&self) {
        // SAFETY: see above.
        unsafe { self.0.unlock_upgradable() };
    }

    unsafe fn upgrade(&self) {
        // SAFETY: see above. If it panics, the guard is dropped, which releases the upgradable read.
        unsafe { self.0.upgrade(Timeout::Never) };
    }

    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: see above.
        unsafe { self.0.upgrade(Timeout::Immediate) }
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockUpgradeFair for RawRwLockOf<RECURSIVE> {
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: see above.
        unsafe { self.0.unlock_upgradable_fair() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockUpgradeDowngrade for RawRwLockOf<RECURSIVE> {
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: see above.
        unsafe { self.0.downgrade_upgradable() };
    }

    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: see above.
        unsafe { self.0.downgrade_to_upgradable() };
    }
}

// SAFETY: as above.
unsafe impl<const RECURSIVE: bool> lock_api_04::RawRwLockUpgradeTimed for RawRwLockOf<RECURSIVE> {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.0.lock_upgradable(within(timeout))
    }

    fn try_lock_upgradable_until(&self, timeout: Instant) -> bool {
        self.0.lock_upgradable(until(timeout))
    }

    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        // SAFETY: see above.
        unsafe { self.0.upgrade(within(timeout)) }
    }

    unsafe fn try_upgrade_until(&self, timeout: Instant) -> bool {
        // SAFETY: see above.
        unsafe { self.0.upgrade(until(timeout)) }
    }
}
