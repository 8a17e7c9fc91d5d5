//! SRCU readers: two index values, each with lock and unlock counters on each CPU.
//!
//! The readers of [`crate::srcu`], after the Linux kernel's sleepable RCU (`kernel/rcu/srcutree.c`). Fences are
//! asymmetric, as in its SRCU-fast, whose grace periods call `synchronize_rcu()` where these issue a heavy fence. A
//! section is counted where it begins, in `locks`, and where it ends, perhaps in another thread (the kernel's
//! `srcu_down_read()` and `srcu_up_read()`), in `unlocks`, each on the current CPU. So a grace period costs a few
//! loads for each CPU, however many sections are open.
//!
//! ```text
//! read_lock   idx = current index        read_unlock   unlocks[idx] += 1      (Release)
//!             locks[idx] += 1                          light fence
//!             light fence                              wake_request == idx?   then count down
//! ```
//!
//! # A grace period
//!
//! ```text
//! heavy fence A
//! wait until the idle index is drained     (a slow thread may have entered it lately)
//! flip                                     unless the busy index is drained as well
//! wait until the busy index is drained     (new sections enter the other index)
//! ```
//!
//! An index is *drained* when `U`, the sum of its `unlocks` over all CPUs, equals `L`, the sum of its `locks`, taken
//! after `U`. Neither sum is a snapshot of one moment.
//!
//! 1. *Each section in `U` is in `L`.* The guard orders a section's unlock after its lock, in whatever thread. The
//!    add to `unlocks` is a Release and the sum an Acquire, so the adds to `locks` of all sections in `U` happen
//!    before the sum `L`.
//! 2. *If `U` equals `L`, they contain the same sections*, by (1). So every section in `L` has ended, and happens
//!    before what follows the check.
//! 3. *Each section whose light fence precedes A is in `L`*: its add to `locks` precedes this fence, and the sum
//!    follows A. By (2) it has ended.
//! 4. *A section whose light fence follows A* sees what was unpublished before A: the grace period need not wait for
//!    it.
//!
//! This holds for each index by itself, and for every check after A. So a grace period is over when each index has
//! been found drained once, in any order, whatever flips happen in between. A thread that loaded the index before any
//! number of flips may enter the idle one: (3) and (4) hold for both. Counters of 64 bits do not wrap.
//!
//! *It terminates*, although new sections could keep the busy index from ever being drained: once a flip is visible
//! to a thread, its next section enters the other index. Until then it may enter the old one several times, as
//! nothing orders the relaxed store of the flip before the sums. (The kernel has full barriers around `srcu_flip()`,
//! and bounds these entries by them, as its counters may wrap.) Such entries delay the end, and cannot affect (1) to
//! (4). When the idle index is drained the two change places.
//!
//! # Sleeping
//!
//! The leader checks a bounded number of times. Then it stores the index in `wake_request`, issues heavy fence B, and
//! repeats this until the index is drained:
//!
//! ```text
//! awaited = 0               (swap)
//! active = locks - unlocks  (sums; 0: drained)
//! awaited += active
//! sleep while awaited > 0
//! ```
//!
//! A reader that leaves and finds its index in `wake_request` takes 1 off `awaited`; the reader that takes the last 1
//! wakes the leader. The count is the upper half of a futex word. The kernel compares the lower half, which only
//! wake-ups change, so readers that leave do not keep the leader from falling asleep.
//!
//! 1. *The leader does not sleep too long.* Take a section in `active`, counted in `locks` and not in `unlocks`. Had
//!    the light fence of its unlock preceded B, its add to `unlocks` would be in the sum. So that fence follows B,
//!    the reader sees `wake_request`, and it counts down. It does so after the swap, which would acquire an earlier
//!    countdown with its add to `unlocks`. So each section in `active` takes 1 off after the swap, and `awaited`
//!    reaches 0.
//! 2. *It may wake too early*, and `awaited` become negative, if a reader counts down that is not in `active`: it
//!    left while the leader summed, entered the index late, or was slow after the last grace period. The leader sums
//!    again, and sleeps again if need be, without another fence. There are no more such wake-ups than readers in
//!    these states; one wake-up a grace period is the rule.
//! 3. *Sections of the other index* do not count down.
//!
//! # Crowds
//!
//! Where readers outnumber CPUs, those of the other index run for whole time slices before the sections that the
//! leader sleeps for: see "Crowds" in [`crate::readers::sections::scan`]. There the leader asks the threads that are
//! registered to yield. Here only sections are known, of which a task may hold a thousand that no thread is running:
//! yields would stop executors, and no thread would need the CPU. So only the reader that wakes the leader yields.

use core::num::NonZeroU32;
use core::panic::Location;

