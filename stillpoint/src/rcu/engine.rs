//! Grace periods: callers who share them, their leader, and what he waits for.
//!
//! A *grace period* is over when every section that was open when it began has ended. Whoever unpublishes a value and then
//! sees a grace period begin and end may free it. There is one engine, and it asks little of the [`Readers`] it waits for:
//!
//! | readers | where | how they are waited for |
//! |---|---|---|
//! | threads that enter and leave sections | [`super::threads`] | a heavy fence and a look at each |
//! | threads that report quiescent states | [`super::reports`] | a look at each |
//!
//! # A grace period
//!
//! ```text
//! begin         the round starts: callers from now on wait for the next one        (SharedSeq::start)
//! look          whatever can be done without sleeping                            (Readers::begin)
//! sleep         until the rest has left; long sleeps are reported                (Readers::sleep, Vigil)
//! finish        and wake                                                         (Leader::end)
//! ```
//!
//! Asking and beginning order everything that the caller did before, unpublishing above all, before [`Readers::begin`]; what
//! that and [`Readers::sleep`] have acquired happens before the return of all callers (see [`crate::sync::shared_seq`]). One grace
//! period begins after the other has ended, so `begin` and `sleep` are never called by two threads at a time.

use core::cmp;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::check::{Check, Ticket};
use super::events::{Begun, Ended};
use super::queue::Queue;
use super::reader::Reader;
use super::stall::{Blockers, Watch};
use crate::sync::shared_seq::{SeqSnapshot, SharedSeq};
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// Who is waited for: one kind of reader.
pub trait Readers {
    /// What is known of a grace period that does not end at once.
    type Blocked;

    /// Whether nobody but `own`, the calling thread's reader if readers belong to threads, can be inside a section: a grace
    /// period then costs nothing.
    fn is_alone(&self, own: Option<&Reader>) -> bool;

    /// The part of a grace period that does not sleep: a bounded look at all who may be inside. `own` is the calling thread's
    /// reader, which is outside.
    ///
    /// # Errors
    ///
    /// What blocks the rest.
    fn begin(&self, own: Option<&Reader>) -> Result<(), Self::Blocked>;

    /// Sleeps until what blocks the grace period has gone. After each sleep `vigil` must be told.
    fn sleep(&self, blocked: Self::Blocked, vigil: &mut Vigil<'_>) -> Result<(), Orphaned>;

    /// The calling thread, whose reader is `own`, has put off its bookkeeping because it is inside a section: has it take the slow
    /// way out of the outermost one. `above`: more waits than should.
    fn defer_to_exit(&self, _own: Option<&Reader>, _above: bool) {}

    /// How many queues there are for what readers have deferred. Never less than before.
    fn queues(&self) -> usize;

    /// The queue with this index, which is below some value of [`queues`](Self::queues).
    fn queue(&self, index: usize) -> &Queue;

    /// What it has cost.
    fn costs(&self) -> &Costs;

    /// How many readers there is room for.
    fn count(&self) -> u64;
}

/// See the [module](self).
#[derive(Debug)]
pub struct Engine<R> {
    readers: R,
    /// The grace periods.
    rounds: CachePadded<SharedSeq>,
    /// Shows that nobody is served too early.
    check: Check,
    /// The name of the domain, for reports.
    domain: fn() -> &'static str,
    tallies: CachePadded<Tallies>,
}

/// Counts of what happened; written by callers and leaders.
#[derive(Debug)]
struct Tallies {
    callers: AtomicU64,
    stalls: AtomicU64,
    /// Nanoseconds; written by the leader.
    longest_wait: AtomicU64,
}

/// Counts of what readers and leaders did; written by the [`Readers`].
#[derive(Debug)]
pub struct Costs {
    pub heavy_fences: AtomicU64,
    pub sleeps: AtomicU64,
    pub wakeups: AtomicU64,
}

impl Costs {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                heavy_fences: AtomicU64::new(0),
                sleeps: AtomicU64::new(0),
                wakeups: AtomicU64::new(0),
            }
        }
    }
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

