//! A reader-writer lock of one word, for `pthread_rwlock_t`: the readers' counters of
//! [`RwLock`](super::super::RwLock) do not fit there, and allocate.
//!
//! Readers count themselves in the word. A writer takes the lock when it is free, past other writers. One that has to
//! wait for longer becomes the *front writer*, by a [queued lock](crate::lock::mutex::raw) that the others wait for.
//! The front writer reserves the lock when it has waited for a quantum.
//!
//! # The word
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 32.. | readers | readers that hold the lock; while it is [`HELD`], readers that wait |
//! | 5..32 | phase | changes when waiting readers are admitted |
//! | 4 | [`WRITER_SLEEPS`] | the front writer may sleep |
//! | 3 | [`READERS_SLEEP`] | a reader may sleep |
//! | 2 | [`RESERVED`] | no writer but the front one may take the lock |
//! | 1 | [`WAITING`] | there is a front writer |
//! | 0 | [`HELD`] | a writer holds the lock |
//!
//! # Invariants
//!
//! 1. The word changes by read-modify-writes only, so every release sequence on it continues for ever.
//! 2. *A waiting reader is admitted once, or withdraws.* It counts itself while the lock is `HELD`. The release that
//!    clears `HELD` changes the phase if readers are counted, and they hold the lock from then on. The phase does not
//!    change again before they have left: no writer can take the lock.
//! 3. *The front writer does not sleep too long.* It sets `WRITER_SLEEPS` in a word in which it cannot take the lock,
//!    and sleeps while the lower half is unchanged. The change after which it can, which leaves neither `HELD` nor
//!    readers, clears the flag and wakes it.
//! 4. *No reader sleeps too long.* It sleeps with `READERS_SLEEP`. A counted one sleeps while the phase is unchanged;
//!    the release that changes it finds the flag. One that lets a front writer pass sleeps while there is one; a
//!    front writer that gives up, and the release of one that has taken the lock, find the flag.
//! 5. After the change of the word that releases the lock, its memory is not accessed: it may have been freed. The
//!    kernel wakes by the address.

use core::num::NonZeroU32;
use core::time::Duration;

use crate::lock::events::{self, Wait};
use crate::lock::mutex::raw::Raw;
use crate::lock::policy::Policy;
use crate::lock::spin::Spin;
use crate::sync::{Futex, Ordering::*, const_unless_loom, now, step};

const HELD: u64 = 1;
const WAITING: u64 = 2;
const RESERVED: u64 = 4;
const READERS_SLEEP: u64 = 8;
const WRITER_SLEEPS: u64 = 16;
const ONE_PHASE: u64 = 32;
const PHASE: u64 = ONE_READER - ONE_PHASE;
const ONE_READER: u64 = 1 << 32;
const MOST_READERS: u64 = u32::MAX as u64 >> 1;

/// The masks of the sleepers.
const READERS: NonZeroU32 = NonZeroU32::MIN;
const WRITER: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// What an attempt to take the lock for reading has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// The caller holds the lock.
    Acquired,
    /// The time is over.
    TimedOut,
    /// There are too many readers.
    TooMany,
}

/// See the [module](self).
#[derive(Debug)]
pub struct WordRwLock<P> {
    state: Futex,
    front: Raw<P>,
}

impl<P: Policy> Default for WordRwLock<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> WordRwLock<P> {
    const_unless_loom! {
        /// Creates a free lock. All its bytes are zero.
        pub fn new() -> Self {
            Self { state: Futex::new(0), front: Raw::new() }
        }
    }

    /// Returns `true` if a writer holds the lock.
    pub fn is_held_exclusive(&self) -> bool {
        self.state.load(Relaxed) & HELD != 0
    }

    /// Makes one attempt to take the lock for reading, as [`try_lock_shared`](Self::try_lock_shared). Returns `true`
    /// if the caller holds it.
    #[inline(always)]
    pub fn try_lock_shared_once(&self, yields: bool) -> bool {
        let word = self.state.load(Relaxed);
        // Acquire: as in `try_lock_shared`.
        Self::admits(word, yields)
            && word / ONE_READER < MOST_READERS
            && self.state.compare_exchange(word, word + ONE_READER, Acquire, Relaxed).is_ok()
    }

