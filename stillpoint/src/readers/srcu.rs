//! Readers that count themselves in and out: two phases, four words on each CPU, and the grace period that waits for sums.
//!
//! The readers of [`crate::srcu`]. A section is counted where it begins, in `entered`, and where it ends, in `left`, each time
//! on the CPU that the thread happens to be on: it may end in another thread. Nobody knows who is inside; a grace period
//! costs a few loads for each CPU, however many sections are open. After the sleepable RCU of the Linux kernel
//! (`kernel/rcu/srcutree.c`), with 64-bit counts and without its barriers.
//!
//! ```text
//! enter      p = phase                     leave      left[p] += 1         releases
//!            entered[p] += 1                          light fence
//!            light fence                              attention == p?      then count down
//! ```
//!
//! # A grace period
//!
//! ```text
//! heavy fence A
//! wait until the idle phase is drained     (sections that began there lately, by a thread that was slow)
//! flip                                     unless the other is drained as well
//! wait until the other is drained          (new sections begin in the idle phase)
//! ```
//!
//! A phase is *drained* when `left`, summed over all CPUs first, equals `entered`, summed afterwards.
//!
//! # Why a drained phase has no section of before A
//!
//! Take one look that finds the sums `L` of `left` and then `E` of `entered` equal. Neither is a snapshot of a moment.
//!
//! 1. *Whoever is in `L` is in `E`.* A section's leaving comes after its entering, by the guard, in whatever thread. The add
//!    of `left` releases, the sum acquires: the adds of `entered` of all sections in `L` happen before the sum `E`, which
//!    contains them.
//! 2. *`L` and `E` are the same sections*, as they are equally many, by (1). So every section in `E` has ended, and happens
//!    before what follows the look.
//! 3. *Every section whose light fence came before A is in `E`*: its add of `entered` comes before that fence, and the sum
//!    after A. By (2) it has ended.
//! 4. *A section whose light fence came after A* sees what was unpublished before A: it need not be waited for.
//!
//! This holds for each phase by itself and for every look after A; so a grace period is over when each phase has been found
//! drained once, in any order, and whatever was flipped meanwhile. A thread that loaded `phase` long ago, before any number
//! of flips, enters a phase that may be the idle one: (3) and (4) do not ask which it is. Counts of 64 bits do not wrap.
//!
//! # Why it ends
//!
//! New sections would keep the phase in which they begin from ever being drained. The idle phase gets none, but from threads
//! that loaded `phase` before the last flip and have entered since: one section for each thread, as its next load sees the
//! flip. When the idle phase is drained the two change places, and the other one gets no more than that.
//!
//! # Sleeping
//!
//! The leader looks a bounded number of times. Then it sets `attention` to the phase, issues heavy fence B, and goes on as
//! follows until the phase is drained:
//!
//! ```text
//! awaited = 0            (swap)
//! open = sums            drained?
//! awaited += open
//! sleep while awaited > 0
//! ```
//!
//! Who leaves, and finds `attention` at its phase, takes one off `awaited`; who takes the last one off wakes the leader. The
//! count is the upper half of a futex word, of which the kernel compares the lower half: that is changed by those who wake
//! only, so the leader is not kept from sleeping by a hundred thousand who leave.
//!
//! 1. *The leader never sleeps too long.* Take a section that is `active_readers`: in `entered`, not in `left`. Had its light fence on
//!    leaving come before B, its add of `left` would be in the sum; so that fence comes after B, sees `attention`, and it
//!    counts down. It does so after the swap: a countdown that the swap has swallowed is released by it and acquired there,
//!    with its add of `left`, so the section would be in the sum. So for each that is `active_readers` one is taken off after the
//!    swap, and `awaited` gets to 0.
//! 2. *It may wake too early*: when somebody has counted down who is not among the `active_readers` (he left while the leader summed,
//!    or entered the phase late, or was slow after the grace period before). `awaited` may so become negative. The leader
//!    looks for himself, and sleeps again if need be, without another fence. That takes as many threads which were caught in
//!    one of these moments as there are wake-ups too many: one wake-up a grace period is the rule.
//! 3. *Sections of the other phase* do not count down.
//!
//! # Domains without a handle
//!
//! When the last handle has gone nobody can be inside, not even where a guard was leaked: what it has lent is borrowed from the handle.
//! Grace periods then end at once ([`SrcuReaders::close`]), and what is deferred still can be done.

