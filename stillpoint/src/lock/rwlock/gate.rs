//! The reader-writer lock: one word while few threads read it; then readers count themselves on their CPU, and a
//! writer pays for the fence. What readers do is in [`reader`](super::reader), what writers do in
//! [`writer`](super::writer).
//!
//! The scheme is that of the Linux kernel's `percpu_rw_semaphore` (`kernel/locking/percpu-rwsem.c`), with the
//! counters of [`crate::readers::srcu`] and a heavy fence in place of `rcu_sync`. That readers leave the fast path
//! while there are many writers, and return to it later, is the idea of BRAVO (Dice and Kogan, USENIX ATC 2019).
//!
//! ```text
//! read lock   locks += 1 (this CPU)       read unlock   unlocks += 1 (this CPU)
//!             light fence                               light fence
//!             gate open? else slow path                 gate draining? then count down
//!
//! write lock  writers.lock()              write unlock  open the gate, or leave it shut; admit waiting readers
//!             shut the gate                             writers.unlock()
//!             heavy fence, if it was open
//!             wait until locks == unlocks
//!
//! in word mode: each is one read-modify-write of the gate
//! ```
//!
//! # The gate
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 54.. | readers | sections that began in word mode, and have not ended there |
//! | 32..54 | waiters | readers that wait to be admitted |
//! | 6..32 | phase | changes when waiting readers are admitted; 0 in word mode |
//! | 5 | [`WORD`] | word mode: readers and writers take the lock in this word |
//! | 4 | [`SLEEPERS`] | a waiting reader may sleep |
//! | 3 | [`ENTERED`] | a recursive reader has passed the draining writer |
//! | 2 | [`HELD`] | a writer holds the lock |
//! | 1 | [`DRAINING`] | a writer waits for readers, or holds the lock |
//! | 0 | [`SHUT`] | readers do not take the fast path |
//!
//! | state | flags | a reader that arrives | changed by, to |
//! |---|---|---|---|
//! | word mode, free | `SHUT`, `WORD` | counts itself in the word | a writer to solo, if there is no reader; the holder of `writers` to shut |
//! | solo | these, `DRAINING`, `HELD` | waits, as for held | its writer to free, or to shut if readers wait; the holder of `writers` to held |
//! | open | none | holds the lock | a writer to draining, with a heavy fence |
//! | shut | `SHUT` | holds the lock if it finds the same after a full fence | a reader, if there have been as many since the last writer as cost a heavy fence, to open; a writer to draining, with a full fence |
//! | draining | `SHUT`, `DRAINING` | tries again for a bounded time, then waits; a recursive one enters | the writer to held, or to shut if it gives up |
//! | held | `SHUT`, `DRAINING`, `HELD` | the same | the writer to shut, or to solo |
//!
//! `writers` is the [queued lock](crate::lock::mutex::raw). Except in word mode, its holder is the writer, or the one
//! upgradable reader. An upgradable reader leaves the gate as it is, and is not counted: an upgrade is the second
//! half of a write lock.
//!
//! When it opens: [`opening`](super::opening).
//!
//! # Invariants
//!
//! 1. Only the holder of `writers`, or a solo writer, sets `DRAINING` and `HELD`, clears them and `ENTERED`. Only the
//!    holder of `writers` uses sums of the counters as a proof. To `locks` the readers in the word are added.
//! 2. *Equal sums are of the same sections.* The holder sums `unlocks` first and `locks` second. Each section in the
//!    sum of `unlocks` is in the sum of `locks`: its unlock is a Release that follows its lock, in whatever thread.
//!    An admitted reader is counted by the writer that admits it, before that writer changes the phase. So if the
//!    sums are equal, each section in them has ended, and happens before what follows.
//! 3. *Each section that holds the lock is in the sum of `locks`,* taken by a writer that has shut the gate:
//!    - If it entered in word mode, it is in the word, where no section begins once that mode has ended.
//!    - If it entered through the open gate and its light fence precedes the heavy fence of the writer that shut the
//!      gate, that fence publishes its count, for this writer and later ones. If its light fence follows, it finds
//!      the gate shut: it does not enter through the open gate.
//!    - If it entered through the shut gate, it was counted before a full fence, and then found that no writer
//!      drained. So its fence precedes that of each later writer, between `DRAINING` and the sums.
//!    - If it entered past a draining writer, it was counted before its read-modify-write of the gate, which the
//!      writer acquires (4).
//!    - If it was admitted, see (2).
//! 4. *A recursive reader enters before the gate is held, or not at all.* It sets [`ENTERED`]; the writer clears the
//!    flag, acquiring it, before it sums, and sets `HELD` by a compare-exchange that finds the flag clear.
//! 5. *No writer sleeps too long.* It sleeps after a heavy fence that follows `DRAINING`, and for the sections of the
//!    sum that it took after this fence and after it had set `awaited` to 0. If the light fence of an unlock precedes
//!    the heavy one, the unlock is in the sum. Otherwise the reader finds `DRAINING`, and counts down. It does so
//!    after `awaited` was set to 0, which would acquire an earlier countdown with its unlock. So each section that
//!    the writer sleeps for takes 1 off, and the last one wakes it. Other readers may count down too: recursive ones
//!    that entered since, those counted needlessly, and late ones of an earlier writer. Then the writer wakes early
//!    and sums again, without a fence.
//! 6. *A waiting reader is admitted once, or withdraws.* Both are a compare-exchange of the gate: the writer's
//!    removes all waiters and changes the phase, the reader's removes itself from an unchanged phase.
//! 7. *No waiting reader sleeps too long.* It sleeps only while the lower half of the gate is one with its phase and
//!    [`SLEEPERS`]. The compare-exchange that ends the phase finds the flag, and then wakes all.
//! 8. *No thread starves.* A reader that finds the gate draining or held spins, then yields its CPU some times, and
//!    enters if it finds another gate meanwhile. Then it registers as a waiter, and waits for this writer only: the
//!    next one waits until the admitted readers have left. (If readers registered at once, each write would have to
//!    wait until all of them have had a CPU.) A writer that drains waits for the readers that it found, and for
//!    recursive ones. Writers and upgradable readers wait for each other as the queued lock orders them. In word mode
//!    no writer waits for longer than it spins.
//! 9. *A section ends in the word only if it began there.* In word mode no section is in the counters: it begins when
//!    a writer holds the lock, whose sums are equal. `is_word` is cleared before the Release that ends the mode, and
//!    set before the lock is released to it. So a thread with a section in the counters, which has acquired that
//!    Release, finds 0. A section in the word may end in the counters, once word mode ends; it stays in the sum of
//!    both. It may not while the mode lasts, or the word would never be free: a thread that began there finds
//!    `is_word`, and the fast path of the counters disabled, since only threads with a section in the counters enable
//!    it.
//! 10. *A thread that has `writers` and finds a solo writer gives `writers` to it:* from then on this is a writer
//!     like
//!     others, and the thread queues behind it. So no thread waits for a solo writer with `writers`, which that one
//!     may need.
//!
//! The phase has 26 bits, and changes once while a reader waits to run: the next writer cannot hold the lock before
//! that reader has left. Writers that give up admit waiting readers too, so 2²⁶ of them, and as many readers that
//! they admit, would have to come and go before it runs.
//!
//! # Counters
//!
//! They are allocated by a read soon after reads have ended word mode. Until then, readers count in two words of the
//! lock, so a lock that is seldom read, or written all the time, has no memory of its own.
//!
//! A reader looks at the gate only after it has been counted. A writer that shuts the gate disables the fast path of
//! the counters, and the reader that opens it enables that path. This is a hint: a reader that misses it is counted
//! needlessly, withdraws, and may wake a sleeping writer early (5).
//!
//! # Signals and forks
//!
//! A signal handler may try to read, and may unlock what it has read: neither blocks nor allocates. Trying to write
//! may wait for the heavy fence of another thread, so it may not.
//!
//! In the child of a fork, sections of other threads of the parent stay open, and a gate that another thread has shut
//! stays shut. A reader that waited in the parent when the forking thread held the lock is admitted by this thread in
//! the child too, and never leaves. No section ends without having begun: the child has a prefix of each thread's
//! writes (see [`crate::lock::nodes`]), and a guard stays in its thread (with the
//! feature `send_guard`, what a thread did before it sent a guard must be in the child too).

