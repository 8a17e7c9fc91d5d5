//! `pthread_spinlock_t`. There is no initializer: `pthread_spin_init` stores what kind it is.
//!
//! A private one is a queued lock, whose waiters sleep after they have spun. One that processes share spins, and has
//! [`SHARED`] set: all processes that use it have this library.

use core::ffi::c_int;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{EBUSY, pthread_spinlock_t};
use lock_api::RawMutex as _;
use stillpoint::lock::RawMutex;

/// The bit that the word of a queued lock never has.
const SHARED: u32 = 1 << 31;
const HELD: u32 = 1;

/// A spin lock, of either kind.
enum Spin<'a> {
    Private(&'a RawMutex),
    Shared(&'a AtomicU32),
}

/// # Safety
///
/// The lock is initialized.
#[inline(always)]
unsafe fn kind<'a>(lock: *mut pthread_spinlock_t) -> Spin<'a> {
    // SAFETY: the caller's contract; the types have the size and alignment of a C `int`.
    let (word, mutex) = unsafe { (&*lock.cast::<AtomicU32>(), &*lock.cast::<RawMutex>()) };
    // Relaxed: whoever shares the lock has initialized it before.
    if word.load(Relaxed) & SHARED == 0 { Spin::Private(mutex) } else { Spin::Shared(word) }
}

fn try_shared(word: &AtomicU32) -> bool {
    // Acquire: the last section; pairs with the Release in `pthread_spin_unlock`.
    word.compare_exchange(SHARED, SHARED | HELD, Acquire, Relaxed).is_ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: *mut pthread_spinlock_t, shared: c_int) -> c_int {
    let word = if shared == libc::PTHREAD_PROCESS_SHARED { SHARED } else { 0 };
    // Relaxed: no other thread uses it yet. SAFETY: the C library's contract, here and below.
    unsafe { &*lock.cast::<AtomicU32>() }.store(word, Relaxed);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: as above.
    match unsafe { kind(lock) } {
        Spin::Private(mutex) => {
            mutex.lock();
        }
        Spin::Shared(word) => {
            while !try_shared(word) {
                while word.load(Relaxed) & HELD != 0 {
                    spin_loop();
                }
            }
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: as above.
    let taken = match unsafe { kind(lock) } {
        Spin::Private(mutex) => mutex.try_lock(),
        Spin::Shared(word) => try_shared(word),
    };
    if taken { 0 } else { EBUSY }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: as above.
    match unsafe { kind(lock) } {
        // SAFETY: a program that unlocks it holds it. The guard stands for that.
        Spin::Private(mutex) if mutex.is_locked() => unsafe { mutex.unlock() },
        Spin::Private(_) => {}
        // Release: publishes the section; pairs with the Acquire in `try_shared`.
        Spin::Shared(word) => word.store(SHARED, Release),
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_spin_destroy(_: *mut pthread_spinlock_t) -> c_int {
    0
}
