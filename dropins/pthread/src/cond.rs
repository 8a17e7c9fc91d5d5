//! `pthread_cond_t`. The waits are in `cond_wait.c`, and call the functions here.
//!
//! # Whose it is
//!
//! The first wait decides, and stores it: it is stillpoint's if the mutex is, and the C library's otherwise, and if
//! processes share it. The threads that wait at a time hold the same mutex, so one of them decides.
//!
//! | word [`Cond::waiters`] | [`Cond::sequence`] | whose |
//! |---|---|---|
//! | [`OURS`], the number of waiters, and its generation | (stillpoint's list) | stillpoint's |
//! | not `OURS` | 0 | undecided, and there are no waiters; a shared one is the C library's |
//! | not `OURS`, and the C library's number of waiters | more | the C library's |
//!
//! A wait with the other kind of mutex is possible too. Stillpoint's variable can be used with any mutex. With the C
//! library's and a mutex of stillpoint, a thread sleeps for a millisecond at a time, as if woken spuriously.
//!
//! A notification without waiters does nothing. So it cannot find an undecided variable, and treat it as the one or
//! the other, while a first wait decides.
//!
//! # Destruction
//!
//! A program may destroy a variable once it has notified all waiters. A waiter whose time is over at that moment may
//! be about to use the list. So waiters are counted until they no longer access the object, and
//! `pthread_cond_destroy` waits for them. The flag with which it does so, and the shift of the count, are those of
//! the C library. The count belongs to a generation of processes: in the child of a fork, threads of the parent do
//! not count.

use core::ffi::c_int;
use core::mem;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use libc::{pthread_cond_t, pthread_mutex_t};
use stillpoint::lock::Condvar;
use stillpoint::lock::pthread::{NOT_NOTIFIED, futex_wait, futex_wake, generation};

use crate::mutex;
use crate::original;

/// The parts of the C library's object that are used here.
#[repr(C)]
struct Cond {
    list: Condvar,
    _groups: [u32; 5],
    waiters: AtomicU32,
    _signals: [u32; 2],
}

const _: () = {
    assert!(size_of::<Cond>() == size_of::<pthread_cond_t>());
    assert!(size_of::<Condvar>() == 16 && mem::offset_of!(Cond, waiters) == 36);
};

/// Processes share it.
const SHARED: u32 = 1;
/// A thread waits in `pthread_cond_destroy`.
const DESTROYING: u32 = 4;
const ONE_WAITER: u32 = 8;
/// The generation of the count: that of the process, modulo 64. Linux has fewer threads than the bits below can
/// count.
const GENERATION: u32 = 63 << 25;
/// It is stillpoint's.
const OURS: u32 = 1 << 31;

/// The functions that a wait uses.
#[repr(C)]
pub enum Route {
    /// [`stillpoint_cond_begin`] and the others.
    Ours = 0,
    /// The C library's.
    Original = 1,
    /// The C library's, with another mutex, for a moment.
    Polled = 2,
}

impl Cond {
    /// The C library's count of waits, twice; 0 if there was none.
    fn sequence(&self) -> &AtomicU64 {
        // SAFETY: the first eight bytes, which are aligned.
        unsafe { &*(&raw const self.list).cast::<AtomicU64>() }
    }

    /// The number of waiters if it is not ours.
    fn count(word: u32) -> u32 {
        word / ONE_WAITER
    }

    /// Returns a word of ours, of an earlier generation perhaps, as one of the generation of this process.
    fn current(word: u32) -> u32 {
        let generation = (generation() as u32) << GENERATION.trailing_zeros() & GENERATION;
        if word & GENERATION == generation { word } else { word & (OURS | (ONE_WAITER - 1)) | generation }
    }

    fn count_of_ours(word: u32) -> u32 {
        (Self::current(word) & !(OURS | GENERATION)) / ONE_WAITER
    }

    /// The calling thread is about to access the list.
    fn enter(&self) {
        // Relaxed, both: the mutex orders it.
        let _ = self.waiters.fetch_update(Relaxed, Relaxed, |word| Some(Self::current(word) + ONE_WAITER));
    }

    fn route(&self, is_plain: bool) -> Route {
        // Relaxed, all: the mutex of the waiters orders them.
        let word = self.waiters.load(Relaxed);
        if word & OURS != 0 {
            return Route::Ours;
        }
        if !is_plain {
            return Route::Original;
        }
        let is_undecided = word & SHARED == 0 && Self::count(word) == 0 && self.sequence().load(Relaxed) == 0;
        if is_undecided && self.waiters.compare_exchange(word, word | OURS, Relaxed, Relaxed).is_ok() {
            return Route::Ours;
        }
        Route::Polled
    }