use core::num::NonZeroU32;
use core::panic::Location;

use crossbeam_utils::CachePadded;

use core::convert::Infallible;

use crate::fence::{heavy, light, light_compiler_only};
use crate::grace_period::engine::{Costs, ReaderSet};
use crate::grace_period::stall::{self, StallDetector};
use crate::percpu::counters::CpuCounters;
use crate::sync::{AtomicU64, Futex, Ordering::*, budget, spin_loop, step, yield_now};

/// How often a grace period looks at phases that are not drained before it sleeps.
const SPINS: u32 = 100;

const ANYBODY: NonZeroU32 = NonZeroU32::MAX;

/// A section in the upper half of `awaited`.
const ONE: u64 = 1 << 32;
/// As many as it can count. The leader wakes early if there are more.
const MOST: u64 = i32::MAX as u64;

/// The sections that `awaited` counts: none, or fewer, if the leader is to look.
fn count(awaited: u64) -> i32 {
    (awaited >> 32) as i32
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Even,
    Odd,
}

/// In place of a phase: nobody sleeps.
const NO_PHASE: u64 = 2;

impl Phase {
    #[inline(always)]
    fn of(word: u64) -> Self {
        if word & 1 == 0 { Self::Even } else { Self::Odd }
    }

    fn other(self) -> Self {
        Self::of(self as u64 + 1)
    }

    /// The word that counts who enters.
    #[inline(always)]
    fn entered(self) -> usize {
        self as usize
    }