use crate::fence::{light, light_compiler_only};
use crate::grace_period::counters::GpCounters;
use crate::grace_period::detector::StallDetector;
use crate::grace_period::engine::{Leader, ReaderSet};
use crate::grace_period::stall::StalledReaders;
use crate::percpu::cpu_counters::CpuCounters;
use crate::probes::DomainId;
use crate::readers::awaited_reader_leaves;
use crate::readers::sections::reader::Reader;
#[cfg(feature = "section-locations")]
use crate::readers::sections::section_sites::SectionSites;
use crate::sync::{
    AtomicU32, AtomicU64, Futex, Ordering::*, budget, has_normal_policy, spin_loop, step, yield_now,
};

/// How often a grace period checks an index that is not drained before it sleeps.
const SPINS: u32 = 100;

/// A section in the upper half of `awaited`.
const ONE: u64 = 1 << 32;
/// The most sections that `awaited` can count. If there are more, the leader wakes early.
const MAX_AWAITED: u64 = i32::MAX as u64;

/// Returns the count in `awaited`. The leader sleeps while it is positive.
fn count(awaited: u64) -> i32 {
    (awaited >> 32) as i32
}

/// An index. Its value is also the number of its counter of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idx {
    Zero,
    One,
}

/// In place of an index: the leader does not sleep.
const NO_IDX: u32 = 2;

impl Idx {
    #[inline(always)]
    pub fn of(word: u64) -> Self {
        if word & 1 == 0 { Self::Zero } else { Self::One }
    }

    fn other(self) -> Self {
        Self::of(self as u64 + 1)
    }

