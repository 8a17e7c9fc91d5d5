//! The readers of the [reader-writer lock](super::gate).

#[cfg(not(loom))]
use crate::fence;
use crate::fence::{light, light_compiler_only, light_is_compiler_fence};
use crate::sync::{Ordering::*, now, one_in, spin_loop, step};

use super::gate::{
    DRAINING, ENTERED, FREE, HELD, LOCKS, MOST_READERS, ONE_READER, ONE_WAITER, OVERLAP, PHASE, READERS,
    RawRw, SHUT, SLEEPERS, Timeout, UNLOCKS, WORD,
};
use super::opening::{allocates, opens};
use crate::lock::events::{self, Wait};
use crate::lock::policy::{GATE_YIELDS, Policy};
use crate::lock::spin::{Spin, Yields};
use crate::lock::waiter;

impl<P: Policy> RawRw<P> {
    /// Takes the lock for reading. If `RECURSIVE`, passes a writer that waits for readers. Returns `true` if the
    /// caller holds it.
    #[inline(always)]
    pub fn lock_shared<const RECURSIVE: bool>(&self, timeout: Timeout) -> bool {
        // Light fence: pairs with the heavy fence in `upgrade` (3).
        let counted = self.try_count(LOCKS);
        // Acquire: the last writer's section; pairs with the Release in `admit_readers`.
        if counted && self.gate.load(Acquire) & SHUT == 0 {
            return true;
        }
        // Relaxed: a hint, here.
        if !counted && self.is_word.load(Relaxed) != 0 {
            let reads = self.reads.load(Relaxed);
            if reads < P::WORD_READS
                && self.gate.compare_exchange(FREE, FREE + ONE_READER, Acquire, Relaxed).is_ok()
            {
                self.reads.store(reads + 1, Relaxed);
                return true;
            }
        }
        self.lock_shared_slow(RECURSIVE, timeout, counted)
    }

    /// Releases the lock, which the caller holds for reading. The caller may be another thread.
    #[inline(always)]
    pub fn unlock_shared(&self) {
        // Light fence: pairs with the heavy fence before the writer sleeps (5).
        if !self.try_count(UNLOCKS) {
            return self.unlock_shared_slow();
        }
        // Relaxed: the fences order it.
        if self.gate.load(Relaxed) & DRAINING != 0 {
            self.count_down();
        }
    }

    /// Ends a section in the word, in word mode, or else in the counters (9).
    #[inline(always)]
    fn unlock_shared_slow(&self) {
        // Relaxed: published to those that the counters have; see (9).
        if self.is_word.load(Relaxed) == 0 {
            return self.uncount();
        }
        // Release: the section precedes that of the next writer; pairs with the Acquire in `try_solo`, `leave_word`
        // and `try_hold`.
        if self.gate.fetch_sub(ONE_READER, Release) & DRAINING != 0 {
            self.count_down();
        }
    }

    /// Ends a section in the counters, as [`unlock_shared`](Self::unlock_shared) does in its fast path.
    #[cold]
    #[inline(never)]
    fn uncount(&self) {
        self.readers.add_without_allocating(UNLOCKS, 1);
        light();
        if self.gate.load(Relaxed) & DRAINING != 0 {
            self.count_down();
        }
    }

    /// Adds 1 to a word of this CPU, with Release, and executes a light fence. Returns `false`, without an effect, if
    /// `CpuCounters::try_add` does: as a rule, while the gate is shut.
    #[inline(always)]
    fn try_count(&self, word: usize) -> bool {
        let counted = self.readers.try_add(word, 1);
        // A compiler fence is a light fence here, or `try_add` would have failed: see `allocate`.
        light_compiler_only();
        counted
    }

