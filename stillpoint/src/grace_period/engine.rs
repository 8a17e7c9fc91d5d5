//! The engine: callers share grace periods, and one of them leads each.
//!
//! A *grace period* is over when every read-side critical section that was open when it began has ended. A thread
//! that unpublishes a value, and then waits for a grace period that begins later, may free the value. The engine runs
//! grace periods of any [`ReaderSet`]:
//!
//! | readers | where | how a grace period waits for them |
//! |---|---|---|
//! | threads that enter and leave sections | [`crate::readers::sections::scan`] | a heavy fence and a scan |
//! | threads that report quiescent states | [`crate::readers::qsbr`] | a scan |
//! | sections that are counted on each CPU | [`crate::readers::srcu`] | a heavy fence and sums |
//!
//! # A grace period
//!
//! ```text
//! start    later callers wait for the next grace period      (SharedSeq::start)
//! drain    what can be done without sleeping                 (ReaderSet::drain)
//! sleep    until the other readers have left; reports stalls (Leader::sleep, StallDetector)
//! end      wakes the callers                                 (Leader::end)
//! ```
//!
//! Taking a snapshot and starting order everything that the caller did before, unpublishing above all, before
//! [`ReaderSet::drain`]. What that has acquired happens before the return of all callers (see
//! [`crate::sync::shared_seq`]). Grace periods do not overlap, so no two threads call it at the same time.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use core::{cmp, hash};

use super::audit::{AuditTicket, GpAudit};
use super::counters::GpCounters;
use super::detector::{StallDetector, Tried};
use super::stall::StalledReaders;
use super::trace::GpSpan;
use crate::probes::DomainId;
use crate::sync::shared_seq::{SeqSnapshot, SharedSeq};
use crate::sync::{const_unless_loom, now};

/// The readers that grace periods wait for. `own` is the calling thread's reader, if readers belong to threads; it is
/// outside a section.
pub trait ReaderSet {
    /// The reader of a thread, if readers belong to threads.
    type Reader: 'static;

    /// Returns `true` if no reader but `own` can be inside a section, so that a grace period costs nothing.
    fn no_other_readers(&self, own: Option<&Self::Reader>) -> bool;

    /// Completes a grace period: checks readers, a bounded number of times, and if one still blocks it sleeps by
    /// [`Leader::sleep`]. Returns `false` if the leader may not.
    fn drain(&self, own: Option<&Self::Reader>, leader: &mut Leader<'_>) -> bool;

    /// Makes the calling thread, which is inside a section and has deferred its reclamation, take the slow path when
    /// it leaves. `above`: the backlog is above its limit.
    fn defer_to_exit(&self, _own: Option<&Self::Reader>, _above: bool) {}

    /// Returns `true` if any reader may be inside a section. A hint.
    fn is_any_inside(&self) -> bool {
        true
    }

    /// Returns the readers that the leader sleeps for, if it does and any are left: at most `most` threads, and the
    /// number of all. For another thread than the leader: if one grace period follows another at that moment, the
    /// answer may be of both.
    #[cfg(feature = "statistics-page")]
    fn awaited_readers(&self, _most: usize) -> Option<(StalledReaders, u64)> {
        None
    }

    /// Returns the statistics.
    fn counters(&self) -> &GpCounters;

    /// Returns the number of readers for statistics.
    fn count(&self) -> u64;
}

/// The kernel denies the heavy fence, which worked before: grace periods fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied;

/// How long a leader that may not sleep pauses before it checks readers again.
const PAUSE: Duration = Duration::from_micros(50);

/// What a leader has that may not sleep, unless it gives up at once.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    /// Until when it pauses and checks readers again, in nanoseconds of [`now`].
    pub until: u64,
    /// What is known of earlier attempts.
    pub tried: &'a Tried,
    /// Calls what calls code of the program.
    pub call: fn(&mut dyn FnMut()),
}

/// The thread that leads a grace period.
#[derive(Debug)]
pub struct Leader<'a> {
    may_sleep: bool,
    patience: Option<Patience<'a>>,
    has_slept: bool,
    /// The number of the grace period.
    number: u64,
    id: DomainId,
    domain: fn() -> &'static str,
}