use core::sync::atomic::AtomicU32 as CoreAtomicU32;

use crate::percpu::cpu_counters::CpuCounters;
use crate::sync::{AtomicU32, Futex, Futex32, Ordering::*, const_unless_loom, step};
#[cfg(not(loom))]
use crate::sync::{fence as full_fence, fence_after_atomic};

use crate::lock::mutex::raw::Raw;
use crate::lock::policy::Policy;

pub const SHUT: u64 = 1;
pub const DRAINING: u64 = 2;
pub const HELD: u64 = 4;
pub const ENTERED: u64 = 8;
pub const SLEEPERS: u64 = 16;
pub const WORD: u64 = 32;
pub const ONE_PHASE: u64 = 64;
pub const PHASE: u64 = (1 << 32) - ONE_PHASE;
pub const ONE_WAITER: u64 = 1 << 32;
/// 22 bits. Linux has less than 2²² threads.
pub const WAITERS: u64 = ONE_READER - ONE_WAITER;
pub const ONE_READER: u64 = 1 << 54;
pub const READERS: u64 = !(ONE_READER - 1);
/// Word mode: no thread holds the lock, or a *solo writer* does.
pub const FREE: u64 = SHUT | WORD;
pub const SOLO: u64 = FREE | DRAINING | HELD;

