//! Grace periods: one heavy fence, one scan, at most one sleep.
//!
//! A *grace period* is over when every section that was open when it began has ended. Whoever unpublishes a value and then
//! sees a grace period begin and end may free it. This is the engine of [`crate::rcu`]; its readers are in
//! [`super::reader`], the callers who share a grace period in [`crate::sequence`].
//!
//! # A grace period
//!
//! ```text
//! begin         the turn is taken: who asks from now on waits for the next one   (Sequence::begin)
//! heavy fence   A
//! counter += 1
//! scan          wait until each reader is quiescent or shows the new counter     (Reader::blocks)
//! finish        and wake                                                         (Lead::finish)
//! ```
//!
//! # Why one fence and one pass suffice
//!
//! Take a value that was unpublished before the caller asked, and a section that may have read it. Asking and beginning
//! order the unpublishing before A (see [`crate::sequence`]). The reader's light fence lies between its store of `state`
//! and its load of the pointer, and A orders the two in one of two ways.
//!
//! 1. *The light fence came first.* Then the store of `state` is visible to the scan, which sees it or a later store of
//!    the same reader. The value stored was loaded from the counter before A, hence before the counter was raised: it is
//!    smaller than the new one, so the scan waits until it sees a later store. That store, a leave or an entry, is a
//!    Release, and the scan an Acquire: the section happens before the end of the grace period.
//! 2. *A came first.* Then the load of the pointer sees the unpublishing: the section did not read the value.
//!
//! A section that shows the new counter loaded it after A, since the counter was raised after A: case 2, so the scan may
//! pass it. Was the counter raised before A, a reader could show the new counter in case 1, and be passed. The counter
//! never wraps, so no second pass is needed to tell an old section from a new one.
//!
//! A reader whose thread registers after [`Registry::others`] found nobody is in case 2 by that order, without a fence.
//!
//! # Sleeping
//!
//! The scan looks a bounded number of times at readers that block it. Then it sets `AWAITED` on them, issues heavy fence B,
//! takes back the request of those that have left meanwhile, and sleeps on `awaited`. A reader that leaves and sees
//! `AWAITED` counts down; the last wakes the sleeper. By B, either the reader sees `AWAITED` or the leader sees that it has
//! left.
//!
//! 1. Each request is taken exactly once, by the reader or by the leader, so `awaited` is the number of requests out,
//!    plus one for the leader until it sleeps. A reader that was late with the wake-up of the grace period before may end
//!    the sleep: the leader goes by the number.
//! 2. When `awaited` is 0 no request is out, and nobody touches it before the next leader does.
//! 3. A reader takes a request after the section that it was for, and the leader takes it back after seeing the reader
//!    outside. Whichever it was, what the reader does later comes after A, by the release and acquire of the request: case
//!    2, even if it then shows the old counter, which it may have loaded long before. So nobody is looked at again: one
//!    sleep and one wake-up a grace period, however many readers.
//!
//! The counting down is a chain of read-modify-writes with release, and the sleeper's look at it acquires: the sections of
//! all who were awaited happen before the end of the grace period.
//!
//! A sleep that lasts too long is reported, with the names of those it waits for: see [`super::stall`].
//!
//! # Threads that end inside a section
//!
//! A leaked guard may have lent a reference for ever, so its section must never end. Once its thread has gone no grace
//! period can be completed any more: [`Orphaned`] says so instead of waiting for ever; at once, if the thread ended before
//! the leader sets out to sleep.

use core::cmp;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::num::NonZeroU32;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::check::{Check, Ticket};
use super::reader::{AWAITED, ORPHANED, Reader};
use super::registry::Registry;
use super::stall::Watch;
use crate::sequence::{Sequence, Target};
use crate::sync::{
    AtomicU64, Futex, Ordering::*, budget, const_unless_loom, heavy, mutant, spin_loop, weaken, yield_now,
};

/// How often a grace period looks at readers that block it before it sleeps.
const SPINS: u32 = 200;

const ANYBODY: NonZeroU32 = NonZeroU32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub struct Engine {
    /// What readers show that entered now. Starts at 1, as 0 means quiescent.
    counter: CachePadded<AtomicU64>,
    /// The grace periods.
    turns: CachePadded<Sequence>,
    /// Readers the leader sleeps for.
    awaited: CachePadded<Futex>,
    registry: Registry,
    /// Shows that nobody is served too early.
    check: Check,
    /// The name of the domain, for reports.
    domain: fn() -> &'static str,
    tallies: CachePadded<Tallies>,
}

