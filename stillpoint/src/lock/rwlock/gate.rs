//! The reader-writer lock: readers count themselves on their CPU, a writer pays for the fence. The writers are in
//! [`writer`](super::writer).
//!
//! The scheme is that of the Linux kernel's `percpu_rw_semaphore` (`kernel/locking/percpu-rwsem.c`), with the counters
//! of [`crate::readers::srcu`] and a heavy fence in place of `rcu_sync`. That readers leave the fast path while there
//! are many writers, and return to it later, is the idea of BRAVO (Dice and Kogan, USENIX ATC 2019).
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
//! ```
//!
//! # The gate
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 54.. | samples | of the reads by the slow path since the last writer, one in [`Policy::SAMPLE`] |
//! | 32..54 | waiters | readers that wait to be admitted |
//! | 5..32 | phase | changes when waiting readers are admitted |
//! | 4 | [`SLEEPERS`] | a waiting reader may sleep |
//! | 3 | [`ENTERED`] | a recursive reader has passed the draining writer |
//! | 2 | [`HELD`] | a writer holds the lock |
//! | 1 | [`DRAINING`] | a writer waits for readers, or holds the lock |
//! | 0 | [`SHUT`] | readers take the slow path |
//!
//! | state | flags | a reader that arrives | changed by, to |
//! |---|---|---|---|
//! | open | none | holds the lock | a writer to draining, with a heavy fence |
//! | shut | `SHUT` | holds the lock if it finds the same after a full fence | a reader, if there have been as many since the last writer as cost a heavy fence, to open; a writer to draining, with a full fence |
//! | draining | `SHUT`, `DRAINING` | tries again for a bounded time, then waits; a recursive one enters | the writer to held, or to shut if it gives up |
//! | held | all three | the same | the writer to shut |
//!
//! `writers` is the [queued lock](crate::lock::mutex::raw). Its holder is the writer, or the one upgradable reader. An upgradable
//! reader leaves the gate as it is, and is not counted: an upgrade is the second half of a write lock.
//!
//! So a write costs at most one heavy fence and, as a rule (5), one wake-up, once the writer holds `writers`. A lock that
//! is written often stays shut, and costs no heavy fence: opening it pays only if the reads until the next writer save more
//! than that fence costs. To open it after as many slow reads as cost one fence is at most twice as expensive as to know the
//! future. How long fences take is measured. Slow reads are sampled, so as not to write the gate, which all CPUs read.
//!
//! # Invariants
//!
//! 1. Only the holder of `writers` sets `DRAINING` and `HELD`, clears them and `ENTERED`, and uses sums of the counters
//!    as a proof.
//! 2. *Equal sums are of the same sections.* The holder sums `unlocks` first and `locks` second. Each section in the
//!    sum of `unlocks` is in the sum of `locks`: its unlock is a Release that follows its lock, in whatever thread. An
//!    admitted reader is counted by the writer that admits it, before that writer releases `writers`. So if the sums
//!    are equal, each section in them has ended, and happens before what follows.
//! 3. *Each section that holds the lock is in the sum of `locks`,* taken by a writer that has shut the gate:
//!    - If it entered through the open gate and its light fence precedes the heavy fence of the writer that shut the
//!      gate, that fence publishes its count, for this writer and later ones. If its light fence follows, it finds the
//!      gate shut: it does not enter through the open gate.
//!    - If it entered through the shut gate, it was counted before a full fence, and then found that no writer drained.
//!      So its fence precedes that of each later writer, between `DRAINING` and the sums.
//!    - If it entered past a draining writer, it was counted before its read-modify-write of the gate, which the writer
//!      acquires (4).
//!    - If it was admitted, see (2).
//! 4. *A recursive reader enters before the gate is held, or not at all.* It sets [`ENTERED`]; the writer clears the
//!    flag, acquiring it, before it sums, and sets `HELD` by a compare-exchange that finds the flag clear.
//! 5. *No writer sleeps too long.* It sleeps after a heavy fence that follows `DRAINING`, and for the sections of the
//!    sum that it took after this fence and after it had set `awaited` to 0. If the light fence of an unlock precedes
//!    the heavy one, the unlock is in the sum. Otherwise the reader finds `DRAINING`, and counts down. It does so after
//!    `awaited` was set to 0, which would acquire an earlier countdown with its unlock. So each section that the writer
//!    sleeps for takes 1 off, and the last one wakes it. Other readers may count down too: recursive ones that entered
//!    since, those counted needlessly, and late ones of an earlier writer. Then the writer wakes early and sums again,
//!    without a fence.
//! 6. *A waiting reader is admitted once, or withdraws.* Both are a compare-exchange of the gate: the writer's removes
//!    all waiters and changes the phase, the reader's removes itself from an unchanged phase.
//! 7. *No waiting reader sleeps too long.* It sleeps only while the lower half of the gate is one with its phase and
//!    [`SLEEPERS`]. The compare-exchange that ends the phase finds the flag, and then wakes all.
//! 8. *No thread starves.* A reader that finds the gate draining or held spins, then yields its CPU some times, and
//!    enters if it finds another gate meanwhile. Then it registers as a waiter, and waits for this writer only: the next
//!    one waits until the admitted readers have left. (If readers registered at once, each write would have to wait until
//!    all of them have had a CPU.) A writer that drains waits for the readers that it found, and for recursive ones.
//!    Writers and upgradable readers wait for each other as the queued lock orders them.
//!
//! The phase has 27 bits, and changes once while a reader waits to run: the next writer cannot hold the lock before
//! that reader has left. Writers that give up admit waiting readers too, so 2²⁷ of them, and as many readers that they
//! admit, would have to come and go before it runs.
//!
//! # Counters
//!
//! They are allocated when the gate first opens. Until then, readers count in two words of the lock, so a lock that is
//! seldom read, or written all the time, has no memory of its own.
//!
//! A reader looks at the gate only after it has been counted. A writer that shuts the gate disables the fast path of the
//! counters, and the reader that opens it enables that path. This is a hint: a reader that misses it is counted needlessly,
//! withdraws, and may wake a sleeping writer early (5).
//!
//! # Signals and forks
//!
//! A signal handler may try to read, and may unlock what it has read: neither blocks nor allocates. Trying to write may
//! wait for the heavy fence of another thread, so it may not.
//!
//! In the child of a fork, sections of other threads of the parent stay open, and a gate that another thread has shut
//! stays shut. A reader that waited in the parent when the forking thread held the lock is admitted by this thread in
//! the child too, and never leaves. No section ends without having begun: the child has a prefix of each thread's
//! writes (see [`crate::lock::mutex::nodes`]), and a guard stays in its thread (with the
//! feature `send_guard`, what a thread did before it sent a guard must be in the child too).