/// Readers in word mode, at most.
pub const MOST_READERS: u64 = 1000;
/// A read in word mode that finds another one counts as so many.
pub const OVERLAP: u32 = 16;

/// The words on each CPU.
pub const LOCKS: usize = 0;
pub const UNLOCKS: usize = 1;

/// When a call gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Instead of blocking.
    Immediate,
    /// When the clock shows this many nanoseconds.
    At(u64),
    Never,
}

impl Timeout {
    pub(super) fn end(self) -> Option<u64> {
        match self {
            Self::Immediate => Some(0),
            Self::At(end) => Some(end),
            Self::Never => None,
        }
    }
}

/// See the [module](self). What each reader loads comes first.
#[derive(Debug)]
#[repr(C)]
pub struct RawRw<P> {
    pub(super) gate: Futex,
    /// The sections that the writer sleeps for, in two's complement.
    pub(super) awaited: Futex32,
    pub(super) writers: Raw<P>,
    pub(super) readers: CpuCounters<2>,
    /// The reads since the last writer, by an estimate.
    pub(super) reads: CoreAtomicU32,
    /// Not 0 in word mode: threads that would load the gate and then change it would wait for it twice.
    pub(super) is_word: AtomicU32,
}

/// For the models.
#[cfg(loom)]
impl<P: Policy> RawRw<P> {
    /// Creates a lock with an open gate.
    pub fn opened() -> Self {
        Self { gate: Futex::new(0), is_word: AtomicU32::new(0), ..Self::new() }
    }

    /// Creates a lock with a shut gate.
    pub fn shut() -> Self {
        Self { gate: Futex::new(SHUT), is_word: AtomicU32::new(0), ..Self::new() }
    }

    /// Creates a lock in word mode.
    pub fn word() -> Self {
        let lock = Self::new();
        lock.readers.disable_fast();
        lock
    }
}

impl<P: Policy> RawRw<P> {
    const_unless_loom! {
        /// Creates a free lock.
        pub fn new() -> Self {
            Self {
                gate: Futex::new(FREE),
                awaited: Futex32::new(0),
                writers: Raw::new(),
                readers: CpuCounters::new(),
                reads: CoreAtomicU32::new(0),
                is_word: AtomicU32::new(1),
            }
        }
    }

    /// Returns the address of the lock, in probes: that of `writers`, which writers wait for.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.writers.address()
    }

    /// Executes a full fence, then loads the gate. Readers that are counted and a writer that has made the gate
    /// draining both do (3). The last access was a read-modify-write if it is `after_atomic`.
    #[inline]
    pub(super) fn load_after_fence(&self, after_atomic: bool) -> u64 {
        // Acquire: as in `lock_shared`.
        #[cfg(not(loom))]
        {
            if after_atomic {
                fence_after_atomic()
            } else {
                full_fence(SeqCst)
            }
            self.gate.load(Acquire)
        }
        // loom's sequentially consistent fences order too much. This orders as much: of two read-modify-writes of the
        // gate, the later one acquires what precedes the other.
        #[cfg(loom)]
        {
            let _ = after_atomic;
            self.gate.fetch_or(0, AcqRel)
        }
    }

    /// Ends word mode, for the holder of `writers`. If a solo writer holds the lock, gives `writers` to it, and
    /// returns `false`.
    pub(super) fn leave_word(&self) -> bool {
        // Acquire, here and below: the last solo writer's section, and the readers that it has admitted; pairs with
        // the Release in `unlock_exclusive_by` and `admit_readers`.
        if self.gate.load(Acquire) & WORD == 0 {
            return true;
        }
        // Relaxed: published by the Release below (9).
        step!("word-mode-left-unseen", self.is_word.store(0, Relaxed));
        // Release: publishes that; pairs with the Acquire in `lock_shared` and `load_after_fence`.
        self.gate.fetch_and(!WORD, AcqRel) & SOLO != SOLO
    }

    /// Ends word mode because of reads. Returns `true` if it has ended. The caller is not counted.
    #[cold]
    pub(super) fn spread(&self) -> bool {
        let ends = self.writers.try_lock();
        if ends && self.leave_word() {
            // SAFETY: taken above.
            unsafe { self.writers.unlock() };
        }
        ends
    }

    /// Returns the number of sections: of those in the word, which has just been loaded, and those in the counters.
    /// Only a holder of `writers` that has shut the gate may rely on 0, any other result is an estimate.
    pub(super) fn sections(&self, word: u64) -> u64 {
        // In this order: see (2).
        let unlocks = self.readers.sum(UNLOCKS);
        (word / ONE_READER).wrapping_add(self.readers.sum(LOCKS)).wrapping_sub(unlocks)
    }
}