/// Counts of what happened; written by leaders and by readers that were awaited.
#[derive(Debug)]
struct Tallies {
    callers: AtomicU64,
    heavy_fences: AtomicU64,
    sleeps: AtomicU64,
    wakeups: AtomicU64,
    stalls: AtomicU64,
    /// Nanoseconds; written by the leader.
    longest_wait: AtomicU64,
}

/// Counters of grace periods, part of [`Stats`](super::Stats), which explains them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub grace_periods: u64,
    pub callers: u64,
    pub heavy_fences: u64,
    pub sleeps: u64,
    pub wakeups: u64,
    pub longest_wait: Duration,
    pub stalls: u64,
    pub checked: u64,
    pub readers: u64,
}

/// A thread ended inside a section: no grace period of the domain can be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orphaned;

/// What [`Engine::attend`] has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Healed {
    /// Nothing of the kind.
    No,
    /// A thread that ended inside a section, whose guard has been dropped at last.
    Yes,
}

/// A grace period to wait for, or to ask after. Of two, the smaller one ends no later.
#[derive(Clone, Copy)]
pub struct Due {
    target: Target,
    ticket: Ticket,
}

impl fmt::Debug for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.target.cmp(&other.target)
    }
}

impl Hash for Due {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.target.hash(state);
    }
}

/// A grace period, with counter `counter`, that the reader `first` blocks, and perhaps others below `end`.
struct Blocked {
    first: usize,
    end: usize,
    counter: u64,
}

impl Engine {
    const_unless_loom! {
        pub fn new(domain: fn() -> &'static str) -> Self {
            Self {
                counter: CachePadded::new(AtomicU64::new(1)),
                turns: CachePadded::new(Sequence::new()),
                awaited: CachePadded::new(Futex::new(0)),
                registry: Registry::new(),
                check: Check::new(),
                domain,
                tallies: CachePadded::new(Tallies {
                    callers: AtomicU64::new(0),
                    heavy_fences: AtomicU64::new(0),
                    sleeps: AtomicU64::new(0),
                    wakeups: AtomicU64::new(0),
                    stalls: AtomicU64::new(0),
                    longest_wait: AtomicU64::new(0),
                }),
            }
        }
    }