/// A section will never end: no grace period of the domain can be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orphaned;

/// A grace period to wait for, or to ask after. Of two, the smaller one ends no later.
#[derive(Clone, Copy)]
pub struct Due {
    snapshot: SeqSnapshot,
    ticket: Ticket,
}

impl fmt::Debug for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot.fmt(f)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot
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
        self.snapshot.cmp(&other.snapshot)
    }
}

impl Hash for Due {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snapshot.hash(state);
    }
}

impl<R> Engine<R> {
    const_unless_loom! {
        pub fn new(readers: R, domain: fn() -> &'static str) -> Self {
            Self {
                readers,
                rounds: CachePadded::new(SharedSeq::new()),
                check: Check::new(),
                domain,
                tallies: CachePadded::new(Tallies {
                    callers: AtomicU64::new(0),
                    stalls: AtomicU64::new(0),
                    longest_wait: AtomicU64::new(0),
                }),
            }
        }
    }

    #[inline(always)]
    pub fn readers(&self) -> &R {
        &self.readers
    }

    /// The grace period that every section which is open now ends before.
    pub fn ask(&self) -> Due {
        // In this order: see `Check`.
        let ticket = self.check.ticket();
        Due { snapshot: self.rounds.snapshot(), ticket }
    }

    /// Whether the grace period has ended.
    #[inline]
    pub fn is_done(&self, due: Due) -> bool {
        let done = self.rounds.is_done(due.snapshot);
        if done {
            self.check.served(due.ticket);
        }
        done
    }

    /// The grace period that is under way, if one is. It serves those only that have asked before it began.
    pub fn running(&self) -> Option<Due> {
        self.rounds.in_progress().map(|snapshot| Due { snapshot, ticket: Ticket::default() })
    }

    /// No grace period is under way: for the only thread of a process, as after a fork. The readers are the caller's affair.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.rounds.reset_in_child();
    }
}

impl<R: Readers> Engine<R> {
    pub fn tally(&self) -> Tally {
        let costs = self.readers.costs();
        // Relaxed, as everywhere in `tallies` and `costs`: statistics.
        Tally {
            // First, so that no grace period is counted whose caller is not.
            grace_periods: self.rounds.completed(),
            callers: self.tallies.callers.load(Relaxed),
            heavy_fences: costs.heavy_fences.load(Relaxed),
            sleeps: costs.sleeps.load(Relaxed),
            wakeups: costs.wakeups.load(Relaxed),
            longest_wait: Duration::from_nanos(self.tallies.longest_wait.load(Relaxed)),
            stalls: self.tallies.stalls.load(Relaxed),
            checked: self.check.passed(),
            readers: self.readers.count(),
        }
    }

    /// Waits until every section that is open now has ended. `own` is the calling thread's reader, which is outside.
    pub fn synchronize(&self, own: Option<&Reader>) -> Result<(), Orphaned> {
        let ticket = self.check.ticket();
        self.tallies.callers.fetch_add(1, Relaxed);
        self.lead_or_wait(own, |run| self.rounds.run_or_wait(run))?;
        self.check.served(ticket);
        Ok(())
    }

    /// Waits until the grace period has ended. `own` is the calling thread's reader, which is outside.
    pub fn wait_for(&self, own: Option<&Reader>, due: Due) -> Result<(), Orphaned> {
        self.tallies.callers.fetch_add(1, Relaxed);
        self.lead_or_wait(own, |run| self.rounds.wait_for(due.snapshot, run))?;
        self.check.served(due.ticket);
        Ok(())
    }