    #[inline(always)]
    fn locks(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn unlocks(self) -> usize {
        2 + self as usize
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct SrcuReaders {
    reader_line: ReaderLine,
    /// The count of sections that the leader sleeps for, in two's complement, above a number that each wake-up
    /// changes.
    awaited: Futex,
    /// Where the domain was made.
    site: &'static Location<'static>,
    #[cfg(feature = "section-locations")]
    pub sites: SectionSites,
    counters: GpCounters,
}

/// What readers load, and leaders seldom store: a cache line. (Not two, as in
/// [`CachePadded`](crate::sync::CachePadded): there may be many domains.)
#[derive(Debug)]
#[repr(align(64))]
struct ReaderLine {
    /// The current index, in bit 0.
    idx: AtomicU64,
    /// The index that the leader sleeps for, or [`NO_IDX`].
    wake_request: AtomicU32,
    /// 1 if sections were open when this process was forked.
    has_inherited: AtomicU32,
    words: CpuCounters<4>,
}

const _: () = assert!(cfg!(loom) || size_of::<ReaderLine>() == 64);

/// `idx` is not drained. If `flip`, the other index is to be drained after it.
#[derive(Debug, Clone, Copy)]
struct PendingDrain {
    idx: Idx,
    flip: bool,
}

impl SrcuReaders {
    pub fn new(site: &'static Location<'static>) -> Self {
        let (idx, wake_request) = (AtomicU64::new(0), AtomicU32::new(NO_IDX));
        let (has_inherited, words) = (AtomicU32::new(0), CpuCounters::new());
        Self {
            reader_line: ReaderLine { idx, wake_request, has_inherited, words },
            awaited: Futex::new(0),
            site,
            #[cfg(feature = "section-locations")]
            sites: SectionSites::new(),
            counters: GpCounters::new(),
        }
    }

    /// Begins a section. Returns its index.
    #[inline(always)]
    pub fn read_lock(&self) -> Idx {
        // Relaxed: either index will do.
        let idx = Idx::of(self.reader_line.idx.load(Relaxed));
        // Light fence: pairs with heavy fence A, in `try_drain`.
        self.add(idx.locks());
        idx
    }

    /// Ends a section of `idx`, which any thread may have begun.
    #[inline(always)]
    pub fn read_unlock(&self, idx: Idx) {
        // Release: publishes the section; pairs with the Acquire of the sum in `active_readers`. Light fence: pairs
        // with heavy fence B, in `sleep_for`.
        self.add(idx.unlocks());
        // Relaxed: the fences order it, see "Sleeping" (1).
        if self.reader_line.wake_request.load(Relaxed) == idx as u32 {
            self.count_down();
        }
    }

    /// Adds 1 to a word of this CPU, with Release, and executes a light fence.
    #[inline(always)]
    fn add(&self, word: usize) {
        if self.reader_line.words.try_add(word, 1) {
            // A compiler fence is a light fence here, or `try_add` would have failed: see `prepare`.
            light_compiler_only();
        } else {
            self.add_slow(word);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_slow(&self, word: usize) {
        self.reader_line.words.add_slow(word, 1);
        light();
    }

    /// Counts a section as ended for the leader that sleeps. The last one wakes it.
    #[cold]
    fn count_down(&self) {
        awaited_reader_leaves(DomainId::of(self));
        // Release: publishes the add to `unlocks`; pairs with the Acquire of the swap in `sleep_for`.
        let awaited = self.awaited.fetch_sub(ONE, Release);
        if count(awaited) == 1 {
            // Relaxed: carries nothing. Before the wake-up, for a leader that is about to sleep.
            step!("wake-up-not-published", self.awaited.fetch_add(1, Relaxed));
            self.counters.wakeups.fetch_add(1, Relaxed);
            step!("leader-not-woken", self.awaited.wake(1, NonZeroU32::MAX));
            // Where threads outnumber CPUs, the leader may need this one. With a real-time policy a yield takes long.
            if has_normal_policy() {
                yield_now();
            }
        }
    }

    /// Returns 0 only if the index is drained. Otherwise an estimate: at least the sections that were open between
    /// the sums and have not ended since.
    fn active_readers(&self, idx: Idx) -> u64 {
        let sum = |word| self.reader_line.words.sum(word);
        // In this order: see (1) in the module.
        let unlocks = sum(idx.unlocks());
        sum(idx.locks()).wrapping_sub(unlocks)
    }

    /// Allocates the counters, before the first section. Returns `false` if there is no memory.
    ///
    /// Where a light fence is more than a compiler fence, readers then always take the slow path, which executes it.
    #[cfg(not(loom))]
    pub fn prepare(&self) -> bool {
        self.reader_line
            .words
            .prepare_for(crate::fence::report().backend() == crate::fence::Backend::Membarrier)
    }

    /// Returns where the domain was made.
    #[cfg(feature = "statistics-page")]
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// Returns the number of open sections of each index.
    pub fn sections(&self) -> [u64; 2] {
        [self.active_readers(Idx::Zero), self.active_readers(Idx::One)]
    }

    /// Returns where open sections began, and how many there, if that is recorded.
    pub fn begun_at(&self) -> Vec<(&'static Location<'static>, u64)> {
        #[cfg(feature = "section-locations")]
        return self.sites.open();
        #[cfg(not(feature = "section-locations"))]
        Vec::new()
    }

    /// Makes new sections enter the other index. At any time, but by one thread at a time.
    pub fn flip(&self) {
        // Relaxed: only the leader stores it, and readers may see it late.
        self.reader_line.idx.store(self.flips().wrapping_add(1), Relaxed);
    }

    /// Returns how often the index has been flipped. Its lowest bit is the index that sections enter.
    fn flips(&self) -> u64 {
        // Relaxed: as in `flip`.
        self.reader_line.idx.load(Relaxed)
    }

    /// Checks until the index is drained, a bounded number of times. Returns `true` if it is.
    fn check_zero(&self, idx: Idx, spins: &mut u32) -> bool {
        while self.active_readers(idx) != 0 {
            if *spins == 0 {
                return false;
            }
            *spins -= 1;
            spin_loop();
        }
        true
    }

    /// Sleeps until `idx` is drained.
    fn sleep_for(&self, idx: Idx, detector: &mut StallDetector<'_>) {
        // Relaxed: fence B orders it, see "Sleeping" (1).
        self.reader_line.wake_request.store(idx as u32, Relaxed);
        let _request = WakeRequest(&self.reader_line.wake_request);
        // B.
        step!("no-fence-before-sum", self.counters.heavy_fence());
        loop {
            // Acquire: the sum contains the sections whose countdown is dropped here; pairs with the Release in
            // `count_down`.
            self.awaited.swap(0, Acquire);
            let active = self.active_readers(idx);
            if active == 0 {
                break;
            }
            detector.will_wait_for(|| 0, active);
            let more = active.min(MAX_AWAITED) * ONE;
            // Relaxed: the swap acquires.
            let mut awaited = self.awaited.fetch_add(more, Relaxed).wrapping_add(more);
            while count(awaited) > 0 {
                self.awaited.wait_timeout(awaited, NonZeroU32::MAX, detector.next_report_in());
                awaited = self.awaited.load(Relaxed);
                detector.check(&|_| self.stalled_sections(idx).map(|(sections, _)| sections));
            }
        }
    }

    /// Returns what a report says about the open sections of `idx`, and their number, if there are any.
    fn stalled_sections(&self, idx: Idx) -> Option<(StalledReaders, u64)> {
        let count = self.active_readers(idx);
        let inherited = self.reader_line.has_inherited.load(Relaxed) != 0;
        (count != 0).then(|| {
            let begun_at = self.begun_at();
            (StalledReaders::Sections { count, begun_at, site: self.site, inherited }, count)
        })
    }

    /// Returns what blocks the grace period, if anything seems to, without fences: before an attempt that many have
    /// preceded in vain. A section that has just ended may still seem open, so this is no reason to sleep.
    fn look(&self) -> Option<PendingDrain> {
        let idle = Idx::of(self.flips()).other();
        (self.active_readers(idle) != 0).then_some(PendingDrain { idx: idle, flip: true })
    }

    /// Completes the grace period, unless a section still blocks it.
    fn try_drain(&self) -> Result<(), PendingDrain> {
        // Relaxed: only leaders store it, one after another.
        let busy = Idx::of(self.reader_line.idx.load(Relaxed));
        let idle = busy.other();
        let spins = &mut budget(SPINS);
        // A.
        step!("grace-period-unfenced", self.counters.heavy_fence());
        step!(
            "idle-index-skipped",
            if !self.check_zero(idle, spins) {
                return Err(PendingDrain { idx: idle, flip: true });
            }
        );
        if self.active_readers(busy) == 0 {
            return Ok(());
        }
        self.flip();
        step!(
            "busy-index-skipped",
            if !self.check_zero(busy, spins) {
                return Err(PendingDrain { idx: busy, flip: false });
            }
        );
        Ok(())
    }

    /// Completes the grace period, after [`try_drain`](Self::try_drain), unless a section still blocks it.
    fn check_again(&self, pending: PendingDrain) -> Result<(), PendingDrain> {
        let spins = &mut budget(SPINS);
        if !self.check_zero(pending.idx, spins) {
            return Err(pending);
        }
        if pending.flip {
            let busy = pending.idx.other();
            self.flip();
            if !self.check_zero(busy, spins) {
                return Err(PendingDrain { idx: busy, flip: false });
            }
        }
        Ok(())
    }

    /// Sleeps until no section blocks the grace period.
    fn wait_for_readers(&self, pending: PendingDrain, detector: &mut StallDetector<'_>) {
        self.counters.sleeps.fetch_add(1, Relaxed);
        self.sleep_for(pending.idx, detector);
        if pending.flip {
            let busy = pending.idx.other();
            self.flip();
            if !self.check_zero(busy, &mut budget(SPINS)) {
                self.sleep_for(busy, detector);
            }
        }
    }

    /// Resets the readers in the child of a fork, at which `sections` were open.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside another function of this
    /// module.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, sections: [u64; 2]) {
        self.reader_line.has_inherited.store((sections != [0; 2]).into(), Relaxed);
        // No leader sleeps.
        self.reader_line.wake_request.store(NO_IDX, Relaxed);
        self.awaited.store(0, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.reader_line.words.reset_in_child([sections[0], sections[1], 0, 0]) };
    }
}

impl ReaderSet for SrcuReaders {
    /// Guards are not tied to a thread.
    type Reader = Reader;

    fn no_other_readers(&self, _own: Option<&Reader>) -> bool {
        false
    }

    fn drain(&self, _own: Option<&Reader>, leader: &mut Leader<'_>) -> bool {
        let blocked = leader.tries_again().then(|| self.look()).flatten();
        let mut drained = blocked.map_or_else(|| self.try_drain(), Err);
        while let Err(pending) = drained {
            if blocked.is_some() || !leader.pause() {
                // A leader flips the index when the other one is drained, so what an earlier attempt waited for.
                let flips = self.flips();
                leader.check(&self.counters, flips, &|earlier| flips != earlier, &|_| {
                    self.stalled_sections(pending.idx).map(|(stalled, _)| stalled)
                });
                break;
            }
            drained = self.check_again(pending);
        }
        match drained {
            Ok(()) => true,
            Err(pending) => leader.sleep(&self.counters, |detector| self.wait_for_readers(pending, detector)),
        }
    }

    #[cfg(feature = "statistics-page")]
    fn awaited_readers(&self, most: usize) -> Option<(StalledReaders, u64)> {
        // Relaxed: for statistics only.
        let idx = self.reader_line.wake_request.load(Relaxed);
        let sections = (idx != NO_IDX).then(|| self.stalled_sections(Idx::of(idx.into()))).flatten();
        sections.map(|(mut sections, count)| {
            if let StalledReaders::Sections { begun_at, .. } = &mut sections {
                begun_at.truncate(most);
            }
            (sections, count)
        })
    }

    fn is_any_inside(&self) -> bool {
        self.count() != 0
    }

    fn counters(&self) -> &GpCounters {
        &self.counters
    }

    /// Returns the number of open sections, as there is no registry.
    fn count(&self) -> u64 {
        self.sections().iter().sum()
    }
}

/// A leader's request to be woken. Withdrawn when dropped, also if fence B panics.
struct WakeRequest<'a>(&'a AtomicU32);

impl Drop for WakeRequest<'_> {
    fn drop(&mut self) {
        // Relaxed: a reader that sees this late counts down for nothing.
        self.0.store(NO_IDX, Relaxed);
    }
}
