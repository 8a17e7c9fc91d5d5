//! The locks of `stillpoint::lock` by their C names. The program allocates them itself: C has their sizes and
//! initializers.
//!
//! C has no guards: a function that takes a lock forgets the guard, and one that releases it needs none, as the guard
//! has nothing but the lock's address. Only attempts may panic: to write, where the kernel denies a fence that it has
//! allowed before.

use core::ffi::c_int;
use core::mem::{self, ManuallyDrop};
use core::ptr::NonNull;
use std::time::Duration;

use stillpoint::lock::{Condvar, Mutex, RwLock};

use crate::boundary::{catch, misuse};

/// `struct sp_mutex`.
type CMutex = Mutex<()>;
/// `struct sp_rwlock`.
type CRwLock = RwLock<()>;

// The initializers of the header: zeros, but for the first word of a reader-writer lock, whose gate is `FREE` (33),
// and its last four bytes, which say that readers count themselves in the gate (word mode).
const _: () = {
    // SAFETY: they consist of integers, and have no padding.
    unsafe {
        assert!(mem::transmute::<CMutex, u32>(CMutex::new(())) == 0);
        let [first, second] = mem::transmute::<Condvar, [u64; 2]>(Condvar::new());
        assert!(first == 0 && second == 0);
        let [gate, rest @ .., last] = mem::transmute::<CRwLock, [u64; 7]>(CRwLock::new(()));
        assert!(gate == 33 && last == 1 << 32);
        let mut word = 0;
        while word < rest.len() {
            assert!(rest[word] == 0);
            word += 1;
        }
    }
};

/// Keeps the lock, if there is a guard. Otherwise returns the error.
#[inline]
fn keep<G>(guard: Option<G>, error: c_int) -> c_int {
    match guard {
        Some(guard) => {
            mem::forget(guard);
            0
        }
        None => -error,
    }
}

/// Defines four functions of C: `$lock` blocks until the calling thread has the lock, `$try` returns `-EBUSY` instead
/// of blocking, `$timed` returns `-ETIMEDOUT` after so many nanoseconds, and `$unlock` releases it. The names behind
/// them are the methods that they call.
macro_rules! functions {
    ($type:ty: $lock:ident, $try:ident, $timed:ident, $unlock:ident: $take:ident, $try_take:ident, $take_for:ident,
        $end:ident) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $lock(lock: &$type) {
            mem::forget(lock.$take());
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $try(lock: &$type) -> c_int {
            catch(|| Ok(keep(lock.$try_take(), libc::EBUSY)))
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $timed(lock: &$type, timeout: u64) -> c_int {
            catch(|| Ok(keep(lock.$take_for(Duration::from_nanos(timeout)), libc::ETIMEDOUT)))
        }

        /// # Safety
        ///
        /// The calling thread holds the lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unlock(lock: &$type) {
            // SAFETY: the caller's contract.
            unsafe { lock.$end() };
        }
    };
}

functions!(
    CMutex: sp_mutex_lock, sp_mutex_trylock, sp_mutex_timedlock, sp_mutex_unlock:
    lock, try_lock, try_lock_for, force_unlock
);
functions!(
    CRwLock: sp_rwlock_rdlock, sp_rwlock_tryrdlock, sp_rwlock_timedrdlock, sp_rwlock_rdunlock:
    read, try_read, try_read_for, force_unlock_read
);
functions!(
    CRwLock: sp_rwlock_wrlock, sp_rwlock_trywrlock, sp_rwlock_timedwrlock, sp_rwlock_wrunlock:
    write, try_write, try_write_for, force_unlock_write
);

/// Releases the lock, blocks until a notification, for at most `timeout`, and takes the lock again. If other threads
/// wait with another mutex, reports that and returns `-EINVAL` at once, and the lock stays held.
///
/// # Safety
///
/// The calling thread holds the lock.
unsafe fn wait(function: &str, condition: &Condvar, mutex: &CMutex, timeout: Option<Duration>) -> c_int {
    // SAFETY: the caller's contract. The guard is never dropped: the lock stays the caller's.
    let mut guard = ManuallyDrop::new(unsafe { mutex.make_guard_unchecked() });
    match condition.try_wait(&mut *guard, timeout) {
        Some(result) if result.timed_out() => -libc::ETIMEDOUT,
        Some(_) => 0,
        None => -misuse(function, "while a thread waits with another mutex", libc::EINVAL).0,
    }
}

/// Waits for a notification.
///
/// # Safety
///
/// The calling thread holds the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_cond_wait(condition: &Condvar, mutex: &CMutex) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait("sp_cond_wait", condition, mutex, None) }
}

/// Waits for a notification for at most `timeout` nanoseconds.
///
/// # Safety
///
/// The calling thread holds the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_cond_timedwait(condition: &Condvar, mutex: &CMutex, timeout: u64) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait("sp_cond_timedwait", condition, mutex, Some(Duration::from_nanos(timeout))) }
}

/// Wakes the thread that has waited longest.
#[unsafe(no_mangle)]
pub extern "C" fn sp_cond_signal(condition: &Condvar) {
    condition.notify_one();
}

/// Wakes all threads that wait.
#[unsafe(no_mangle)]
pub extern "C" fn sp_cond_broadcast(condition: &Condvar) {
    condition.notify_all();
}

/// Frees what a reader-writer lock has allocated: counters for each CPU, or nothing. The other locks never allocate.
///
/// # Safety
///
/// No thread holds the lock, and none uses it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_rwlock_destroy(lock: NonNull<CRwLock>) {
    // SAFETY: the caller's contract.
    unsafe { lock.drop_in_place() };
}