impl Leader<'_> {
    /// Returns `true` if this is not the first attempt of its grace period.
    pub fn tries_again(&self) -> bool {
        self.patience.is_some_and(|patience| patience.tried.is_of(self.number))
    }

    /// Pauses for a moment, after which readers that have blocked the grace period are to be checked again. Returns
    /// `false` if there is no time, or the leader may [sleep](Self::sleep).
    pub fn pause(&mut self) -> bool {
        let pauses = !cfg!(loom) && self.patience.is_some_and(|patience| now() < patience.until);
        if pauses {
            self.has_slept = true;
            std::thread::sleep(PAUSE);
        }
        pauses
    }

    /// Reports the stall, if a report is due, for a leader that has [paused](Self::pause) in vain. `mark` names the
    /// readers that are inside, and `have_left` returns `true` if those of an earlier mark have left.
    pub fn check(
        &self,
        counters: &GpCounters,
        mark: u64,
        have_left: &dyn Fn(u64) -> bool,
        waits_for: &dyn Fn(Duration) -> Option<StalledReaders>,
    ) {
        if let Some(Patience { tried, call, .. }) = self.patience {
            self.detector(counters).check_tried(tried, mark, have_left, call, waits_for);
        }
    }

    fn detector<'c>(&self, counters: &'c GpCounters) -> StallDetector<'c> {
        StallDetector::new(counters, self.id, self.domain, self.number)
    }

    /// Calls `wait`, which sleeps until no reader blocks the grace period, and calls [`StallDetector::check`] after
    /// each sleep. Returns `false` if the leader may not sleep.
    #[cold]
    pub fn sleep(&mut self, counters: &GpCounters, wait: impl FnOnce(&mut StallDetector<'_>)) -> bool {
        self.has_slept = self.may_sleep;
        if self.may_sleep {
            let _wait = counters.begin_wait();
            wait(&mut self.detector(counters));
        }
        self.may_sleep
    }
}

/// Runs grace periods for a set of readers, and shares them among callers.
#[derive(Debug)]
pub struct Engine<R: ?Sized> {
    /// A round is a grace period. Readers load nothing of this cache line: theirs are aligned.
    rounds: SharedSeq,
    audit: GpAudit,
    /// Returns the name of the domain, for reports.
    domain: fn() -> &'static str,
    readers: R,
}

impl<R> Engine<R> {
    const_unless_loom! {
        /// Creates the engine of the domain with this name.
        pub fn new(readers: R, domain: fn() -> &'static str) -> Self {
            Self {
                rounds: SharedSeq::new(),
                audit: GpAudit::new(),
                domain,
                readers,
            }
        }
    }
}

impl<R: ?Sized> Engine<R> {
    /// Returns the readers that grace periods wait for.
    #[inline(always)]
    pub fn readers(&self) -> &R {
        &self.readers
    }

    /// Returns the name of the domain.
    pub fn domain(&self) -> &'static str {
        (self.domain)()
    }

    /// Returns what identifies the domain in probes.
    #[inline(always)]
    pub fn id(&self) -> DomainId {
        DomainId::of(&self.readers)
    }

    /// Returns the number of grace periods that have been completed.
    pub fn completed(&self) -> u64 {
        self.rounds.completed()
    }

    /// Returns the cookie of the first grace period that begins after this call.
    pub fn snapshot(&self) -> GpCookie {
        // In this order: see `GpAudit`.
        let ticket = self.audit.ticket();
        GpCookie { snapshot: self.rounds.snapshot(), ticket }
    }

    /// Returns `true` if the grace period has ended.
    #[inline]
    pub fn is_done(&self, cookie: GpCookie) -> bool {
        let done = self.rounds.is_done(cookie.snapshot);
        if done {
            self.audit.assert_full_gp(cookie.ticket);
        }
        done
    }

    /// Returns the grace period in progress, if there is one. It serves only callers whose snapshot is older.
    pub fn in_progress(&self) -> Option<GpCookie> {
        let (snapshot, is_in_progress) = self.rounds.next_round();
        is_in_progress.then(|| GpCookie { snapshot, ticket: AuditTicket::default() })
    }

    /// Returns the grace period that ends next, in progress or not: for a thread that waits on behalf of others.
    pub fn next(&self) -> GpCookie {
        GpCookie { snapshot: self.rounds.next_round().0, ticket: AuditTicket::default() }
    }
}