    /// Takes the lock for reading if no writer holds it, nor waits for it if the reader `yields` to writers.
    #[inline]
    pub fn try_lock_shared(&self, yields: bool) -> Shared {
        let mut word = self.state.load(Relaxed);
        while Self::admits(word, yields) {
            if word / ONE_READER >= MOST_READERS {
                return Shared::TooMany;
            }
            // Acquire: the last writer's section; pairs with the Release in `unlock_exclusive`.
            match self.state.compare_exchange(word, word + ONE_READER, Acquire, Relaxed) {
                Ok(_) => return Shared::Acquired,
                Err(now) => word = now,
            }
        }
        Shared::TimedOut
    }

    #[inline(always)]
    fn admits(word: u64, yields: bool) -> bool {
        word & (HELD | if yields { WAITING } else { 0 }) == 0
    }

    /// Takes the lock for reading; blocks until the clock shows `until` at most.
    #[cold]
    pub fn lock_shared(&self, yields: bool, until: Option<u64>) -> Shared {
        events::contended(self.address(), Wait::Writer);
        let mut spin = Spin::new();
        let result = loop {
            match self.try_lock_shared(yields) {
                Shared::TimedOut => {}
                result => break result,
            }
            let word = self.state.load(Relaxed);
            if Self::admits(word, yields) {
                continue;
            }
            if !(yields && word & WAITING != 0) {
                if word / ONE_READER >= MOST_READERS {
                    break Shared::TooMany;
                }
                // Relaxed, both: the reader is admitted later.
                if self.state.compare_exchange(word, word + ONE_READER, Relaxed, Relaxed).is_ok() {
                    break self.wait_for_admission(word & PHASE, until);
                }
            } else if !spin.pause() && self.sleep(word, READERS_SLEEP, READERS, until) {
                break Shared::TimedOut;
            }
        };
        let acquired = result == Shared::Acquired;
        events::wait_ends(self.address(), Wait::Writer, acquired, || self.front.has_queue());
        result
    }

    /// Returns the address of the lock, in probes: that of the lock that writers wait for.
    #[inline(always)]
    fn address(&self) -> usize {
        self.front.address()
    }

    /// Blocks until the phase ends, for a reader that is counted.
    fn wait_for_admission(&self, phase: u64, until: Option<u64>) -> Shared {
        let mut spin = Spin::new();
        loop {
            // Acquire: as in `try_lock_shared`.
            let word = self.state.load(Acquire);
            if word & PHASE != phase {
                return Shared::Acquired;
            }
            if !spin.pause() && self.sleep(word, READERS_SLEEP, READERS, until) && self.withdraw(phase) {
                return Shared::TimedOut;
            }
        }
    }

