//! `pthread_rwlock_t`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use libc::{
    CLOCK_REALTIME, EAGAIN, EBUSY, EDEADLK, EINVAL, ETIMEDOUT, clockid_t, pthread_rwlock_t, timespec,
};
use stillpoint::lock::pthread::{Shared, WordRwLock};

use crate::original::replaced;
use crate::time::{Until, reading_after};

/// The parts of the C library's object that are used here.
#[repr(C)]
struct RwLock {
    lock: WordRwLock,
    /// The thread that holds the lock for writing, or 0. Only this thread finds itself there.
    writer: AtomicU64,
    _current_writer: u32,
    is_shared: AtomicI32,
    _elision: [u64; 2],
    preference: AtomicI32,
}

const _: () = {
    assert!(size_of::<RwLock>() == size_of::<pthread_rwlock_t>());
    assert!(core::mem::offset_of!(RwLock, is_shared) == 28);
    assert!(core::mem::offset_of!(RwLock, preference) == 48);
};

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`. The C library treats the other two alike, as readers may have the
/// lock already.
const PREFER_WRITERS: i32 = 2;

/// Returns the lock if it is stillpoint's: processes do not share it.
///
/// # Safety
///
/// The lock is initialized.
#[inline(always)]
unsafe fn private<'a>(rwlock: *mut pthread_rwlock_t) -> Option<&'a RwLock> {
    // SAFETY: the caller's contract.
    let rwlock = unsafe { &*rwlock.cast::<RwLock>() };
    // Relaxed, here and below: whoever shares the lock has initialized it before.
    (rwlock.is_shared.load(Relaxed) == 0).then_some(rwlock)
}

/// Returns a number of the calling thread.
fn this_thread() -> u64 {
    // SAFETY: no arguments.
    unsafe { libc::pthread_self() }
}

impl RwLock {
    fn prefers_writers(&self) -> bool {
        self.preference.load(Relaxed) == PREFER_WRITERS
    }

    /// Returns `true` if the calling thread holds the lock for writing.
    fn is_own(&self) -> bool {
        // Relaxed: only what this thread has stored matters.
        self.writer.load(Relaxed) == this_thread()
    }

    fn try_read(&self) -> c_int {
        match self.lock.try_lock_shared(self.prefers_writers()) {
            Shared::Acquired => 0,
            Shared::TimedOut => EBUSY,
            Shared::TooMany => EAGAIN,
        }
    }

    fn try_write(&self) -> c_int {
        if !self.lock.try_lock_exclusive() {
            return EBUSY;
        }
        self.writer.store(this_thread(), Relaxed);
        0
    }

    /// Takes the lock for reading; blocks for `until` at most.
    #[cold]
    fn read_slow(&self, until: Option<Until>) -> c_int {
        if self.is_own() {
            return EDEADLK;
        }
        blocking(until, |until| match self.lock.lock_shared(self.prefers_writers(), until) {
            Shared::Acquired => Some(0),
            Shared::TimedOut => None,
            Shared::TooMany => Some(EAGAIN),
        })
    }

    /// Takes the lock for writing; blocks for `until` at most.
    #[cold]
    fn write_slow(&self, until: Option<Until>) -> c_int {
        if self.is_own() {
            return EDEADLK;
        }
        let error = blocking(until, |until| self.lock.lock_exclusive(until).then_some(0));
        if error == 0 {
            self.writer.store(this_thread(), Relaxed);
        }
        error
    }

    /// [`read_slow`](Self::read_slow) without a limit: its caller needs no room for one.
    #[cold]
    #[inline(never)]
    fn read_blocking(&self) -> c_int {
        self.read_slow(None)
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) -> c_int {
        if self.lock.is_held_exclusive() {
            self.writer.store(0, Relaxed);
            // SAFETY: readers do not hold the lock, so the caller, which unlocks it, holds it for writing.
            unsafe { self.lock.unlock_exclusive() };
        } else {
            self.lock.unlock_shared();
        }
        0
    }
}

/// Calls `wait` with the reading of the monotonic clock at which the time is over, until it returns a result.
fn blocking(until: Option<Until>, wait: impl Fn(Option<u64>) -> Option<c_int>) -> c_int {
    let Some(until) = until else { return wait(None).unwrap_or(ETIMEDOUT) };
    // Again, if the clock has been set back.
    while let Some(left) = until.left() {
        if let Some(result) = wait(Some(reading_after(left))) {
            return result;
        }
    }
    ETIMEDOUT
}

replaced! { private(*mut pthread_rwlock_t):
    fn pthread_rwlock_rdlock(private) = __pthread_rwlock_rdlock {
        if private.lock.try_lock_shared_once(private.prefers_writers()) { 0 } else { private.read_blocking() }
    }

    fn pthread_rwlock_wrlock(private) = __pthread_rwlock_wrlock {
        if private.try_write() == 0 { 0 } else { private.write_slow(None) }
    }

    fn pthread_rwlock_tryrdlock(private) = __pthread_rwlock_tryrdlock {
        private.try_read()
    }

    fn pthread_rwlock_trywrlock(private) = __pthread_rwlock_trywrlock {
        private.try_write()
    }

    fn pthread_rwlock_timedrdlock(private, until: *const timespec) {
        // SAFETY: the caller's contract.
        unsafe { read_until(private, CLOCK_REALTIME, until) }
    }

    fn pthread_rwlock_clockrdlock(private, clock: clockid_t, until: *const timespec) {
        // SAFETY: the caller's contract.
        unsafe { read_until(private, clock, until) }
    }

    fn pthread_rwlock_timedwrlock(private, until: *const timespec) {
        // SAFETY: the caller's contract.
        unsafe { write_until(private, CLOCK_REALTIME, until) }
    }

    fn pthread_rwlock_clockwrlock(private, clock: clockid_t, until: *const timespec) {
        // SAFETY: the caller's contract.
        unsafe { write_until(private, clock, until) }
    }

    fn pthread_rwlock_unlock(private) = __pthread_rwlock_unlock {
        if private.lock.try_unlock_once(|| private.writer.store(0, Relaxed)) { 0 } else { private.unlock_slow() }
    }

    fn pthread_rwlock_destroy(_private) = __pthread_rwlock_destroy {
        0
    }
}

/// # Safety
///
/// `until` is a time, here and below.
unsafe fn read_until(rwlock: &RwLock, clock: clockid_t, until: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    match Until::new(clock, unsafe { &*until }) {
        None => EINVAL,
        Some(_) if rwlock.try_read() == 0 => 0,
        until => rwlock.read_slow(until),
    }
}

unsafe fn write_until(rwlock: &RwLock, clock: clockid_t, until: *const timespec) -> c_int {
    // SAFETY: the caller's contract.
    match Until::new(clock, unsafe { &*until }) {
        None => EINVAL,
        Some(_) if rwlock.try_write() == 0 => 0,
        until => rwlock.write_slow(until),
    }
}