use core::sync::atomic::AtomicU64;

use crossbeam_utils::CachePadded;

#[cfg(not(loom))]
use crate::fence;
use crate::fence::{light, light_compiler_only};
use crate::percpu::cpu_counters::CpuCounters;
use crate::sync::{Futex, Futex32, Ordering::*, const_unless_loom, one_in, step};
#[cfg(not(loom))]
use crate::sync::{fence as full_fence, fence_after_atomic};

use crate::lock::events::{self, Event, Wait};
use crate::lock::mutex::raw::Raw;
use crate::lock::policy::{GATE_YIELDS, Policy};
use crate::lock::spin::{Spin, Yields};
use crate::lock::waiter;

pub const SHUT: u64 = 1;
pub const DRAINING: u64 = 2;
pub const HELD: u64 = 4;
pub const ENTERED: u64 = 8;
pub const SLEEPERS: u64 = 16;
pub const ONE_PHASE: u64 = 32;
pub const PHASE: u64 = (1 << 32) - ONE_PHASE;
pub const ONE_WAITER: u64 = 1 << 32;
/// 22 bits. Linux has less than 2²² threads.
pub const WAITERS: u64 = ONE_SAMPLE - ONE_WAITER;
pub const ONE_SAMPLE: u64 = 1 << 54;

/// Nanoseconds that the open gate saves a read: a full fence, and the slow path.
const READ_SAVES_NS: u64 = 12;
/// Slow reads since the last writer after which the counters are allocated.
const READS_TO_ALLOCATE: u64 = 128;
/// The bounds of [`READS_PER_FENCE`].
const MIN_READS: u64 = 16;
const MAX_READS: u64 = 1024;
/// How many slow reads cost as much as a heavy fence: an estimate for all locks.
static READS_PER_FENCE: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(READS_TO_ALLOCATE));

/// The words on each CPU.
pub const LOCKS: usize = 0;
const UNLOCKS: usize = 1;

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
}