    /// What readers store on entering.
    #[inline(always)]
    pub fn counter(&self) -> &AtomicU64 {
        &self.counter
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn tally(&self) -> Tally {
        // Relaxed, as everywhere in `tallies`: statistics.
        Tally {
            // First, so that no grace period is counted whose caller is not.
            grace_periods: self.turns.completed(),
            callers: self.tallies.callers.load(Relaxed),
            heavy_fences: self.tallies.heavy_fences.load(Relaxed),
            sleeps: self.tallies.sleeps.load(Relaxed),
            wakeups: self.tallies.wakeups.load(Relaxed),
            longest_wait: Duration::from_nanos(self.tallies.longest_wait.load(Relaxed)),
            stalls: self.tallies.stalls.load(Relaxed),
            checked: self.check.passed(),
            readers: self.registry.len() as u64,
        }
    }

    /// Waits until every section that is open now has ended. `own` is the calling thread's reader, which is outside.
    pub fn synchronize(&self, own: Option<&Reader>) -> Result<(), Orphaned> {
        self.wait_for(own, self.ask())
    }

    /// The grace period that every section which is open now ends before.
    pub fn ask(&self) -> Due {
        // In this order: see `Check`.
        let ticket = self.check.ticket();
        Due { target: self.turns.ask(), ticket }
    }

    /// Whether the grace period has ended.
    #[inline]
    pub fn is_done(&self, due: Due) -> bool {
        let done = self.turns.is_done(due.target);
        if done {
            self.check.served(due.ticket);
        }
        done
    }

    /// Waits until the grace period has ended. `own` is the calling thread's reader, which is outside.
    pub fn wait_for(&self, own: Option<&Reader>, due: Due) -> Result<(), Orphaned> {
        self.wait_with(own, due, heavy)
    }

    /// [`wait_for`](Self::wait_for), without interrupting other CPUs.
    #[cfg(not(loom))]
    pub fn wait_quietly(&self, own: Option<&Reader>, due: Due) -> Result<(), Orphaned> {
        self.wait_with(own, due, crate::fence::heavy_without_interrupts)
    }

    fn wait_with(&self, own: Option<&Reader>, due: Due, heavy: fn()) -> Result<(), Orphaned> {
        self.tallies.callers.fetch_add(1, Relaxed);
        self.turns.wait_for(due.target, || self.grace_period(own, heavy))?;
        self.check.served(due.ticket);
        Ok(())
    }

    /// Waits until the next grace period has ended, for others who want one. `own` as in [`wait_for`](Self::wait_for).
    #[cfg(not(loom))]
    pub fn drive(&self, own: Option<&Reader>) -> Result<(), Orphaned> {
        self.tallies.callers.fetch_add(1, Relaxed);
        self.turns.wait_for(self.turns.next(), || self.grace_period(own, heavy))
    }

    /// Completes a grace period, if nobody else is at it, no reader blocks it for long, and, unless it may `fence`, no other
    /// thread is registered. The calling thread, whose reader is `own`, is outside.
    pub fn try_synchronize(&self, own: &Reader, fence: bool) -> bool {
        self.turns.try_lead(|| {
            let number = self.check.begin();
            let ended = self.begin(Some(own), fence.then_some(heavy)).is_ok();
            if ended {
                self.check.end(number);
            }
            ended
        })
    }

    /// Leads a grace period, whose heavy fences are `heavy`.
    fn grace_period(&self, own: Option<&Reader>, heavy: fn()) -> Result<(), Orphaned> {
        let number = self.check.begin();
        self.begin(own, Some(heavy)).or_else(|blocked| self.sleep(blocked, heavy))?;
        self.check.end(number);
        Ok(())
    }

    /// The part of a grace period that does not sleep; what blocks the rest: a reader, or a heavy fence that is not to be.
    fn begin(&self, own: Option<&Reader>, heavy: Option<fn()>) -> Result<(), Blocked> {
        if self.registry.others(own) == 0 {
            // No section of another thread is open that began before: see the registry's orderings.
            return Ok(());
        }
        let counter = self.counter.load(Relaxed) + 1;
        let Some(heavy) = heavy else { return Err(Blocked { first: 0, end: 0, counter }) };
        if mutant("counter-before-fence") {
            self.counter.store(counter, Relaxed);
        }
        if !mutant("no-fence") {
            self.fence(heavy);
        }
        // Relaxed, and after the fence: see "Why one fence and one pass suffice".
        self.counter.store(counter, Relaxed);

        let end = self.registry.len();
        let first = self.scan(end, counter);
        if first == end { Ok(()) } else { Err(Blocked { first, end, counter }) }
    }

    fn fence(&self, heavy: fn()) {
        self.tallies.heavy_fences.fetch_add(1, Relaxed);
        heavy();
    }

    /// Looks at the readers, one after another; the first that blocks the grace period after a bounded number of looks.
    fn scan(&self, end: usize, counter: u64) -> usize {
        let mut spins = budget(SPINS);
        for (index, reader) in self.registry.readers(0, end).enumerate() {
            while reader.blocks(counter) {
                if spins == 0 {
                    return index;
                }
                spins -= 1;
                spin_loop();
            }
        }
        end
    }

    /// Sleeps until all readers from `first` on that block the grace period have left.
    #[cold]
    fn sleep(&self, blocked: Blocked, heavy: fn()) -> Result<(), Orphaned> {
        let Blocked { first, end, counter } = blocked;
        let mut watch = Watch::begin();
        let readers = || self.registry.readers(first, end);
        let orphaned = || readers().any(|reader| reader.is_orphaned() && reader.blocks(counter));
        if orphaned() {
            return Err(Orphaned);
        }
        // Relaxed: no request is out (invariant 2).
        self.awaited.store(1, Relaxed);
        for reader in readers().filter(|reader| reader.blocks(counter)) {
            self.awaited.fetch_add(1, Relaxed);
            reader.await_exit();
        }
        if !mutant("no-fence-before-rescan") {
            let requests = Requests { engine: self, first, end };
            self.fence(heavy);
            core::mem::forget(requests);
        }
        for reader in readers() {
            let gone = !reader.blocks(counter) && !mutant("no-rescan");
            // A thread that ended inside a section before we asked will never answer.
            let lost = reader.is_orphaned() && !mutant("orphan-not-taken-back");
            if (gone || lost) && reader.take_awaited() {
                self.awaited.fetch_sub(1, Relaxed);
            }
        }

        // The leader's own share. Acquire, here and below: all who counted down have left, and what they did before comes
        // before what we do next. Partner: the Release in `count_down`.
        let acquire = weaken(Acquire, "wake-up-relaxed");
        let mut left = self.awaited.fetch_sub(1, acquire) - 1;
        if left != 0 {
            self.tallies.sleeps.fetch_add(1, Relaxed);
        }
        while left != 0 {
            self.awaited.wait_timeout(left, ANYBODY, watch.patience());
            left = self.awaited.load(acquire);
            self.note_wait(&mut watch, readers());
        }
        if orphaned() { Err(Orphaned) } else { Ok(()) }
    }

    /// Keeps the longest wait, and reports those of `readers` that are awaited still, when it is time; called by the leader.
    fn note_wait(&self, watch: &mut Watch, readers: impl Iterator<Item = &'static Reader>) {
        let waited = watch.waited();
        let nanoseconds = waited.as_nanos() as u64;
        if nanoseconds > self.tallies.longest_wait.load(Relaxed) {
            self.tallies.longest_wait.store(nanoseconds, Relaxed);
        }
        let grace_period = self.turns.completed() + 1;
        if let Some(stall) = watch.stall(waited, (self.domain)(), grace_period, readers) {
            self.tallies.stalls.fetch_add(1, Relaxed);
            stall.report();
        }
    }

    /// One reader less to wait for; the last wakes the leader.
    fn count_down(&self) {
        // Release: the reader's sections, and its mark if it is an orphan, come before the leader's end of the grace
        // period. Partner: the Acquire in `sleep`.
        let left = self.awaited.fetch_sub(1, weaken(Release, "count-down-relaxed")) - 1;
        if left == 0 && !mutant("no-wake-up") {
            self.tallies.wakeups.fetch_add(1, Relaxed);
            self.awaited.wake(1, ANYBODY);
        }
        // Where threads outnumber CPUs, those we kept waiting, the leader or readers still inside, may want this one.
        yield_now();
    }

    /// The slow way out of a section; whether it was the one that kept grace periods from being completed. Taken when [`Reader::leave`] says so.
    #[cold]
    pub fn attend(&self, reader: &'static Reader) -> Healed {
        #[cfg(not(loom))]
        if reader.attention.load(Relaxed) & super::reader::FENCED != 0 {
            // The light fence of `Reader::look`, for a thread in which a compiler fence is none.
            crate::fence::light();
        }
        let attention = reader.attention.load(Relaxed);
        if attention & AWAITED != 0 && reader.take_awaited() {
            self.count_down();
        }
        if attention & ORPHANED != 0 && !reader.is_inside() {
            // The guard was not leaked after all: a late thread-local destructor dropped it.
            reader.adopt();
            self.registry.release(reader);
            return Healed::Yes;
        }
        Healed::No
    }

    /// Takes leave of a reader whose thread ends. False if it ends inside a section, which then stays open for ever.
    pub fn part(&self, reader: &'static Reader) -> bool {
        if !reader.is_inside() {
            self.registry.release(reader);
            return true;
        }
        reader.orphan();
        // A request made before is answered, so that the leader wakes and finds the mark; one made later is taken back by
        // its maker, who sees the mark, as it is in the same word.
        if !mutant("orphan-does-not-answer") && reader.take_awaited() {
            self.count_down();
        }
        false
    }

    /// Makes the engine that of a process with one thread, whose reader is `own`; its sections stay open.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in no function of a reader's queue.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, own: Option<&'static Reader>) {
        self.turns.reset_in_child();
        // SAFETY: the caller's contract.
        unsafe { self.registry.reset_in_child(own) };
    }
}

/// Requests that are out while fence B is issued. Dropped if that panics: all are taken back, so that invariant 2 holds for
/// the next leader.
struct Requests<'a> {
    engine: &'a Engine,
    first: usize,
    end: usize,
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        let awaited = &self.engine.awaited;
        for reader in self.engine.registry.readers(self.first, self.end) {
            if reader.take_awaited() {
                awaited.fetch_sub(1, Relaxed);
            }
        }
        // Readers that took theirs are about to count down.
        while awaited.load(Acquire) != 1 {
            yield_now();
        }
    }
}
