//! The writers of the [reader-writer lock](super::gate), and upgradable readers.

use core::mem;
use core::num::NonZeroU32;

use crate::fence;
use crate::sync::{Ordering::*, budget, now, one_in, spin_loop, step};

use super::gate::{
    DRAINING, ENTERED, FREE, HELD, LOCKS, ONE_PHASE, ONE_READER, ONE_WAITER, PHASE, READERS, RawRw, SHUT,
    SLEEPERS, SOLO, Timeout, WAITERS, WORD,
};
use super::opening::{fence_took, gate_was_shut};
use crate::lock::events::{self, Wait};
use crate::lock::policy::{GATE_YIELDS, Policy};
use crate::lock::spin::{Spin, Yields};
use crate::lock::waiter;

/// How often a writer sums the counters before it sleeps.
const SUMS: u32 = 100;

impl<P: Policy> RawRw<P> {
    /// Opens the gate or leaves it shut (`shut` is [`SHUT`] or 0), and admits the waiting readers. The caller has
    /// `writers`, or is a solo writer: word mode ends. Returns `true` if the caller has `writers`.
    #[cold]
    fn admit_readers(&self, shut: u64) -> bool {
        // Relaxed: published by the Release below (9).
        step!("word-mode-ends-unseen", self.is_word.store(0, Relaxed));
        let (mut word, mut counted) = (self.gate.load(Relaxed), 0);
        loop {
            let waiters = (word & WAITERS) / ONE_WAITER;
            if waiters != counted {
                // Before another writer may sum (2).
                let more = waiters.wrapping_sub(counted);
                step!("admitted-not-counted", self.readers.add_without_allocating(LOCKS, more));
                counted = waiters;
            }
            let phase = if waiters == 0 { word } else { word.wrapping_add(ONE_PHASE) };
            // Release: publishes the writer's section and the counts; pairs with the Acquire in `lock_shared`,
            // `lock_shared_slow`, `wait_for_admission` and `leave_word`. That a solo writer finds here that it has
            // `writers` is ordered by that lock: it was taken before, and is released later.
            match self.gate.compare_exchange(word, phase & PHASE | shut | word & READERS, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        self.reads.store(0, Relaxed);
        if counted != 0 {
            events::handover(self.address());
            if word & SLEEPERS != 0 {
                step!("sleeping-readers-not-woken", self.gate.wake(u32::MAX, NonZeroU32::MAX));
            }
        }
        word & WORD == 0
    }

    /// Begins word mode for the writer that holds the lock and `writers`, if few read it, and makes it a solo writer.
    fn return_to_word(&self) {
        let word = self.gate.load(Relaxed);
        let is_quiet =
            word & WAITERS == 0 && !self.writers.has_queue() && self.reads.load(Relaxed) < P::SAMPLE;
        if !is_quiet || !one_in(P::RETURNS.into()) {
            return;
        }
        // Those that enabled it did so in sections, which have ended: it stays disabled in word mode (9).
        step!("fast-path-in-word-mode", self.readers.disable_fast());
        // In the word there are no readers that have left by the counters.
        self.readers.add_without_allocating(LOCKS, word / ONE_READER);
        // Relaxed, all: published when the lock is released. If it fails, a reader has begun to wait.
        if self.gate.compare_exchange(word, SOLO, Relaxed, Relaxed).is_ok() {
            // Before `writers` is released: threads that end word mode have it, or the lock after this writer.
            self.is_word.store(1, Relaxed);
            // SAFETY: the caller holds it.
            unsafe { self.unlock_upgradable() };
        } else {
            self.readers.add_without_allocating(LOCKS, (word / ONE_READER).wrapping_neg());
        }
    }

    /// Takes the lock for writing in word mode, if it is free. Returns `true` if the caller holds it.
    #[inline(always)]
    fn try_solo(&self) -> bool {
        // Relaxed: a hint. Acquire: all sections before; pairs with the Release in `unlock_shared_slow`,
        // `unlock_exclusive_by` and `return_to_word`.
        let held = self.is_word.load(Relaxed) != 0
            && self.gate.compare_exchange(FREE, SOLO, Acquire, Relaxed).is_ok();
        if held {
            self.reads.store(0, Relaxed);
        }
        held
    }

    /// Takes the lock for an upgradable read: excludes writers and other upgradable readers. Returns `true` if the
    /// caller holds it. Ends word mode.
    pub fn lock_upgradable(&self, timeout: Timeout) -> bool {
        loop {
            let taken = match timeout {
                Timeout::Immediate => self.writers.try_lock(),
                Timeout::At(end) => self.writers.lock_until(end),
                Timeout::Never => {
                    self.writers.lock();
                    true
                }
            };
            if !taken || self.leave_word() {
                return taken;
            }
        }
    }

    /// Releases an upgradable read.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for an upgradable read.
    #[inline]
    pub unsafe fn unlock_upgradable(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.writers.unlock() };
    }

    /// As [`unlock_upgradable`](Self::unlock_upgradable), but to the thread that has waited longest.
    ///
    /// # Safety
    ///
    /// As there.
    pub unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.writers.unlock_fair() };
    }

    /// Takes the lock for writing. Returns `true` if the caller holds it.
    #[inline]
    pub fn lock_exclusive(&self, timeout: Timeout) -> bool {
        self.try_solo() || self.lock_exclusive_slow(timeout)
    }

    #[cold]
    fn lock_exclusive_slow(&self, timeout: Timeout) -> bool {
        let mut spin = None;
        while self.gate.load(Relaxed) & WORD != 0 {
            if self.try_solo() {
                return true;
            }
            if timeout == Timeout::Immediate {
                return false;
            }
            if !spin.get_or_insert_with(|| Spin::with_backoff(P::BACKOFF_NS)).pause() {
                break;
            }
        }
        if !self.lock_upgradable(timeout) {
            return false;
        }
        // SAFETY: the caller holds it for an upgradable read.
        let held = unsafe { self.upgrade_or_unlock(timeout) };
        if held {
            self.return_to_word();
        } else {
            // SAFETY: as above.
            unsafe { self.unlock_upgradable() };
        }
        held
    }

    /// [`upgrade`](Self::upgrade), but releases the upgradable read if it panics.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for an upgradable read.
    pub unsafe fn upgrade_or_unlock(&self, timeout: Timeout) -> bool {
        let unlock = Unlock(self);
        // SAFETY: the caller's contract.
        let held = unsafe { self.upgrade(timeout) };
        mem::forget(unlock);
        held
    }

    /// Makes an upgradable read a write. Returns `true` if the caller holds the lock for writing; otherwise, and if
    /// it panics, the caller still holds it for an upgradable read.
    ///
    /// # Panics
    ///
    /// As [`fence::heavy`].
    ///
    /// # Safety
    ///
    /// The caller holds the lock for an upgradable read.
    pub unsafe fn upgrade(&self, timeout: Timeout) -> bool {
        // Neither the fence nor the readers need to be disturbed if it is likely to fail.
        if timeout == Timeout::Immediate && self.sections(self.gate.load(Relaxed)) != 0 {
            return false;
        }
        // Relaxed: the fences order it.
        let was = self.gate.fetch_or(SHUT | DRAINING, Relaxed);
        let was_open = was & SHUT == 0;
        let mut shutting = Shutting { lock: self, needs_fence: was_open };
        if was_open {
            // A reader that has entered is in the sums; one that arrives later finds the gate shut (3).
            step!("shut-without-fence", shutting.fence());
        } else {
            gate_was_shut(self.reads.load(Relaxed));
            // A reader that has entered is in the sums; one that arrives later finds the gate draining (3). No loom
            // model refutes that there is none, as its fence is an operation of the gate, which `try_hold` acquires.
            // The litmus test `rwlock-shut` does.
            self.load_after_fence(true);
        }
        // Readers that see it are not counted needlessly.
        self.readers.disable_fast();
        for _ in 0..budget(SUMS) {
            if self.try_hold() == 0 {
                return shutting.succeeds();
            }
            spin_loop();
        }
        if timeout == Timeout::Immediate {
            return false;
        }
        events::contended(self.address(), Wait::Readers);
        let held = 'wait: {
            // A reader may need this CPU.
            let mut yields = Yields::new(GATE_YIELDS, timeout.end());
            while waiter::with(|waiter| yields.next(waiter)) {
                if self.try_hold() == 0 {
                    break 'wait true;
                }
            }
            if !was_open {
                // A reader that leaves is in the sums, or counts down (5).
                step!("asleep-without-fence", shutting.fence());
            }
            self.sleep(timeout)
        };
        events::wait_ends(self.address(), Wait::Readers, held, || self.writers.has_queue());
        held && shutting.succeeds()
    }

    /// Sleeps until the caller holds the lock. Returns `false` if the time is over.
    fn sleep(&self, timeout: Timeout) -> bool {
        loop {
            // Acquire: the sum contains the unlocks whose countdown is dropped here; pairs with the Release in
            // `count_down`.
            self.awaited.swap(0, Acquire);
            let active = self.try_hold();
            if active == 0 {
                return true;
            }
            // If there are more, the writer wakes early.
            let active = active.min(i32::MAX as u64) as u32;
            let mut awaited = self.awaited.fetch_add(active, Relaxed).wrapping_add(active);
            while awaited as i32 > 0 {
                if self.awaited.wait(awaited, timeout.end()) {
                    return false;
                }
                // Relaxed: the swap acquires.
                awaited = self.awaited.load(Relaxed);
            }
        }
    }

    /// Makes the draining gate held, if there are no sections. Returns an estimate of their number otherwise.
    fn try_hold(&self) -> u64 {
        loop {
            // Acquire: sections that have ended in the word; pairs with the Release in `unlock_shared_slow`.
            let mut word = self.gate.load(Acquire);
            if word & ENTERED != 0 {
                // Acquire: the counts of recursive readers; pairs with the fence in `load_after_fence`.
                word = self.gate.fetch_and(!ENTERED, Acquire) & !ENTERED;
            }
            let active = self.sections(word);
            step!(
                "readers-ignored",
                if active != 0 {
                    return active;
                }
            );
            while word & ENTERED == 0 {
                // Relaxed, both: readers that find `HELD` wait, or ask the fences.
                match self.gate.compare_exchange(word, word | HELD, Relaxed, Relaxed) {
                    Ok(_) => return 0,
                    Err(now) => word = now,
                }
            }
        }
    }

    /// Releases a write, and keeps an upgradable read.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for writing.
    pub unsafe fn downgrade_to_upgradable(&self) {
        // A solo writer takes `writers`, unless another thread gives it (10).
        loop {
            // Relaxed: as in `admit_readers`.
            let word = self.gate.load(Relaxed);
            if word & WORD == 0 || self.writers.try_lock() {
                break;
            }
            // The other thread has yet to give it, or to release it.
            self.gate.wait_until(word, Some(now() + P::QUANTUM_NS));
        }
        self.admit_readers(SHUT);
    }

    /// Makes an upgradable read an ordinary one.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for an upgradable read.
    pub unsafe fn downgrade_upgradable(&self) {
        // No fence is needed: the next writer acquires the count with `writers`.
        self.readers.add_without_allocating(LOCKS, 1);
        // SAFETY: the caller's contract.
        unsafe { self.unlock_upgradable() };
    }

    /// Makes a write a read.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for writing.
    pub unsafe fn downgrade(&self) {
        // SAFETY: the caller's contract, and the result of the first call.
        unsafe {
            self.downgrade_to_upgradable();
            self.downgrade_upgradable();
        }
    }

    /// Releases a write.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for writing.
    #[inline]
    pub unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.unlock_exclusive_by(Self::unlock_upgradable) };
    }

    /// Releases a write. Of the writers and upgradable readers, the one that has waited longest is next.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.unlock_exclusive_by(Self::unlock_upgradable_fair) };
    }

    #[inline(always)]
    unsafe fn unlock_exclusive_by(&self, unlock_upgradable: unsafe fn(&Self)) {
        // Relaxed: a hint. Release: as in `admit_readers`.
        if self.is_word.load(Relaxed) != 0 && self.gate.compare_exchange(SOLO, FREE, Release, Relaxed).is_ok()
        {
            return;
        }
        if self.admit_readers(SHUT) {
            // SAFETY: the caller's contract: a writer that is not solo has `writers`.
            unsafe { unlock_upgradable(self) };
        }
    }

    /// Returns `true` if a thread holds the lock, in whatever way.
    pub fn is_locked(&self) -> bool {
        // Relaxed: the answer is out of date anyway. If the phase changes, a writer has admitted readers, which a sum
        // may have missed.
        let word = self.gate.load(Relaxed);
        if word & WORD != 0 {
            return word != FREE;
        }
        let changed = || (self.gate.load(Relaxed) ^ word) & (PHASE | WORD) != 0;
        self.writers.is_locked() || self.sections(word) != 0 || changed()
    }

    /// Returns `true` if a thread holds the lock for writing.
    pub fn is_locked_exclusive(&self) -> bool {
        self.gate.load(Relaxed) & HELD != 0
    }
}

/// A gate that a writer has shut. Ends the attempt when dropped, also if the fence panics.
#[derive(Debug)]
struct Shutting<'a, P: Policy> {
    lock: &'a RawRw<P>,
    /// There was no fence since the gate was open.
    needs_fence: bool,
}

impl<P: Policy> Shutting<'_, P> {
    fn fence(&mut self) {
        let begin = now();
        fence::heavy();
        fence_took(now().saturating_sub(begin));
        self.needs_fence = false;
    }

    /// The writer holds the lock. Returns `true`.
    fn succeeds(self) -> bool {
        mem::forget(self);
        true
    }
}

impl<P: Policy> Drop for Shutting<'_, P> {
    fn drop(&mut self) {
        self.lock.admit_readers(if self.needs_fence { 0 } else { SHUT });
    }
}

/// Releases an upgradable read when dropped, if an upgrade panics.
#[derive(Debug)]
struct Unlock<'a, P: Policy>(&'a RawRw<P>);

impl<P: Policy> Drop for Unlock<'_, P> {
    fn drop(&mut self) {
        // SAFETY: the contract of `upgrade_or_unlock`, which makes this.
        unsafe { self.0.unlock_upgradable() };
    }
}