impl<R: ReaderSet + ?Sized> Engine<R> {
    /// Forgets the grace period in progress. For the only thread of a process, as after a fork. Does not reset the
    /// readers.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.rounds.reset_in_child();
        self.readers.counters().reset_in_child();
    }

    /// Returns `true` if a grace period is in progress whose leader sleeps until readers have left that are still
    /// inside. A hint.
    pub fn is_held_up(&self) -> bool {
        self.readers.counters().is_waiting() && self.readers.is_any_inside()
    }

    /// Blocks until every section that is open now has ended.
    pub fn synchronize(&self, own: Option<&R::Reader>) {
        let ticket = self.audit.ticket();
        self.lead_or_wait(own, |run| self.rounds.run_or_wait(run));
        self.audit.assert_full_gp(ticket);
    }

    /// Blocks until the grace period has ended.
    pub fn wait_for(&self, own: Option<&R::Reader>, cookie: GpCookie) {
        self.lead_or_wait(own, |run| self.rounds.wait_for(cookie.snapshot, run));
        self.audit.assert_full_gp(cookie.ticket);
    }

    /// Waits by `wait`, which calls its argument if this thread is to lead a grace period.
    fn lead_or_wait(&self, own: Option<&R::Reader>, wait: impl FnOnce(&mut dyn FnMut())) {
        self.readers.counters().callers.fetch_add(1, Relaxed);
        wait(&mut || _ = self.lead(own, true, None));
    }

    /// Returns the number of the grace period whose leader sleeps for readers, if one does, how long it has done so,
    /// and [`ReaderSet::awaited_readers`].
    #[cfg(feature = "statistics-page")]
    pub fn awaited_readers(&self, most: usize) -> Option<(u64, Duration, StalledReaders, u64)> {
        let number = self.number();
        let waited = self.readers.counters().waiting();
        if waited.is_zero() {
            return None;
        }
        let (readers, count) = self.readers.awaited_readers(most)?;
        (self.number() == number).then_some((number, waited, readers, count))
    }

    /// Runs a grace period. Returns `false` if a reader blocks it, despite `patience`, and `None` if another
    /// thread leads one.
    pub fn try_synchronize(&self, own: Option<&R::Reader>, patience: Option<Patience<'_>>) -> Option<bool> {
        self.rounds.try_run(|| self.lead(own, false, patience))
    }

    /// Leads a grace period. Returns `false` if a reader blocks it and the thread may not sleep. Panics if the kernel
    /// denies the heavy fence; the round has then failed.
    fn lead(&self, own: Option<&R::Reader>, may_sleep: bool, patience: Option<Patience<'_>>) -> bool {
        let (number, id, domain) = (self.number(), self.id(), self.domain);
        let span = GpSpan::start(id, domain, number);
        let ticket = self.audit.begin();
        let mut leader = Leader { may_sleep, patience, has_slept: false, number, id, domain };
        if !self.readers.drain(own, &mut leader) {
            span.give_up();
            return false;
        }
        self.audit.end(ticket);
        span.end(leader.has_slept);
        true
    }

    /// Returns the number of the grace period that ends next: for its leader, the one that it leads.
    fn number(&self) -> u64 {
        self.completed() + 1
    }
}

/// Names a grace period, to wait for it or to check it. Of two cookies, the smaller one's grace period ends no later.
#[derive(Debug, Clone, Copy)]
pub struct GpCookie {
    pub(crate) snapshot: SeqSnapshot,
    pub(crate) ticket: AuditTicket,
}

impl GpCookie {
    /// Returns the number of the grace period.
    pub fn number(self) -> u64 {
        self.snapshot.number()
    }

    /// Returns a cookie of the grace period with this [`number`](Self::number).
    pub fn from_number(number: u64) -> Self {
        Self { snapshot: SeqSnapshot::from_number(number), ticket: AuditTicket::default() }
    }
}

// The ticket does not take part in comparisons: it differs among cookies of one grace period.

impl PartialEq for GpCookie {
    fn eq(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot
    }
}

impl Eq for GpCookie {}

impl PartialOrd for GpCookie {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GpCookie {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.snapshot.cmp(&other.snapshot)
    }
}

impl hash::Hash for GpCookie {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.snapshot.hash(state);
    }
}