/// For the models.
#[cfg(loom)]
impl<P: Policy> RawRw<P> {
    /// Creates a lock with an open gate.
    pub fn opened() -> Self {
        Self { gate: Futex::new(0), ..Self::new() }
    }
}

impl<P: Policy> RawRw<P> {
    const_unless_loom! {
        /// Creates a free lock.
        pub fn new() -> Self {
            Self {
                gate: Futex::new(SHUT),
                awaited: Futex32::new(0),
                writers: Raw::new(),
                readers: CpuCounters::new(),
            }
        }
    }

    /// Takes the lock for reading. If `RECURSIVE`, passes a writer that waits for readers. Returns `true` if the caller
    /// holds it.
    #[inline(always)]
    pub fn lock_shared<const RECURSIVE: bool>(&self, timeout: Timeout) -> bool {
        // Light fence: pairs with the heavy fence in `upgrade` (3).
        let counted = self.try_count(LOCKS);
        // Acquire: the last writer's section; pairs with the Release in `admit_readers`.
        if counted && self.gate.load(Acquire) & SHUT == 0 {
            return true;
        }
        self.lock_shared_slow(RECURSIVE, timeout, counted)
    }

    /// Releases the lock, which the caller holds for reading. The caller may be another thread.
    #[inline(always)]
    pub fn unlock_shared(&self) {
        // Light fence: pairs with the heavy fence before the writer sleeps (5).
        self.count(UNLOCKS);
        // Relaxed: the fences order it.
        if self.gate.load(Relaxed) & DRAINING != 0 {
            self.count_down();
        }
    }

    /// Adds 1 to a word of this CPU, with Release, and executes a light fence.
    #[inline(always)]
    fn count(&self, word: usize) {
        if !self.try_count(word) {
            self.count_slow(word);
        }
    }

    /// The fast path of [`count`](Self::count). Returns `false`, without an effect, if [`CpuCounters::try_add`] does: as
    /// a rule, while the gate is shut.
    #[inline(always)]
    fn try_count(&self, word: usize) -> bool {
        let counted = self.readers.try_add(word, 1);
        // A compiler fence is a light fence here, or `try_add` would have failed: see `allocate`.
        light_compiler_only();
        counted
    }

    #[cold]
    #[inline(never)]
    fn count_slow(&self, word: usize) {
        self.readers.add_without_allocating(word, 1);
        light();
    }

