//! Grace periods: callers who share them, their leader, and what he waits for.
//!
//! A *grace period* is over when every section that was open when it began has ended. Whoever unpublishes a value and then
//! sees a grace period begin and end may free it. There is one engine, and it asks little of the [`ReaderSet`] it waits for:
//!
//! | readers | where | how they are waited for |
//! |---|---|---|
//! | threads that enter and leave sections | [`crate::readers::threads`] | a heavy fence and a look at each |
//! | threads that report quiescent states | [`crate::readers::qsbr`] | a look at each |
//!
//! # A grace period
//!
//! ```text
//! begin         the round starts: callers from now on wait for the next one        (SharedSeq::start)
//! look          whatever can be done without sleeping                            (ReaderSet::try_drain)
//! sleep         until the rest has left; long sleeps are reported                (ReaderSet::wait_for_readers, StallDetector)
//! finish        and wake                                                         (Leader::end)
//! ```
//!
//! Asking and beginning order everything that the caller did before, unpublishing above all, before [`ReaderSet::try_drain`]; what
//! that and [`ReaderSet::wait_for_readers`] have acquired happens before the return of all callers (see [`crate::sync::shared_seq`]). One grace
//! period begins after the other has ended, so `begin` and `sleep` are never called by two threads at a time.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::cookie::GpCookie;
use crate::grace_period::audit::{AuditTicket, GpAudit};
use crate::grace_period::stall::{StallDetector, StallStats};
use crate::grace_period::trace::{EndedSpan, GpSpan};
use crate::sync::shared_seq::SharedSeq;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom};

/// Who is waited for: one kind of reader.
pub trait ReaderSet {
    /// The reader of a thread, if readers belong to threads.
    type Reader: ?Sized;
    /// What is known of a grace period that does not end at once.
    type Pending;

    /// Whether nobody but `own`, the calling thread's reader if readers belong to threads, can be inside a section: a grace
    /// period then costs nothing.
    fn no_other_readers(&self, own: Option<&Self::Reader>) -> bool;

    /// The part of a grace period that does not sleep: a bounded look at all who may be inside. `own` is the calling thread's
    /// reader, which is outside.
    ///
    /// # Errors
    ///
    /// What blocks the rest.
    fn try_drain(&self, own: Option<&Self::Reader>) -> Result<(), Self::Pending>;

    /// Sleeps until what blocks the grace period has gone. After each sleep it calls [`StallDetector::check`].
    fn wait_for_readers(&self, pending: Self::Pending, detector: &mut StallDetector<'_>);

    /// The calling thread, whose reader is `own`, has put off its bookkeeping because it is inside a section: has it take the slow
    /// way out of the outermost one. `above`: more waits than should.
    fn defer_to_exit(&self, _own: Option<&Self::Reader>, _above: bool) {}

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
    check: GpAudit,
    /// The name of the domain, for reports.
    domain: fn() -> &'static str,
    tallies: CachePadded<Tallies>,
}

/// Counts of what happened; written by callers and leaders.
#[derive(Debug)]
struct Tallies {
    callers: AtomicU64,
    stalls: StallStats,
}

/// Counts of what readers and leaders did; written by the [`ReaderSet`].
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

/// Counters of grace periods, part of [`Stats`](crate::rcu::Stats), which explains them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    pub grace_periods: u64,
    pub callers: u64,
    pub heavy_fences: u64,
    pub sleeps: u64,
    pub wakeups: u64,
    pub longest_wait: Duration,
    pub stalls: u64,
    pub readers: u64,
}

impl<R> Engine<R> {
    const_unless_loom! {
        pub fn new(readers: R, domain: fn() -> &'static str) -> Self {
            Self {
                readers,
                rounds: CachePadded::new(SharedSeq::new()),
                check: GpAudit::new(),
                domain,
                tallies: CachePadded::new(Tallies {
                    callers: AtomicU64::new(0),
                    stalls: StallStats::new(),
                }),
            }
        }
    }

    #[inline(always)]
    pub fn readers(&self) -> &R {
        &self.readers
    }

    /// The grace period that every section which is open now ends before.
    pub fn ask(&self) -> GpCookie {
        // In this order: see `GpAudit`.
        let ticket = self.check.ticket();
        GpCookie { snapshot: self.rounds.snapshot(), ticket }
    }