    /// Waits until the next grace period has ended, for others who want one. `own` as in [`wait_for`](Self::wait_for).
    pub fn drive(&self, own: Option<&Reader>) -> Result<(), Orphaned> {
        self.tallies.callers.fetch_add(1, Relaxed);
        self.lead_or_wait(own, |run| self.rounds.wait_for(self.rounds.next_round(), run))
    }

    /// Waits by `wait` until a grace period has ended; leads it, if no other thread does, and tells of it afterwards.
    fn lead_or_wait(
        &self,
        own: Option<&Reader>,
        wait: impl FnOnce(&mut dyn FnMut() -> Result<(), Orphaned>) -> Result<(), Orphaned>,
    ) -> Result<(), Orphaned> {
        // Of two, after another leader has failed, the last.
        let mut ended = None;
        let result = wait(&mut || {
            ended = self.grace_period(own)?;
            Ok(())
        });
        self.tell(ended);
        result
    }

    fn tell(&self, ended: Option<Ended>) {
        if let Some(ended) = ended {
            ended.tell((self.domain)());
        }
    }

    /// Completes a grace period, unless another thread leads one, or a reader blocks it for long. The calling thread, whose
    /// reader is `own`, is outside.
    pub fn try_synchronize(&self, own: Option<&Reader>) -> bool {
        let mut told = None;
        let is_led = self.rounds.try_run(|| {
            let begun = Begun::now();
            let number = self.check.begin();
            let ended = self.readers.begin(own).is_ok();
            if ended {
                self.check.end(number);
                told = begun.end(|| self.led(), false);
            }
            ended
        });
        self.tell(told);
        is_led
    }

    /// Leads a grace period. What there is to tell of it.
    fn grace_period(&self, own: Option<&Reader>) -> Result<Option<Ended>, Orphaned> {
        let begun = Begun::now();
        let number = self.check.begin();
        let blocked = self.readers.begin(own).err();
        let held_up = blocked.is_some();
        if let Some(blocked) = blocked {
            let forks = self.rounds.forks();
            self.sleep(blocked)?;
            if self.rounds.forks() != forks {
                // A stall hook has forked, and this is the child: the round does not count.
                return Ok(None);
            }
        }
        self.check.end(number);
        Ok(begun.end(|| self.led(), held_up))
    }

    /// The name of the domain, for reports.
    #[cfg(not(loom))]
    pub fn domain(&self) -> &'static str {
        (self.domain)()
    }

    /// The number of the grace period that the calling thread leads.
    fn led(&self) -> u64 {
        self.rounds.completed() + 1
    }

    #[cold]
    fn sleep(&self, blocked: R::Blocked) -> Result<(), Orphaned> {
        let mut vigil = Vigil {
            watch: Watch::begin(),
            tallies: &self.tallies,
            domain: self.domain,
            grace_period: self.led(),
        };
        self.readers.sleep(blocked, &mut vigil)
    }
}

/// What is to be told of a grace period that sleeps: how long, and for whom.
#[derive(Debug)]
pub struct Vigil<'a> {
    watch: Watch,
    tallies: &'a Tallies,
    domain: fn() -> &'static str,
    grace_period: u64,
}

impl Vigil<'_> {
    /// How long to sleep until there may be something to report.
    pub fn patience(&self) -> Duration {
        self.watch.patience()
    }

    /// After a sleep: keeps the longest wait, and reports `blockers`, those that are waited for still, when it is time. They are
    /// told how long it has been; nobody if they have all just left.
    pub fn note(&mut self, blockers: impl FnOnce(Duration) -> Option<Blockers>) {
        let waited = self.watch.waited();
        let nanoseconds = waited.as_nanos() as u64;
        if nanoseconds > self.tallies.longest_wait.load(Relaxed) {
            self.tallies.longest_wait.store(nanoseconds, Relaxed);
        }
        if let Some(stall) = self.watch.stall(waited, self.domain, self.grace_period, blockers) {
            self.tallies.stalls.fetch_add(1, Relaxed);
            stall.report();
        }
    }
}