    /// The word that counts who leaves.
    #[inline(always)]
    fn left(self) -> usize {
        2 + self as usize
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct SrcuReaders {
    shown: CachePadded<Shown>,
    /// Above, sections that the leader sleeps for, in two's complement; below, a number that changes with each wake-up.
    awaited: CachePadded<Futex>,
    /// 1 when there is no handle any more.
    closed: AtomicU64,
    /// Sections that were open when this process was forked.
    sections_at_fork: AtomicU64,
    /// Where the domain was made.
    site: &'static Location<'static>,
    costs: CachePadded<Costs>,
}

/// What readers look at, which is seldom written.
#[derive(Debug)]
struct Shown {
    /// Where sections begin.
    phase: AtomicU64,
    /// The phase for which the leader sleeps, or [`NO_PHASE`].
    attention: AtomicU64,
    words: CpuCounters<4>,
}

/// A phase is not drained; `flip` if the other is still to be waited for.
#[derive(Debug)]
pub struct PendingDrain {
    phase: Phase,
    flip: bool,
}

impl SrcuReaders {
    pub fn new(site: &'static Location<'static>) -> Self {
        Self {
            shown: CachePadded::new(Shown {
                phase: AtomicU64::new(0),
                attention: AtomicU64::new(NO_PHASE),
                words: CpuCounters::new(),
            }),
            awaited: CachePadded::new(Futex::new(0)),
            closed: AtomicU64::new(0),
            sections_at_fork: AtomicU64::new(0),
            site,
            costs: CachePadded::new(Costs::new()),
        }
    }

    /// Begins a section; the phase that it belongs to.
    #[inline(always)]
    pub fn enter(&self) -> Phase {
        // Relaxed: any phase will do, see the module.
        let phase = Phase::of(self.shown.phase.load(Relaxed));
        // With a light fence; partner: fence A, the heavy one in `begin`.
        self.count(phase.entered());
        phase
    }

    /// Ends a section of `phase`, begun by any thread.
    #[inline(always)]
    pub fn leave(&self, phase: Phase) {
        // Releases the section; partner: the Acquire of the sum in `active_readers`. With a light fence; partner: fence B, the heavy one
        // in `sleep_for`.
        self.count(phase.left());
        // Relaxed: by the fences, see "Sleeping" (1).
        if self.shown.attention.load(Relaxed) == phase as u64 {
            self.count_down();
        }
    }

    /// Adds to a word of this CPU, and passes a light fence.
    #[inline(always)]
    fn count(&self, word: usize) {
        if self.shown.words.try_add(word, 1) {
            // A compiler fence is one, or this would have failed: see `prepare`.
            light_compiler_only();
        } else {
            self.count_slow(word);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_slow(&self, word: usize) {
        self.shown.words.add_slow(word, 1);
        light();
    }

    /// One section less to wait for; the last wakes the leader.
    #[cold]
    fn count_down(&self) {
        // Release: the section has been counted in `left`. Partner: the Acquire of the swap in `sleep_for`.
        let awaited = self.awaited.fetch_sub(ONE, Release);
        if count(awaited) == 1 {
            // Relaxed: carries nothing. Before the wake-up, for a leader who has looked, and does not sleep yet.
            step!("wake-up-not-published", self.awaited.fetch_add(1, Relaxed));
            // Relaxed, as everywhere in `costs`: statistics.
            self.costs.wakeups.fetch_add(1, Relaxed);
            step!("leader-not-woken", self.awaited.wake(1, ANYBODY));
            // Where threads outnumber CPUs, the leader may want this one.
            yield_now();
        }
    }

    /// Sections that are open in `phase`, if that is none. Otherwise roughly: there were at least as many between the sums as
    /// have not ended since.
    fn active_readers(&self, phase: Phase) -> u64 {
        let sum = |word| self.shown.words.sum(word);
        // In this order: see (1) in the module.
        let left = sum(phase.left());
        sum(phase.entered()).wrapping_sub(left)
    }

    /// Allocates the words, before the first section. False if there is no memory.
    ///
    /// Where a light fence is more than a compiler fence, sections are to take the slow way, on which they pass it.
    #[cfg(not(loom))]
    pub fn prepare(&self) -> bool {
        self.shown.words.prepare_for(crate::fence::backend() == crate::fence::Backend::Membarrier)
    }

    /// Sections that are open.
    #[cfg(not(loom))]
    pub fn sections(&self) -> [u64; 2] {
        [Phase::Even, Phase::Odd].map(|phase| self.active_readers(phase))
    }

    /// Lets new sections begin in the other phase. At any time, but by one thread at a time.
    pub fn flip(&self) {
        // Relaxed: only the leader writes it, and readers may see it late.
        self.shown.phase.store(self.shown.phase.load(Relaxed) ^ 1, Relaxed);
    }

    /// Looks until the phase is drained, a bounded number of times.
    fn check_zero(&self, phase: Phase, spins: &mut u32) -> bool {
        while self.active_readers(phase) != 0 {
            if *spins == 0 {
                return false;
            }
            *spins -= 1;
            spin_loop();
        }
        true
    }

    fn fence(&self) {
        self.costs.heavy_fences.fetch_add(1, Relaxed);
        heavy();
    }

    /// Sleeps until `phase` is drained.
    fn sleep_for(&self, phase: Phase, detector: &mut StallDetector<'_>) {
        let attention = Attention::to(phase, self);
        // B; a panic in it drops `attention`.
        step!("no-fence-before-sum", self.fence());
        loop {
            // Acquire: those whose countdown is swallowed here are in the sum; partner: the Release in `count_down`.
            self.awaited.swap(0, Acquire);
            let open = self.active_readers(phase);
            if open == 0 {
                break;
            }
            let more = open.min(MOST) * ONE;
            // Acquire: partner is the Release in `close`.
            let mut awaited = self.awaited.fetch_add(more, Acquire).wrapping_add(more);
            if self.is_closed() {
                break;
            }
            while count(awaited) > 0 {
                self.awaited.wait_timeout(awaited, ANYBODY, detector.next_report_in());
                // Acquire: the sum then contains those who counted down. Not needed for safety, as the leader looks
                // for himself; nor for liveness, as the swap acquires them too.
                awaited = self.awaited.load(Acquire);
                detector.check(|_| {
                    let sections_at_fork = self.sections_at_fork.load(Relaxed) != 0;
                    stall::open(self.active_readers(phase), self.site, sections_at_fork)
                });
            }
        }
        drop(attention);
    }

    /// There is no handle any more.
    pub fn close(&self) {
        // Release: all that was done through the handles; partner: the Acquire in `is_closed`.
        self.closed.store(1, Release);
        // Release: a leader who arms after this finds the domain closed; partner: the Acquire of the `fetch_add` in
        // `sleep_for`. One who has armed before is woken.
        // The lower half differs from what the leader may compare with, as nobody wakes so often.
        self.awaited.swap(u64::from(u32::MAX), Release);
        step!("close-does-not-wake", self.awaited.wake(1, ANYBODY));
    }

    fn is_closed(&self) -> bool {
        // Acquire: partner is the Release in `close`. A leader who looks too early sleeps, and is woken.
        self.closed.load(Acquire) != 0
    }

    /// Makes the readers those of a process that was forked when `sections` were open.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in no function of the queues or of this.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, sections: [u64; 2]) {
        self.sections_at_fork.store(sections[0] + sections[1], Relaxed);
        // No leader sleeps.
        self.shown.attention.store(NO_PHASE, Relaxed);
        self.awaited.store(0, Relaxed);
        // SAFETY: the caller's contract.
        unsafe {
            self.shown.words.reset_in_child([sections[0], sections[1], 0, 0]);
        }
    }
}

impl ReaderSet for SrcuReaders {
    /// Guards are not tied to a thread.
    type Reader = Infallible;
    type Pending = PendingDrain;

    /// Never known: guards are nobody's.
    fn no_other_readers(&self, _own: Option<&Infallible>) -> bool {
        false
    }

    fn try_drain(&self, _own: Option<&Infallible>) -> Result<(), PendingDrain> {
        if self.is_closed() {
            return Ok(());
        }
        // Relaxed: leaders come one after another.
        let busy = Phase::of(self.shown.phase.load(Relaxed));
        let idle = busy.other();
        let spins = &mut budget(SPINS);
        // A.
        step!("grace-period-unfenced", self.fence());
        step!(
            "idle-index-skipped",
            if !self.check_zero(idle, spins) {
                return Err(PendingDrain { phase: idle, flip: true });
            }
        );
        if self.active_readers(busy) == 0 {
            return Ok(());
        }
        self.flip();
        step!(
            "busy-index-skipped",
            if !self.check_zero(busy, spins) {
                return Err(PendingDrain { phase: busy, flip: false });
            }
        );
        Ok(())
    }

    fn wait_for_readers(&self, pending: PendingDrain, detector: &mut StallDetector<'_>) {
        self.costs.sleeps.fetch_add(1, Relaxed);
        self.sleep_for(pending.phase, detector);
        if pending.flip {
            let busy = pending.phase.other();
            self.flip();
            if !self.check_zero(busy, &mut budget(SPINS)) {
                self.sleep_for(busy, detector);
            }
        }
    }

    fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Open sections, as nobody is registered.
    fn count(&self) -> u64 {
        self.active_readers(Phase::Even) + self.active_readers(Phase::Odd)
    }
}

/// Somebody sleeps for a phase, or is about to.
struct Attention<'a>(&'a SrcuReaders);

impl<'a> Attention<'a> {
    fn to(phase: Phase, phases: &'a SrcuReaders) -> Self {
        // Relaxed: by fence B, see "Sleeping" (1).
        phases.shown.attention.store(phase as u64, Relaxed);
        Self(phases)
    }
}

impl Drop for Attention<'_> {
    fn drop(&mut self) {
        // Relaxed: who sees it late counts down in vain.
        self.0.shown.attention.store(NO_PHASE, Relaxed);
    }
}