    /// Whether the grace period has ended.
    #[inline]
    pub fn is_done(&self, due: GpCookie) -> bool {
        let done = self.rounds.is_done(due.snapshot);
        if done {
            self.check.assert_full_gp(due.ticket);
        }
        done
    }

    /// The grace period that is under way, if one is. It serves those only that have asked before it began.
    pub fn running(&self) -> Option<GpCookie> {
        self.rounds.in_progress().map(|snapshot| GpCookie { snapshot, ticket: AuditTicket::default() })
    }

    /// No grace period is under way: for the only thread of a process, as after a fork. The readers are the caller's affair.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.rounds.reset_in_child();
    }
}

impl<R: ReaderSet> Engine<R> {
    pub fn tally(&self) -> EngineStats {
        let costs = self.readers.costs();
        // Relaxed, as everywhere in `tallies` and `costs`: statistics.
        EngineStats {
            // First, so that no grace period is counted whose caller is not.
            grace_periods: self.rounds.completed(),
            callers: self.tallies.callers.load(Relaxed),
            heavy_fences: costs.heavy_fences.load(Relaxed),
            sleeps: costs.sleeps.load(Relaxed),
            wakeups: costs.wakeups.load(Relaxed),
            longest_wait: self.tallies.stalls.longest_wait(),
            stalls: self.tallies.stalls.reports(),
            readers: self.readers.count(),
        }
    }

    /// Waits until every section that is open now has ended. `own` is the calling thread's reader, which is outside.
    pub fn synchronize(&self, own: Option<&R::Reader>) {
        let ticket = self.check.ticket();
        self.tallies.callers.fetch_add(1, Relaxed);
        self.lead_or_wait(own, |run| self.rounds.run_or_wait(run));
        self.check.assert_full_gp(ticket);
    }

    /// Waits until the grace period has ended. `own` is the calling thread's reader, which is outside.
    pub fn wait_for(&self, own: Option<&R::Reader>, due: GpCookie) {
        self.tallies.callers.fetch_add(1, Relaxed);
        self.lead_or_wait(own, |run| self.rounds.wait_for(due.snapshot, run));
        self.check.assert_full_gp(due.ticket);
    }

    /// Waits until the next grace period has ended, for others who want one. `own` as in [`wait_for`](Self::wait_for).
    pub fn drive(&self, own: Option<&R::Reader>) {
        self.tallies.callers.fetch_add(1, Relaxed);
        self.lead_or_wait(own, |run| self.rounds.wait_for(self.rounds.next_round(), run));
    }

    /// Waits by `wait` until a grace period has ended; leads it, if no other thread does, and tells of it afterwards.
    fn lead_or_wait(&self, own: Option<&R::Reader>, wait: impl FnOnce(&mut dyn FnMut())) {
        // Of two, after another leader has failed, the last.
        let mut ended = None;
        wait(&mut || ended = self.grace_period(own));
        self.tell(ended);
    }

    fn tell(&self, ended: Option<EndedSpan>) {
        if let Some(ended) = ended {
            ended.emit((self.domain)());
        }
    }

    /// Completes a grace period, unless another thread leads one, or a reader blocks it for long. The calling thread, whose
    /// reader is `own`, is outside.
    pub fn try_synchronize(&self, own: Option<&R::Reader>) -> bool {
        let mut told = None;
        let is_led = self.rounds.try_run(|| {
            let begun = GpSpan::start();
            let number = self.check.begin();
            let ended = self.readers.try_drain(own).is_ok();
            if ended {
                self.check.end(number);
                told = begun.end(|| self.led(), false);
            }
            ended
        });
        self.tell(told);
        is_led
    }

    /// Leads a grace period. What there is to tell of it. Panics if the kernel denies the heavy fence: the round has then failed.
    fn grace_period(&self, own: Option<&R::Reader>) -> Option<EndedSpan> {
        let begun = GpSpan::start();
        let number = self.check.begin();
        let blocked = self.readers.try_drain(own).err();
        let held_up = blocked.is_some();
        if let Some(blocked) = blocked {
            self.sleep(blocked);
        }
        self.check.end(number);
        begun.end(|| self.led(), held_up)
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
    fn sleep(&self, pending: R::Pending) {
        let mut detector = StallDetector::new(&self.tallies.stalls, self.domain, self.led());
        self.readers.wait_for_readers(pending, &mut detector);
    }
}
