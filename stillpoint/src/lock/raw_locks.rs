//! [`RawMutex`] and [`RawRwLock`] as the raw locks of `lock_api`, in each version. What a caller acquires, version
//! 0.4 calls nothing or `true`, and version 0.5 a token, which the caller gives back when it releases the lock.

use std::time::{Duration, Instant};

use super::mutex::api::{RawMutex, at};
use super::mutex::raw::Raw;
use super::rwlock::api::RawRwLock;
use super::rwlock::gate::{RawRw, Timeout};
use crate::sync::after;

/// Returns when a call with a timeout gives up.
fn within(timeout: Duration) -> Timeout {
    after(timeout).map_or(Timeout::Never, Timeout::At)
}

/// Returns when a call with a time limit gives up.
fn until(instant: Instant) -> Timeout {
    at(instant).map_or(Timeout::Never, Timeout::At)
}

/// `$held` is what the caller holds; `$tried` makes what it may hold of a `bool`, and `$upgraded` what it holds after
/// an attempt. `$token` is what it held before. `$write` and `$upgrade` are the functions that may panic if the
/// kernel denies a fence, and what is right then in this version.
macro_rules! raw_locks {
    (
        $api:ident, $held:expr => $Held:ty, $tried:expr => $Tried:ty, $upgraded:expr => $Upgraded:ty,
        [$($token:ident: $Token:ty)?], [$($mutex:tt)*], [$($rwlock:tt)*], [$($upgradable:tt)*],
        $write:path, $upgrade:path
    ) => {
        // SAFETY: one thread at a time holds the lock, from an acquiring read-modify-write of the word to a releasing
        // one. A lock that is held may be moved: its waiters borrow it, and no waiter rejoins a queue that the child
        // of a fork has inherited.
        unsafe impl $api::RawMutex for RawMutex {
            const INIT: Self = Self(Raw::new());
            $($mutex)*

            #[inline]
            fn lock(&self) -> $Held {
                self.0.lock();
                $held
            }

            #[inline]
            fn try_lock(&self) -> $Tried {
                $tried(self.0.try_lock())
            }

            #[inline]
            unsafe fn unlock(&self $(, _: $Token)?) {
                // SAFETY: the caller's contract, here and below.
                unsafe { self.0.unlock() };
            }

            fn is_locked(&self) -> bool {
                self.0.is_locked()
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawMutexFair for RawMutex {
            #[inline]
            unsafe fn unlock_fair(&self $(, _: $Token)?) {
                // SAFETY: see above.
                unsafe { self.0.unlock_fair() };
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawMutexTimed for RawMutex {
            type Duration = Duration;
            type Instant = Instant;

            fn try_lock_for(&self, timeout: Duration) -> $Tried {
                $tried(self.lock_before(after(timeout)))
            }

            fn try_lock_until(&self, timeout: Instant) -> $Tried {
                $tried(self.lock_before(at(timeout)))
            }
        }

        // SAFETY: see the invariants of [`gate`](super::rwlock::gate). Writers exclude each other, and upgradable
        // readers, by the queued lock.
        unsafe impl $api::RawRwLock for RawRwLock {
            const INIT: Self = Self(RawRw::new());
            $($rwlock)*

            #[inline]
            fn lock_shared(&self) -> $Held {
                self.0.lock_shared::<false>(Timeout::Never);
                $held
            }

            #[inline]
            fn try_lock_shared(&self) -> $Tried {
                $tried(self.0.lock_shared::<false>(Timeout::Immediate))
            }

            #[inline]
            unsafe fn unlock_shared(&self $(, _: $Token)?) {
                self.0.unlock_shared();
            }

            #[inline]
            fn lock_exclusive(&self) -> $Held {
                $write(&self.0, Timeout::Never);
                $held
            }

            #[inline]
            fn try_lock_exclusive(&self) -> $Tried {
                $tried(self.0.lock_exclusive(Timeout::Immediate))
            }

            #[inline]
            unsafe fn unlock_exclusive(&self $(, _: $Token)?) {
                // SAFETY: see above.
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
        unsafe impl $api::RawRwLockFair for RawRwLock {
            #[inline]
            unsafe fn unlock_shared_fair(&self $(, _: $Token)?) {
                self.0.unlock_shared();
            }

            unsafe fn unlock_exclusive_fair(&self $(, _: $Token)?) {
                // SAFETY: see above.
                unsafe { self.0.unlock_exclusive_fair() };
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawRwLockDowngrade for RawRwLock {
            unsafe fn downgrade(&self $(, $token: $Token)?) -> $Held {
                // SAFETY: see above.
                unsafe { self.0.downgrade() };
                $($token)?
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawRwLockTimed for RawRwLock {
            type Duration = Duration;
            type Instant = Instant;

            fn try_lock_shared_for(&self, timeout: Duration) -> $Tried {
                $tried(self.0.lock_shared::<false>(within(timeout)))
            }

            fn try_lock_shared_until(&self, timeout: Instant) -> $Tried {
                $tried(self.0.lock_shared::<false>(until(timeout)))
            }

            fn try_lock_exclusive_for(&self, timeout: Duration) -> $Tried {
                $tried(self.0.lock_exclusive(within(timeout)))
            }

            fn try_lock_exclusive_until(&self, timeout: Instant) -> $Tried {
                $tried(self.0.lock_exclusive(until(timeout)))
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawRwLockUpgrade for RawRwLock {
            $($upgradable)*

            fn lock_upgradable(&self) -> $Held {
                self.0.lock_upgradable(Timeout::Never);
                $held
            }

            fn try_lock_upgradable(&self) -> $Tried {
                $tried(self.0.lock_upgradable(Timeout::Immediate))
            }

            unsafe fn unlock_upgradable(&self $(, _: $Token)?) {
                // SAFETY: see above.
                unsafe { self.0.unlock_upgradable() };
            }

            unsafe fn upgrade(&self $(, $token: $Token)?) -> $Held {
                // SAFETY: see above.
                unsafe { $upgrade(&self.0, Timeout::Never) };
                $($token)?
            }

            unsafe fn try_upgrade(&self $(, $token: $Token)?) -> $Upgraded {
                // SAFETY: see above.
                $upgraded(unsafe { $upgrade(&self.0, Timeout::Immediate) } $(, $token)?)
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawRwLockUpgradeFair for RawRwLock {
            unsafe fn unlock_upgradable_fair(&self $(, _: $Token)?) {
                // SAFETY: see above.
                unsafe { self.0.unlock_upgradable_fair() };
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawRwLockUpgradeDowngrade for RawRwLock {
            unsafe fn downgrade_upgradable(&self $(, $token: $Token)?) -> $Held {
                // SAFETY: see above.
                unsafe { self.0.downgrade_upgradable() };
                $($token)?
            }

            unsafe fn downgrade_to_upgradable(&self $(, $token: $Token)?) -> $Held {
                // SAFETY: see above.
                unsafe { self.0.downgrade_to_upgradable() };
                $($token)?
            }
        }

        // SAFETY: as above.
        unsafe impl $api::RawRwLockUpgradeTimed for RawRwLock {
            fn try_lock_upgradable_for(&self, timeout: Duration) -> $Tried {
                $tried(self.0.lock_upgradable(within(timeout)))
            }

            fn try_lock_upgradable_until(&self, timeout: Instant) -> $Tried {
                $tried(self.0.lock_upgradable(until(timeout)))
            }

            unsafe fn try_upgrade_for(&self $(, $token: $Token)?, timeout: Duration) -> $Upgraded {
                // SAFETY: see above.
                $upgraded(unsafe { $upgrade(&self.0, within(timeout)) } $(, $token)?)
            }

            unsafe fn try_upgrade_until(&self $(, $token: $Token)?, timeout: Instant) -> $Upgraded {
                // SAFETY: see above.
                $upgraded(unsafe { $upgrade(&self.0, until(timeout)) } $(, $token)?)
            }
        }
    };
}

mod api_04 {
    #[cfg(not(feature = "send_guard"))]
    use lock_api::GuardNoSend as Marker;
    #[cfg(feature = "send_guard")]
    use lock_api::GuardSend as Marker;

    use super::*;
    use crate::lock::policy::DefaultPolicy;

    /// Ends the process if the fence of a write is denied: `lock_api` 0.4 locks again under a live guard (`unlocked`,
    /// `bump`), which must not be dropped without the lock. Version 0.5 aborts by itself in these two.
    struct AbortOnUnwind;

    impl Drop for AbortOnUnwind {
        fn drop(&mut self) {
            std::process::abort();
        }
    }

    #[inline]
    fn write_or_abort(lock: &RawRw<DefaultPolicy>, timeout: Timeout) {
        let abort = AbortOnUnwind;
        lock.lock_exclusive(timeout);
        core::mem::forget(abort);
    }

    // If an upgrade panics, the guard is dropped, which releases the upgradable read.
    raw_locks!(
        lock_api, () => (), core::convert::identity => bool, core::convert::identity => bool,
        [], [type GuardMarker = Marker;], [type GuardMarker = Marker;], [],
        write_or_abort, RawRw::upgrade
    );

    // SAFETY: as for `RawRwLock`.
    unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
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
    unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
        fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
            self.0.lock_shared::<true>(within(timeout))
        }

        fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
            self.0.lock_shared::<true>(until(timeout))
        }
    }
}

#[cfg(feature = "lock_api_05")]
mod api_05 {
    #[cfg(not(feature = "send_guard"))]
    use lock_api_05::GuardNoSend as Marker;
    #[cfg(feature = "send_guard")]
    use lock_api_05::GuardSend as Marker;

    use super::*;

    fn held(is_held: bool) -> Option<Marker> {
        is_held.then(Marker::new)
    }

    /// Returns the token of what the caller holds, as an error if it is what it held before.
    fn upgraded(is_held: bool, token: Marker) -> Result<Marker, Marker> {
        if is_held { Ok(token) } else { Err(token) }
    }

    // If an upgrade panics, the token is dropped with the upgradable read.
    raw_locks!(
        lock_api_05, Marker::new() => Marker, held => Option<Marker>, upgraded => Result<Marker, Marker>,
        [token: Marker], [type Guard = Marker;], [type SharedGuard = Marker; type ExclusiveGuard = Marker;],
        [type UpgradableGuard = Marker;],
        RawRw::lock_exclusive, RawRw::upgrade_or_unlock
    );
}
