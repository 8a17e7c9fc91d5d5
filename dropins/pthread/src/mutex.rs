//! `pthread_mutex_t`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

use libc::{CLOCK_REALTIME, EBUSY, EINVAL, ETIMEDOUT, clockid_t, pthread_mutex_t, timespec};
use lock_api::{RawMutex as _, RawMutexTimed as _};
use stillpoint::lock::RawMutex;

use crate::original::replaced;
use crate::time::{self, Until};

/// The parts of the C library's object that are used here.
#[repr(C)]
struct Mutex {
    lock: RawMutex,
    _owner: [u32; 2],
    /// The C library's count of threads that hold the mutex or wait for a condition with it: it must not be
    /// destroyed. Changes while the mutex is held. Those that hold a plain one are not counted.
    users: AtomicU32,
    kind: AtomicI32,
}

const _: () = assert!(size_of::<RawMutex>() == 4 && size_of::<Mutex>() <= size_of::<pthread_mutex_t>());

/// In the kind: what hardware lock elision is to do, which is not used here.
const ELISION: i32 = 0x300;
/// The kind after `pthread_mutex_destroy`: functions of the C library return an error.
const DESTROYED: i32 = -1;

/// Returns the mutex if its lock is stillpoint's: it is of the normal or the adaptive type, and not robust, with a
/// priority protocol, shared between processes, or destroyed.
///
/// # Safety
///
/// The mutex is initialized.
#[inline(always)]
unsafe fn plain<'a>(mutex: *mut pthread_mutex_t) -> Option<&'a Mutex> {
    // SAFETY: the caller's contract.
    let mutex = unsafe { &*mutex.cast::<Mutex>() };
    // Relaxed: the threads that share the mutex have initialized it before.
    let kind = mutex.kind.load(Relaxed) & !ELISION;
    matches!(kind, libc::PTHREAD_MUTEX_NORMAL | libc::PTHREAD_MUTEX_ADAPTIVE_NP).then_some(mutex)
}

/// Returns `true` if the lock of this mutex is stillpoint's.
///
/// # Safety
///
/// The mutex is initialized.
pub unsafe fn is_plain(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { plain(mutex) }.is_some()
}

/// Unlocks the mutex for a wait at a condition variable, which counts as a use. Returns an error, without an effect,
/// if the mutex cannot be unlocked.
///
/// # Safety
///
/// The mutex is initialized.
pub unsafe fn unlock_to_wait(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract, here and below.
    let users = &unsafe { &*mutex.cast::<Mutex>() }.users;
    // Relaxed, here and below: the mutex orders it.
    users.fetch_add(1, Relaxed);
    // SAFETY: as above.
    let error = unsafe { pthread_mutex_unlock(mutex) };
    if error != 0 {
        users.fetch_sub(1, Relaxed);
    }
    error
}

/// Locks the mutex after [`unlock_to_wait`].
///
/// # Safety
///
/// The mutex is initialized.
pub unsafe fn lock_after_wait(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: as above.
    let error = unsafe { pthread_mutex_lock(mutex) };
    // SAFETY: as above.
    unsafe { &*mutex.cast::<Mutex>() }.users.fetch_sub(1, Relaxed);
    error
}

replaced! { plain(*mut pthread_mutex_t):
    fn pthread_mutex_lock(plain) = __pthread_mutex_lock {
        plain.lock.lock();
        0
    }

    fn pthread_mutex_trylock(plain) = __pthread_mutex_trylock {
        if plain.lock.try_lock() { 0 } else { EBUSY }
    }

    /// The mutex need not be held, as the C library does not check that either.
    fn pthread_mutex_unlock(plain) = __pthread_mutex_unlock {
        if plain.lock.is_locked() {
            // SAFETY: a program that unlocks it holds it. The guard stands for that.
            unsafe { plain.lock.unlock() };
        }
        0
    }

    fn pthread_mutex_timedlock(plain, until: *const timespec) {
        // SAFETY: the caller's contract.
        unsafe { lock_until(plain, CLOCK_REALTIME, until) }
    }

    fn pthread_mutex_clocklock(plain, clock: clockid_t, until: *const timespec) {
        if !time::is_supported(clock) {
            return EINVAL;
        }
        // SAFETY: the caller's contract.
        unsafe { lock_until(plain, clock, until) }
    }

    fn pthread_mutex_destroy(plain) = __pthread_mutex_destroy {
        if plain.lock.is_locked() || plain.users.load(Relaxed) != 0 {
            return EBUSY;
        }
        // Relaxed: no other thread uses it.
        plain.kind.store(DESTROYED, Relaxed);
        0
    }
}

/// # Safety
///
/// `until` is a time, unless the mutex is free.
unsafe fn lock_until(mutex: &Mutex, clock: clockid_t, until: *const timespec) -> c_int {
    if mutex.lock.try_lock() {
        return 0;
    }
    // SAFETY: the caller's contract.
    let Some(until) = Until::new(clock, unsafe { &*until }) else { return EINVAL };
    // Again, if the clock has been set back.
    while let Some(left) = until.left() {
        if mutex.lock.try_lock_for(left) {
            return 0;
        }
    }
    ETIMEDOUT
}