    /// Takes the lock for reading, with a full fence. The caller may have been counted.
    #[cold]
    fn lock_shared_slow(&self, recursive: bool, timeout: Timeout, mut counted: bool) -> bool {
        // Tried reads do not allocate, so there is nothing to count for until another read has.
        let sampled =
            (timeout != Timeout::Immediate || self.readers.is_allocated()) && one_in(P::SAMPLE.into());
        let (mut after_atomic, mut patience) = (false, None);
        let held = loop {
            // Relaxed: the load is repeated once the reader is counted.
            let word = if counted { self.load_after_fence(after_atomic) } else { self.gate.load(Relaxed) };
            if word & DRAINING != 0 && (!recursive || word & HELD != 0) {
                if counted {
                    self.uncount();
                    counted = false;
                }
                if timeout == Timeout::Immediate {
                    break false;
                }
                let (spin, yields) = patience.get_or_insert_with(|| {
                    events::contended(self.address(), Wait::Writer);
                    (Spin::with_backoff(P::BACKOFF_NS), Yields::new(GATE_YIELDS, timeout.end()))
                });
                if spin.pause() || waiter::with(|waiter| yields.next(waiter)) {
                    continue;
                }
                // Relaxed, both: carries nothing.
                if self.gate.compare_exchange(word, word + ONE_WAITER, Relaxed, Relaxed).is_ok() {
                    break self.wait_for_admission(word & PHASE, timeout);
                }
            } else if word & WORD != 0 {
                if counted {
                    self.uncount();
                    counted = false;
                    continue;
                }
                let reads = self.reads.load(Relaxed);
                let is_full = word >= MOST_READERS * ONE_READER;
                let ends = is_full || reads >= P::WORD_READS && timeout != Timeout::Immediate;
                if ends && self.spread() {
                    continue;
                }
                if is_full {
                    // Another thread has `writers`, and ends word mode.
                    if timeout.end().is_some_and(|end| now() >= end) {
                        break false;
                    }
                    spin_loop();
                    continue;
                }
                let more = reads.saturating_add(if word == FREE { 1 } else { OVERLAP });
                // Acquire: as in `lock_shared`.
                if self.gate.compare_exchange(word, word + ONE_READER, Acquire, Relaxed).is_ok() {
                    self.reads.store(more, Relaxed);
                    break true;
                }
            } else if !counted {
                if sampled && allocates::<P>(self.reads.load(Relaxed)) {
                    step!("gate-never-opens", self.allocate());
                }
                after_atomic = self.readers.add_without_allocating(LOCKS, 1);
                counted = true;
            } else if word & SHUT == 0 {
                // The reader that opened the gate may have been preempted before it did so.
                self.enable_fast();
                break true;
            } else {
                let next = if word & DRAINING != 0 {
                    word | ENTERED
                } else {
                    if !sampled {
                        break true;
                    }
                    let reads = self.reads.load(Relaxed);
                    // If not, there is no memory.
                    if !opens::<P>(reads) || !self.readers.is_allocated() {
                        self.reads.store(reads.saturating_add(P::SAMPLE), Relaxed);
                        break true;
                    }
                    word & (PHASE | READERS)
                };
                // Acquire: as in `lock_shared`; a writer may have come and gone since the load, if the next one
                // drains already. The fence has published the count of this reader; it pairs with the Acquire in
                // `try_hold`.
                if self.gate.compare_exchange(word, next, Acquire, Relaxed).is_ok() {
                    if next & SHUT == 0 {
                        // A writer may have just shut the gate: readers are counted needlessly until the next one.
                        self.enable_fast();
                    }
                    break true;
                }
            }
        };
        if patience.is_some() {
            events::wait_ends(self.address(), Wait::Writer, held, || self.writers.has_queue());
        }
        held
    }

    /// Chooses the fence, and allocates the counters. The caller is not counted, as the global allocator may take the
    /// lock.
    #[cold]
    fn allocate(&self) {
        #[cfg(not(loom))]
        if !self.readers.is_allocated() {
            fence::report();
            let _ = self.readers.prepare_for(false);
        }
    }

    /// Enables the fast path of the counters. The caller has a section in them (9).
    fn enable_fast(&self) {
        // Where a light fence is more than a compiler fence, readers always take the path that executes it. A tried
        // read must not choose the fence: a signal handler may have interrupted that choice.
        if !light_is_compiler_fence() {
            return;
        }
        self.readers.enable_fast();
    }

    /// Blocks until a writer ends the phase, for a reader that is counted as a waiter. Returns `true` if the caller
    /// holds the lock.
    fn wait_for_admission(&self, phase: u64, timeout: Timeout) -> bool {
        loop {
            // Acquire: as in `lock_shared`.
            let word = self.gate.load(Acquire);
            if word & PHASE != phase {
                return true;
            }
            let asleep = word | SLEEPERS;
            // Relaxed: carries nothing.
            if word != asleep && self.gate.compare_exchange(word, asleep, Relaxed, Relaxed).is_err() {
                continue;
            }
            if self.gate.wait_until(asleep, timeout.end()) && self.withdraw(phase) {
                return false;
            }
        }
    }

    /// Withdraws a waiting reader. Returns `false` if it has been admitted.
    fn withdraw(&self, phase: u64) -> bool {
        let mut word = self.gate.load(Relaxed);
        while word & PHASE == phase {
            // Relaxed, both: carries nothing.
            match self.gate.compare_exchange(word, word - ONE_WAITER, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Counts a section as ended for the writer. The last one wakes it.
    #[cold]
    fn count_down(&self) {
        // Release: publishes the unlock; pairs with the Acquire of the swap in `sleep`.
        if self.awaited.fetch_sub(1, Release) == 1 {
            events::handover(self.address());
            step!("writer-not-woken", self.awaited.wake(1));
        }
    }
}