    /// Takes the lock for reading, with a full fence. The caller may have been counted.
    #[cold]
    fn lock_shared_slow(&self, recursive: bool, timeout: Timeout, mut counted: bool) -> bool {
        // Tried reads do not allocate, so there is nothing to count for until another read has.
        let sampled = (timeout != Timeout::Immediate || self.readers.is_allocated()) && one_in(P::SAMPLE);
        let (mut after_atomic, mut patience) = (false, None);
        let held = loop {
            // Relaxed: the load is repeated once the reader is counted.
            let word = if counted { self.load_after_fence(after_atomic) } else { self.gate.load(Relaxed) };
            if word & DRAINING != 0 && (!recursive || word & HELD != 0) {
                if counted {
                    self.unlock_shared();
                    counted = false;
                }
                if timeout == Timeout::Immediate {
                    break false;
                }
                let (spin, yields) = patience.get_or_insert_with(|| {
                    events::contended(self.address(), Wait::Writer);
                    (Spin::with_backoff(P::BACKOFF_NS), Yields::<P>::new(GATE_YIELDS, timeout.end()))
                });
                if spin.pause() || waiter::with(|waiter| yields.next(waiter)) {
                    continue;
                }
                // Relaxed, both: carries nothing.
                if self.gate.compare_exchange(word, word + ONE_WAITER, Relaxed, Relaxed).is_ok() {
                    break self.wait_for_admission(word & PHASE, timeout);
                }
            } else if !counted {
                if sampled && allocates::<P>(word) {
                    step!("gate-never-opens", self.allocate());
                }
                after_atomic = self.readers.add_without_allocating(LOCKS, 1);
                counted = true;
            } else if word & SHUT == 0 {
                // The reader that opened the gate may have been preempted before it did so.
                self.readers.enable_fast();
                break true;
            } else if word & DRAINING == 0 && !sampled {
                break true;
            } else {
                let next = match word {
                    _ if word & DRAINING != 0 => word | ENTERED,
                    _ if !opens::<P>(word) => word + ONE_SAMPLE,
                    _ if self.readers.is_allocated() => word & PHASE,
                    // There is no memory.
                    _ => break true,
                };
                // Acquire: as in `lock_shared`; a writer may have come and gone since the load, if the next one drains
                // already. The fence has published the count of this reader; it pairs with the Acquire in `try_hold`.
                if self.gate.compare_exchange(word, next, Acquire, Relaxed).is_ok() {
                    if next & SHUT == 0 {
                        // A writer may have just shut the gate: readers are counted needlessly until the next one.
                        self.readers.enable_fast();
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

    /// Returns the address of the lock, in probes: that of `writers`, which writers wait for.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.writers.address()
    }

    /// Executes a full fence, then loads the gate. Readers that are counted and a writer that has made the gate draining
    /// both do (3). The last access was a read-modify-write if it is `after_atomic`.
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

    /// Allocates the counters. The caller is not counted, as the global allocator may take the lock.
    #[cold]
    fn allocate(&self) {
        // Where a light fence is more than a compiler fence, readers always take the path that executes it.
        #[cfg(not(loom))]
        if !self.readers.is_allocated() {
            let _ = self.readers.prepare_for(fence::backend() == fence::Backend::Membarrier);
        }
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
            P::count(Event::WriterWakeup);
            step!("writer-not-woken", self.awaited.wake(1));
        }
    }

    /// Returns the number of sections. Only a holder of `writers` that has shut the gate may rely on 0, any other
    /// result is an estimate.
    pub(super) fn readers(&self) -> u64 {
        // In this order: see (2).
        let unlocks = self.readers.sum(UNLOCKS);
        self.readers.sum(LOCKS).wrapping_sub(unlocks)
    }

    /// Returns `true` if readers take the fast path.
    #[cfg(all(test, not(loom)))]
    pub fn is_open(&self) -> bool {
        self.gate.load(Relaxed) & SHUT == 0
    }

    /// Returns `true` if a thread holds the lock, in whatever way.
    pub fn is_locked(&self) -> bool {
        // Relaxed: the answer is out of date anyway. If the phase changes, a writer has admitted readers, which a sum may
        // have missed.
        let phase = self.gate.load(Relaxed) & PHASE;
        self.writers.is_locked() || self.readers() != 0 || self.gate.load(Relaxed) & PHASE != phase
    }

    /// Returns `true` if a thread holds the lock for writing.
    pub fn is_locked_exclusive(&self) -> bool {
        self.gate.load(Relaxed) & HELD != 0
    }
}

/// Returns the slow reads since the last writer, by an estimate.
pub fn reads<P: Policy>(word: u64) -> u64 {
    word / ONE_SAMPLE * P::SAMPLE
}

/// Returns `true` if the next sample opens the gate.
fn opens<P: Policy>(word: u64) -> bool {
    match P::OPEN_AFTER {
        Some(samples) => word / ONE_SAMPLE + 1 >= samples,
        // Relaxed: an estimate.
        None => reads::<P>(word) + P::SAMPLE >= READS_PER_FENCE.load(Relaxed).max(READS_TO_ALLOCATE),
    }
}

/// Returns `true` if the next sample allocates the counters.
fn allocates<P: Policy>(word: u64) -> bool {
    if P::OPEN_AFTER.is_some() { opens::<P>(word) } else { reads::<P>(word) + P::SAMPLE >= READS_TO_ALLOCATE }
}

/// Takes a heavy fence of `ns` nanoseconds into account, by a quarter; at most twice the estimate, as the thread may
/// have been preempted.
pub fn fence_took(ns: u64) {
    // Relaxed, here and below: an estimate.
    let old = READS_PER_FENCE.load(Relaxed);
    let new = (3 * old + (ns / READ_SAVES_NS).min(2 * old)) / 4;
    READS_PER_FENCE.store(new.clamp(MIN_READS, MAX_READS), Relaxed);
}

/// Takes into account that a writer found a gate shut after so many slow reads: if they are many, lowers the estimate a
/// little. Otherwise, once it is too high, no gate would open, and no fence correct it.
pub fn gate_was_shut(reads: u64) {
    if reads >= READS_TO_ALLOCATE {
        let old = READS_PER_FENCE.load(Relaxed);
        READS_PER_FENCE.store((old - 1).max(MIN_READS), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
pub fn reads_per_fence() -> u64 {
    READS_PER_FENCE.load(Relaxed)
}