    /// The calling thread no longer accesses the object.
    fn leave(&self) {
        let address = &raw const self.waiters;
        // Release: what this thread did with the object; pairs with the Acquire in `pthread_cond_destroy`.
        let word = self.waiters.fetch_sub(ONE_WAITER, Release);
        if word & DESTROYING != 0 && Self::count_of_ours(word) == 1 {
            // SAFETY: the kernel wakes by the address, and does not access it.
            futex_wake(unsafe { &*address }, u32::MAX, NonZeroU32::MAX);
        }
    }
}

/// # Safety
///
/// The variable is initialized, here and below.
unsafe fn cond<'a>(cond: *mut pthread_cond_t) -> &'a Cond {
    // SAFETY: the caller's contract.
    unsafe { &*cond.cast::<Cond>() }
}

/// Decides which functions a wait uses.
///
/// # Safety
///
/// The variable and the mutex are initialized, and the caller holds the mutex.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillpoint_cond_route(
    variable: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> Route {
    // SAFETY: the caller's contract, here and below.
    unsafe { cond(variable).route(mutex::is_plain(mutex)) }
}

/// Appends the caller to the waiters, and unlocks the mutex. Stores the number of its node and its word: the wait
/// ends when that is not [`NOT_NOTIFIED`]. Stores 0 if it has no node, and for how many nanoseconds it is to pause.
/// Returns an error, without an effect, if the mutex cannot be unlocked.
///
/// # Safety
///
/// As above, and the wait is [ours](Route::Ours). The caller ends it.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillpoint_cond_begin(
    variable: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    node: &mut u32,
    word: &mut *const AtomicU32,
    pause: &mut u64,
) -> c_int {
    // SAFETY: as above.
    let this = unsafe { cond(variable) };
    this.enter();
    // SAFETY: the caller ends the wait.
    (*node, *pause) = unsafe { this.list.begin_wait() };
    // SAFETY: as above.
    let error = unsafe { mutex::unlock_to_wait(mutex) };
    if error == 0 {
        *word = Condvar::wait_word(*node);
    } else {
        // A notification since then was for a thread that waits. SAFETY: begun above.
        unsafe { stillpoint_cond_end(variable, *node, true) };
    }
    error
}

/// Ends a wait. Returns `true` if the caller has been notified. If it `passes` on a notification, another waiter gets
/// it.
///
/// # Safety
///
/// The calling thread has begun the wait.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillpoint_cond_end(variable: *mut pthread_cond_t, node: u32, passes: bool) -> bool {
    // SAFETY: the caller's contract: the object exists until `leave`.
    let this = unsafe { cond(variable) };
    // SAFETY: as above.
    let notified = unsafe { this.list.end_wait(node) };
    if notified && passes {
        this.list.notify_one();
    }
    this.leave();
    notified
}

/// Returns the value of a waiter's word until it is notified.
#[unsafe(no_mangle)]
extern "C" fn stillpoint_cond_not_notified() -> u32 {
    NOT_NOTIFIED
}

/// Unlocks the mutex for a wait at the C library's variable.
///
/// # Safety
///
/// The mutex is initialized, here and below.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillpoint_unlock_to_wait(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { mutex::unlock_to_wait(mutex) }
}

/// Locks the mutex after a wait.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillpoint_lock_after_wait(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: as above.
    unsafe { mutex::lock_after_wait(mutex) }
}

/// Notifies waiters by `ours` or by `original`.
///
/// # Safety
///
/// The variable is initialized.
#[inline(always)]
unsafe fn notify(
    variable: *mut pthread_cond_t,
    ours: impl FnOnce(&Condvar),
    original: unsafe fn(*mut pthread_cond_t) -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let this = unsafe { cond(variable) };
    // Relaxed: the mutex orders it after the waits that it must notify.
    let word = this.waiters.load(Relaxed);
    if word & OURS != 0 {
        ours(&this.list);
        0
    } else if Cond::count(word) == 0 {
        0
    } else {
        // SAFETY: as above.
        unsafe { original(variable) }
    }
}

/// # Safety
///
/// As the C library's function, here and below.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_signal(variable: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's contract, here and below.
    unsafe { notify(variable, |list| _ = list.notify_one(), original::pthread_cond_signal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_broadcast(variable: *mut pthread_cond_t) -> c_int {
    // SAFETY: as above.
    unsafe { notify(variable, |list| _ = list.notify_all(), original::pthread_cond_broadcast) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_destroy(variable: *mut pthread_cond_t) -> c_int {
    // SAFETY: as above.
    let this = unsafe { cond(variable) };
    if this.waiters.load(Relaxed) & OURS == 0 {
        // SAFETY: as above.
        return unsafe { original::pthread_cond_destroy(variable) };
    }
    // Acquire, both: the waiters are done with the object; pairs with the Release in `leave`.
    let mut word = this.waiters.fetch_or(DESTROYING, Acquire);
    while Cond::count_of_ours(word) != 0 {
        futex_wait(&this.waiters, word | DESTROYING, NonZeroU32::MAX, None);
        word = this.waiters.load(Acquire);
    }
    0
}