    /// Withdraws a waiting reader. Returns `false` if it has been admitted.
    fn withdraw(&self, phase: u64) -> bool {
        let mut word = self.state.load(Relaxed);
        while word & PHASE == phase {
            // Relaxed, both: the reader has not held the lock.
            match self.state.compare_exchange(word, word - ONE_READER, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Sleeps with `flag` until the lower half of `word` changes. Returns `true` if the time is over.
    fn sleep(&self, word: u64, flag: u64, mask: NonZeroU32, until: Option<u64>) -> bool {
        let asleep = word | flag;
        // Relaxed, both: carries nothing.
        if word != asleep && self.state.compare_exchange(word, asleep, Relaxed, Relaxed).is_err() {
            return false;
        }
        let Some(until) = until else {
            self.state.wait(asleep, mask);
            return false;
        };
        let left = until.saturating_sub(now());
        if left != 0 {
            self.state.wait_timeout(asleep, mask, Duration::from_nanos(left));
        }
        now() >= until
    }

    /// Makes one attempt to release the lock, in whatever way the caller holds it, if no thread is to be woken or
    /// admitted. Calls `before_exclusive` first if it holds the lock for writing. Returns `true` if that is done.
    #[inline(always)]
    pub fn try_unlock_once(&self, before_exclusive: impl FnOnce()) -> bool {
        let word = self.state.load(Relaxed);
        let next = if word & (HELD | WRITER_SLEEPS) == 0 {
            word - ONE_READER
        } else if word & !PHASE == HELD {
            before_exclusive();
            word - HELD
        } else {
            return false;
        };
        // Release: as in `unlock_shared` and `unlock_exclusive`.
        self.state.compare_exchange(word, next, Release, Relaxed).is_ok()
    }

    /// Releases the lock, which the caller holds for reading.
    pub fn unlock_shared(&self) {
        let mut word = self.state.load(Relaxed);
        loop {
            let next = word - ONE_READER;
            let wakes = next < ONE_READER && word & WRITER_SLEEPS != 0;
            let next = if wakes { next & !WRITER_SLEEPS } else { next };
            // Release: the section precedes that of the next writer; pairs with the Acquire in `try_take`.
            match self.state.compare_exchange(word, next, Release, Relaxed) {
                Ok(_) if wakes => {
                    events::handover(self.address());
                    return step!("front-writer-not-woken", self.state.wake(1, WRITER));
                }
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the lock for writing if it is free, and not reserved. Returns `true` if the caller holds it.
    #[inline]
    pub fn try_lock_exclusive(&self) -> bool {
        self.try_take(RESERVED, 0)
    }

    /// Takes the lock for writing if none of the flags `unless` is set, and clears the flags `clear`.
    #[inline]
    fn try_take(&self, unless: u64, clear: u64) -> bool {
        let mut word = self.state.load(Relaxed);
        while word < ONE_READER && word & (HELD | unless) == 0 {
            // Acquire: all sections before; pairs with the Release in `unlock_shared` and `unlock_exclusive`.
            match self.state.compare_exchange(word, word & !clear | HELD, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the lock for writing; blocks until the clock shows `until` at most. Returns `true` if the caller holds
    /// it.
    #[cold]
    pub fn lock_exclusive(&self, until: Option<u64>) -> bool {
        let mut spin = Spin::with_backoff(P::BACKOFF_NS);
        loop {
            if self.try_lock_exclusive() {
                return true;
            }
            if !spin.pause() {
                break;
            }
        }
        match until {
            Some(until) if !self.front.lock_until(until) => return false,
            Some(_) => {}
            None => self.front.lock(),
        }
        events::contended(self.address(), Wait::Readers);
        let acquired = self.wait_at_front(until);
        events::wait_ends(self.address(), Wait::Readers, acquired, || self.front.has_queue());
        // SAFETY: taken above. The lock is held, or the caller has yet to return from waiting for it, so it exists.
        unsafe { self.front.unlock() };
        acquired
    }

    /// Waits for the lock as the front writer. Returns `true` if the caller holds it, `false` if the time is over.
    fn wait_at_front(&self, until: Option<u64>) -> bool {
        // Relaxed: carries nothing.
        self.state.fetch_or(WAITING, Relaxed);
        let (since, mut spin) = (now(), Spin::with_backoff(P::BACKOFF_NS));
        loop {
            if self.try_take(0, WAITING | RESERVED | WRITER_SLEEPS) {
                return true;
            }
            let word = self.state.load(Relaxed);
            if spin.pause() || word < ONE_READER && word & HELD == 0 {
                continue;
            }
            let reserved = if now().saturating_sub(since) >= P::QUANTUM_NS { RESERVED } else { 0 };
            if self.sleep(word, WRITER_SLEEPS | reserved, WRITER, until) {
                self.leave_front();
                return false;
            }
            spin = Spin::with_backoff(P::BACKOFF_NS);
        }
    }

    /// The front writer gives up.
    fn leave_front(&self) {
        let cleared = WAITING | RESERVED | WRITER_SLEEPS | READERS_SLEEP;
        // Relaxed: carries nothing.
        let word = self.state.fetch_and(!cleared, Relaxed);
        if word & READERS_SLEEP != 0 {
            step!("readers-not-woken-by-timeout", self.state.wake(u32::MAX, READERS));
        }
    }

    /// Releases the lock, and admits the readers that wait.
    ///
    /// # Safety
    ///
    /// The caller holds it for writing.
    #[inline]
    pub unsafe fn unlock_exclusive(&self) {
        let mut word = self.state.load(Relaxed);
        loop {
            let (mut next, has_readers) = (word & !(HELD | READERS_SLEEP), word >= ONE_READER);
            if has_readers {
                next = next & !PHASE | word.wrapping_add(ONE_PHASE) & PHASE;
            } else {
                next &= !WRITER_SLEEPS;
            }
            // Release: the section precedes those of the next holders; pairs with the Acquire in `try_take`,
            // `try_lock_shared` and `wait_for_admission`.
            match self.state.compare_exchange(word, next, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & (READERS_SLEEP | WRITER_SLEEPS) != 0 {
            events::handover(self.address());
        }
        if word & READERS_SLEEP != 0 {
            step!("readers-not-woken", self.state.wake(u32::MAX, READERS));
        }
        if word & WRITER_SLEEPS != 0 && word < ONE_READER {
            step!("front-writer-not-woken-by-writer", self.state.wake(1, WRITER));
        }
    }
}
