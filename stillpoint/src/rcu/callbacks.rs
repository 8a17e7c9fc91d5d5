//! Deferred entries of a domain: from its queues (for most kinds of readers one for each thread), through a grace period, to a worker that runs them.
//!
//! Appending is the owner's affair ([`super::queue`]), waking the worker [`super::alarm`]'s, waiting for it
//! [`super::progress`]'s. Here is what the worker does, and what keeps the backlog small.
//!
//! # A round
//!
//! ```text
//! collect     in each queue, the entries that have no grace period yet get the next one        (Queue::collect)
//! run         what is ripe: a batch of each queue in turn, for SLICE at most, under no lock     (Queue::take)
//! advance     wake those that wait                                                          (Progress::advance)
//! linger      for LINGER, and PACE after the last round began, unless a caller is urgent or the backlog long
//! wait        for the grace period, which callers of synchronize() share                      (Host::wait_for)
//! ```
//!
//! It lingers and waits only when nothing is ripe. What a slice leaves is run by the next one, after another collection: a
//! callback behind a thousand others of *another* thread does not wait for all of them.
//!
//! The worker must not make a caller of `synchronize()` wait for two grace periods: one that the worker has begun, and the next.
//! So it lingers before it leads one, as a program that defers something often waits for a grace period itself at once, which
//! serves the worker's entries too. It waits for one that runs, and lingers anew, so that a caller in a loop leads all of them.
//!
//! *Local* entries are run by the thread that deferred them, a block at a time while it defers others, once their grace period
//! is over: that keeps memory in the allocator's cache of that thread, and several threads from waiting for one. They are
//! the values without destructors, as nothing of the program runs then, and those of which the program says that it does no
//! harm. All other callbacks and destructors run in the worker only, as a caller may hold a lock that they take.
//!
//! # Bounds
//!
//! Owners tell the backlog of each block, the consumers of what has run. Above the limits a caller that is neither inside a
//! section nor a callback runs what it may of its own, sets the worker to work, and waits; not for ever, as what the worker
//! waits for may be waiting for the caller: when [`PATIENCE`] is over it goes on, and so do others, after a moment each, until
//! anything at all has been done. A caller inside a section does so on leaving the outermost one ([`Readers::defer_to_exit`]):
//! most code that links nodes retires inside sections only.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::alarm::{Alarm, DROWSY, PACED, Slept};
use super::engine::{Due, Engine, Orphaned, Readers};
use super::entry::Entry;
use super::progress::Progress;
use super::queue::{Amount, BLOCK, Held, Holds, Queue, STEP};
use super::reader::Reader;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom, now, step};

/// The worker's rounds begin this far apart, and after another's grace period, in nanoseconds, so that a writer costs the readers
/// a thousand interrupts a second and not fifty thousand. (Owners add their own, if they defer so much that it pays:
/// [`Queue::tried`].)
const PACE: u64 = if cfg!(loom) { 0 } else { 1_000_000 };
/// How long the worker of an idle domain lingers, in nanoseconds: several times as long as a caller that defers something and
/// then waits takes to begin.
const LINGER: u64 = if cfg!(loom) { 0 } else { 100_000 };
/// The same after a round that failed, as long as a thread that ended inside a section allows no grace period.
const PACE_STUCK: u64 = 1_000_000_000;
/// Entries in the backlog that end the pause between rounds, and let lazy entries run.
const MANY: u64 = 16_384;
/// How long lazy entries may wait, in nanoseconds.
const LAZY: u64 = 10_000_000_000;
/// How long the worker runs entries before it looks at the queues again, in nanoseconds.
const SLICE: u64 = 1_000_000;
/// How long a caller above the limits waits.
pub const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };
/// The same, when that was in vain once.
const IMPATIENCE: Duration = Duration::from_millis(1);

/// High-water marks of the entries that wait in a domain, callbacks and retired values.
///
/// Callers begin to wait somewhat below. The bound is not exact: each thread may add up to 64 entries, or 64 KiB, or one
/// value, before it notices; and what it adds inside a section, before it waits on leaving it. It is not enforced in callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries.
    pub count: u64,
    /// Bytes: of the values themselves, and what callers say that these own ([`Hints::owning`](super::Hints::owning)).
    pub bytes: u64,
}

impl Limits {
    const DEFAULT: Self = Self { count: 1 << 17, bytes: 64 << 20 };
}

impl Default for Limits {
    /// 131,072 entries, 64 MiB.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the algorithm needs of the world around it.
pub trait Host {
    type Readers: Readers;

    /// Grace periods, and the queues.
    fn engine(&self) -> &Engine<Self::Readers>;

    /// Waits until the grace period has ended.
    fn wait_for(&self, due: Due) -> Result<(), Orphaned>;

    /// Runs an entry, whose grace period is over. False if the caller has become the child of a fork, which has no business
    /// with the other entries.
    fn run(&self, entry: Entry) -> bool;

    /// How long a caller above the limits waits.
    const PATIENCE: Duration = PATIENCE;

    /// A heavy fence.
    fn fence(&self);

    /// Whether the calling thread runs a stall hook.
    fn is_reporting(&self) -> bool {
        false
    }

    /// Provides a worker: somebody who calls [`Callbacks::work`]. False if that cannot be done.
    fn start_worker(&self) -> bool;

    /// Completes a grace period if that takes no time to speak of; never waits. The calling thread, whose reader is `own`, is
    /// outside. `alone`: see [`Readers::is_alone`].
    fn try_synchronize(&self, own: Option<&Reader>, alone: bool) -> bool;
}

/// Who does the bookkeeping of a queue, and where.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The reader of the calling thread, if readers belong to threads.
    pub own: Option<&'a Reader>,
    /// Inside a section: no grace period can end.
    pub is_inside: bool,
    /// Whether it may be made to wait.
    pub wait: MayWait,
}

/// Whether a caller may be made to wait until less is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayWait {
    /// It is inside a section, or runs a callback.
    No,
    /// For a moment: it is inside a section of another domain, and what the worker waits for may wait for that.
    Briefly,
    /// For [`PATIENCE`].
    Yes,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Callbacks {
    alarm: CachePadded<Alarm>,
    progress: CachePadded<Progress>,
    /// What waits, as far as the owners have reported. Two's complement: what has run may be told of first.
    backlog: CachePadded<Backlog>,
    limits: Backlog,
    /// Callers that want all to run now.
    urgent: AtomicU64,
    /// What had been done when a caller above the limits last waited in vain.
    in_vain: AtomicU64,
    /// When the last round began, or another's grace period ended, and the first queue of the next slice: the worker's.
    last_round: AtomicU64,
    first: AtomicU64,
    /// Rounds that have begun; the number of the last that failed; 1 while the last one did.
    rounds: AtomicU64,
    failed: AtomicU64,
    stuck: AtomicU64,
    /// Forks that made this process out of its parent.
    forks: AtomicU64,
    tallies: CachePadded<Tallies>,
}

#[derive(Debug)]
struct Backlog {
    count: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Tallies {
    run: AtomicU64,
    freed: AtomicU64,
    waits: AtomicU64,
    overruns: AtomicU64,
}

/// Counters of callbacks and retired values, part of [`Stats`](super::Stats).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub queued: u64,
    pub bytes: u64,
    pub oldest: Duration,
    pub run: u64,
    pub waits: u64,
    pub overruns: u64,
}

impl Backlog {
    const_unless_loom! {
        fn new(count: u64, bytes: u64) -> Self {
            Self { count: AtomicU64::new(count), bytes: AtomicU64::new(bytes) }
        }
    }

    fn add(&self, amount: Amount) {
        // Relaxed, here and below: bounds need no order.
        self.count.fetch_add(amount.count, Relaxed);
        self.bytes.fetch_add(amount.bytes, Relaxed);
    }

    fn sub(&self, amount: Amount) {
        self.count.fetch_sub(amount.count, Relaxed);
        self.bytes.fetch_sub(amount.bytes, Relaxed);
    }
}

impl Callbacks {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                alarm: CachePadded::new(Alarm::new()),
                progress: CachePadded::new(Progress::new()),
                backlog: CachePadded::new(Backlog::new(0, 0)),
                limits: Backlog::new(Limits::DEFAULT.count, Limits::DEFAULT.bytes),
                urgent: AtomicU64::new(0),
                in_vain: AtomicU64::new(u64::MAX),
                last_round: AtomicU64::new(0),
                first: AtomicU64::new(0),
                rounds: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                stuck: AtomicU64::new(0),
                forks: AtomicU64::new(0),
                tallies: CachePadded::new(Tallies {
                    run: AtomicU64::new(0),
                    freed: AtomicU64::new(0),
                    waits: AtomicU64::new(0),
                    overruns: AtomicU64::new(0),
                }),
            }
        }
    }

    /// After an entry was appended: sees to it that a worker will look.
    #[inline(always)]
    pub fn notify(&self, lazy: bool, host: &impl Host) {
        if self.alarm.must_ring(lazy) {
            self.provide(lazy, host);
        }
    }

    #[cold]
    fn provide(&self, lazy: bool, host: &impl Host) {
        let alone = if lazy { self.alarm.stir() } else { self.alarm.ring() };
        if alone && !host.start_worker() {
            // The entries stay; the next one tries again. Whoever rang meanwhile and waits must look to it himself.
            self.alarm.give_up();
            step!("given-up-silently", self.progress.advance());
        }
    }

    /// Makes the worker hurry. False if there is none, and none can be had.
    fn hurry(&self, host: &impl Host) -> bool {
        if !self.alarm.ring() || host.start_worker() {
            return true;
        }
        self.alarm.give_up();
        step!("hurry-gives-up-silently", self.progress.advance());
        false
    }

    /// The owner runs a few of its own entries.
    #[cold]
    pub fn step(&self, queue: &Queue, host: &impl Host) {
        self.run_own(queue, host, STEP);
        if queue.has_freed_much() {
            self.report(queue);
        }
    }

    /// The owner's bookkeeping, a block at a time.
    #[cold]
    pub fn settle<'a>(&self, queue: &Queue, caller: impl FnOnce() -> Caller<'a>, host: &impl Host) {
        // Otherwise a little more than is added, so that it gets less.
        self.run_own(queue, host, if self.is_crowded() { 2 * BLOCK } else { STEP + 1 });
        self.report(queue);
        // Only now: a destructor that ran may have begun a section, or ended one.
        self.relieve(queue, caller(), host);
    }

    /// Sees to it that less waits, if that is called for, after [`count`](Self::count).
    #[cold]
    pub fn relieve(&self, queue: &Queue, caller: Caller<'_>, host: &impl Host) {
        if !caller.is_inside {
            let alone = host.engine().readers().is_alone(caller.own);
            if alone {
                host.try_synchronize(caller.own, alone);
            } else if queue.is_due() {
                let begin = now();
                host.try_synchronize(caller.own, alone);
                queue.tried(now() - begin);
            }
        }
        let has_waited = self.press_if_above(caller.own.map(|own| own.queue), caller.wait, host);
        if !has_waited && self.is_crowded() && self.alarm.naps() {
            step!("crowd-does-not-ring", self.provide(false, host));
        }
    }

    fn run_own(&self, queue: &Queue, host: &impl Host, limit: u64) {
        let engine = host.engine();
        let wanted =
            queue.run_local(limit, |due| engine.is_done(due), || engine.ask(), |entry| host.run(entry));
        if wanted {
            step!("claim-given-back-silently", self.provide(false, host));
        }
    }

    /// Tells the domain what the owner of the queue has added and run. Once more when its thread ends, so that what it has run
    /// does not count for ever.
    pub fn report(&self, queue: &Queue) {
        self.count(queue.report());
    }

    /// What has been added, and what its owner has run.
    pub fn count(&self, [added, freed]: [Amount; 2]) {
        self.backlog.add(added);
        if freed.count != 0 {
            self.backlog.sub(freed);
            self.tallies.freed.fetch_add(freed.count, Relaxed);
            // Somebody may have been waiting for just these.
            step!("freed-silently", self.progress.advance());
        }
    }

    /// What waits, as far as it has been reported.
    fn backlog(&self) -> Amount {
        let read = |word: &AtomicU64| u64::try_from(word.load(Relaxed).cast_signed()).unwrap_or(0);
        Amount { count: read(&self.backlog.count), bytes: read(&self.backlog.bytes) }
    }

    pub fn set_limits(&self, limits: Limits) {
        self.limits.count.store(limits.count, Relaxed);
        self.limits.bytes.store(limits.bytes, Relaxed);
        // For those who wait above the old ones.
        self.progress.advance();
    }

    /// Whether as much waits as should: seven eighths of a limit, as threads notice late.
    fn is_above(&self) -> bool {
        let backlog = self.backlog();
        let mark = |limit: &AtomicU64| {
            let limit = limit.load(Relaxed);
            limit - limit / 8
        };
        backlog.count > mark(&self.limits.count) || backlog.bytes > mark(&self.limits.bytes)
    }

    /// Whether the owner of the queue, which only now may wait, should do its bookkeeping for that.
    #[cfg(not(loom))]
    pub fn presses(&self, queue: &Queue) -> bool {
        self.is_above() && queue.holds() != Holds::Nothing
    }

    /// Whether enough waits for another round.
    fn is_crowded(&self) -> bool {
        let backlog = self.backlog();
        let quarter = |limit: &AtomicU64| limit.load(Relaxed) / 4;
        backlog.count >= quarter(&self.limits.count).min(MANY) || backlog.bytes >= quarter(&self.limits.bytes)
    }

    /// [`press`](Self::press), if too much waits and the caller may. Whether it has.
    fn press_if_above(&self, own: Option<&Queue>, wait: MayWait, host: &impl Host) -> bool {
        let presses = wait != MayWait::No && self.is_above();
        if presses {
            self.press(own, wait, host);
        }
        presses
    }

    /// Waits until less waits. `own` is the calling thread's queue.
    #[cold]
    fn press<H: Host>(&self, own: Option<&Queue>, wait: MayWait, host: &H) {
        if self.stuck.load(Relaxed) != 0 {
            // There can be no grace period: see `Orphaned`.
            self.tallies.overruns.fetch_add(1, Relaxed);
            return self.notify(false, host);
        }
        self.tallies.waits.fetch_add(1, Relaxed);
        let rounds = self.rounds();
        let is_brief = wait == MayWait::Briefly || self.in_vain.load(Relaxed) == self.done();
        let patience = if is_brief { IMPATIENCE } else { H::PATIENCE };
        let _urgent = self.urgent();
        self.hurry(host);
        let mut is_small = false;
        let ended = self.progress.wait_until(Some(patience), || {
            if let Some(queue) = own {
                self.run_own(queue, host, u64::MAX);
                self.report(queue);
            }
            is_small = !self.is_above();
            let failed = self.failed.load(Relaxed) > rounds;
            // Where no worker can be had, this thread must not be one: it may hold a lock that a callback takes.
            let is_empty = || self.holds(host.engine().readers()) == Holds::Nothing;
            is_small || failed || self.alarm.is_idle() && (is_empty() || !self.hurry(host))
        });
        if !ended && wait == MayWait::Yes {
            self.in_vain.store(self.done(), Relaxed);
        }
        if !is_small {
            self.tallies.overruns.fetch_add(1, Relaxed);
        }
    }

    /// The thread that owns the queue ends: tells the domain what is in it, and waits if that is too much. What the thread has not
    /// run is the worker's.
    #[cfg(not(loom))]
    pub fn end_of_owner(&self, queue: &Queue, wait: MayWait, host: &impl Host) {
        self.report(queue);
        self.press_if_above(None, wait, host);
    }

    /// Entries that have run.
    fn done(&self) -> u64 {
        self.tallies.run.load(Relaxed) + self.tallies.freed.load(Relaxed)
    }

    /// Says that all is to run now, until dropped. [`Alarm::ring`] after this makes the worker notice.
    fn urgent(&self) -> Urgent<'_> {
        self.urgent.fetch_add(1, Relaxed);
        Urgent { callbacks: self, forks: self.forks.load(Relaxed) }
    }

    fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// Returns when everything has run that was appended before.
    pub fn barrier(&self, host: &impl Host) -> Result<(), Orphaned> {
        let readers = host.engine().readers();
        let len = readers.queues();
        let mut marks: Vec<u64> = Vec::new();
        // Without memory, each queue's mark is looked up when its turn comes, which is later than need be.
        if marks.try_reserve_exact(len).is_ok() {
            marks.extend((0..len).map(|index| readers.queue(index).pushed()));
        }
        let rounds = self.rounds();
        let urgent = self.urgent();
        for index in 0..len {
            let queue = readers.queue(index);
            let mark = marks.get(index).copied().unwrap_or_else(|| queue.pushed());
            if queue.done() >= mark {
                continue;
            }
            let reached =
                || queue.done() >= mark || urgent.is_parents() || self.failed.load(Relaxed) > rounds;
            step!(
                "barrier-does-not-ring",
                if self.alarm.ring() {
                    self.provide_or_work(host, reached);
                }
            );
            step!("barrier-does-not-wait", {
                self.progress.wait_until(None, || {
                    if !reached() && self.alarm.is_idle() {
                        step!(
                            "nobody-keeps-going",
                            if self.alarm.ring() {
                                self.provide_or_work(host, reached);
                            }
                        );
                    }
                    reached()
                });
                if urgent.is_parents() {
                    // And so is what was appended before.
                    return Ok(());
                }
                if queue.done() < mark {
                    return Err(Orphaned);
                }
            });
        }
        Ok(())
    }

    /// Nobody defers anything any more, and nobody reads: all is to run now, in a worker, or here if none can be had.
    #[cfg(not(loom))]
    pub fn close(&self, host: &impl Host) {
        // Relaxed: `ring` orders it.
        self.urgent.fetch_add(1, Relaxed);
        if self.holds(host.engine().readers()) != Holds::Nothing && self.alarm.ring() {
            self.provide_or_work(host, || false);
        }
    }

    /// For who has rung and found no worker: provides one, or, if none can be had, is the worker until `enough`.
    fn provide_or_work(&self, host: &impl Host, enough: impl Fn() -> bool) {
        if host.start_worker() {
            return;
        }
        if host.is_reporting() {
            // A grace period waits for this thread: the last handle has gone in a stall hook. What is left stays.
            return self.alarm.give_up();
        }
        self.work(host, enough);
    }

    /// Rounds that have begun: one that fails and has a greater number began after this call.
    fn rounds(&self) -> u64 {
        // A read-modify-write, which reads the newest number.
        self.rounds.fetch_add(0, Relaxed)
    }

    /// The most pressing thing in any queue.
    fn holds(&self, readers: &impl Readers) -> Holds {
        queues(readers).map(Queue::holds).max().unwrap_or(Holds::Nothing)
    }

    /// A worker's life, from the alarm until nothing is left to do, or `enough`.
    pub fn work(&self, host: &impl Host, enough: impl Fn() -> bool) {
        let readers = host.engine().readers();
        let fence = || host.fence();
        // When the entries that wait now began to.
        let mut lingers_since = None;
        // The last thing it did was to sleep until an owner has done.
        let mut was_held = false;
        loop {
            if enough() {
                self.alarm.give_up();
                step!("worker-stops-silently", self.progress.advance());
                return;
            }
            let found = self.collect(host.engine());
            let after_held = core::mem::replace(&mut was_held, false);
            match found.holds {
                // An owner at work makes the worker look again when it has done.
                Holds::Nothing if found.held => {
                    let hurry = || self.is_urgent() || self.is_crowded();
                    let ready = || queues(readers).any(|queue| queue.is_ready(hurry()));
                    if after_held {
                        // Woken in vain: what is retired in the owner's destructor must not do so each time.
                        self.alarm.nap(PACED, Duration::from_nanos(PACE), || (), ready);
                    } else {
                        was_held = true;
                        self.alarm.nap(DROWSY, Duration::from_nanos(LAZY), fence, ready);
                    }
                    lingers_since = None;
                    continue;
                }
                Holds::Nothing => {
                    if self.alarm.stop(fence, || self.holds(readers) != Holds::Nothing) == Slept::Gone {
                        // What a caller waits for may have been run by its owner.
                        step!("run-silently", step!("gone-silently", self.progress.advance()));
                        return;
                    }
                    continue;
                }
                Holds::Lazy if let Some(rest) = self.lazy_rest(readers) => {
                    let eager = || queues(readers).any(|queue| queue.is_ready(false));
                    let early = || eager() || self.is_urgent() || self.is_crowded();
                    self.alarm.nap(DROWSY, rest, fence, early);
                    lingers_since = None;
                    continue;
                }
                _ => {}
            }
            match self.run_slice(host) {
                None => return,
                Some(true) => {
                    step!("run-silently", self.progress.advance());
                    continue;
                }
                Some(false) => {}
            }
            let Some(due) = found.due.filter(|due| !host.engine().is_done(*due)) else { continue };
            let begin = *lingers_since.get_or_insert_with(now);
            let running = host.engine().running();
            if running.is_none()
                && let Some(rest) = self.pause(begin)
            {
                // No fence: see the alarm's invariant 3.
                self.alarm.nap(PACED, rest, || (), || self.pause(begin).is_none());
                continue;
            }
            lingers_since = None;
            let began = now();
            let waited = self.wait(host, running.unwrap_or(due));
            self.last_round.store(if running.is_some() { now() } else { began }, Relaxed);
            if waited.is_err() {
                // The entries stay. The next one that is appended tries again, at a slow pace, and an urgent caller now.
                match self.alarm.stop(|| (), || self.is_urgent()) {
                    Slept::Gone => return,
                    Slept::No => {}
                }
            }
        }
    }

    fn wait(&self, host: &impl Host, due: Due) -> Result<(), Orphaned> {
        let round = self.rounds.fetch_add(1, Relaxed) + 1;
        let waited = host.wait_for(due);
        self.stuck.store(u64::from(waited.is_err()), Relaxed);
        if waited.is_err() {
            step!("round-fails-silently", {
                self.failed.store(round, Relaxed);
                self.progress.advance();
            });
        }
        waited
    }

    /// Gives every entry a grace period to wait for.
    fn collect(&self, engine: &Engine<impl Readers>) -> Found {
        let mut found = Found { holds: Holds::Nothing, due: None, held: false };
        for queue in queues(engine.readers()) {
            let holds = queue.holds();
            if holds == Holds::Nothing {
                continue;
            }
            match queue.collect(|due| engine.is_done(due), || engine.ask()) {
                Ok(due) => {
                    found.holds = found.holds.max(holds);
                    found.due = due.into_iter().chain(found.due).min();
                }
                Err(Held) => found.held = true,
            }
        }
        found
    }

    /// How long lazy entries may wait still, if nothing else makes them run.
    fn lazy_rest(&self, readers: &impl Readers) -> Option<Duration> {
        let oldest = queues(readers).filter_map(Queue::oldest).min();
        let rest = oldest.map_or(0, |oldest| (oldest + LAZY).saturating_sub(now()));
        (rest != 0 && !self.is_urgent() && !self.is_crowded()).then(|| Duration::from_nanos(rest))
    }

    /// How long until the worker may lead a grace period, if it has `begun` to linger.
    fn pause(&self, begun: u64) -> Option<Duration> {
        let stuck = self.stuck.load(Relaxed) != 0;
        let pace = if stuck { PACE_STUCK } else { PACE };
        let from = (self.last_round.load(Relaxed) + pace).max(begun + LINGER);
        let rest = from.saturating_sub(now());
        let hurry = self.is_urgent() || !stuck && self.is_crowded();
        (rest != 0 && !hurry).then(|| Duration::from_nanos(rest))
    }

    /// Runs ripe entries, for a time. Whether there were some; nothing in the child of a fork.
    fn run_slice(&self, host: &impl Host) -> Option<bool> {
        let engine = host.engine();
        let len = engine.readers().queues();
        // A slice begins where the last one ended.
        let first = self.first.load(Relaxed) as usize;
        let begin = now();
        let all = self.is_urgent() || self.is_above();
        let mut any = false;
        loop {
            let mut idle = true;
            for index in (first..len).chain(0..first.min(len)) {
                let queue = engine.readers().queue(index);
                if queue.holds() == Holds::Nothing {
                    continue;
                }
                let Some(mut taken) = queue.take(|due| engine.is_done(due), all) else { continue };
                let mut amount = Amount::default();
                let has_forked = taken.entries().any(|entry| {
                    amount.add(&entry);
                    !host.run(entry)
                });
                if has_forked {
                    // The child's queue has forgotten that it was claimed.
                    core::mem::forget(taken);
                    return None;
                }
                taken.finish();
                self.tallies.run.fetch_add(amount.count, Relaxed);
                self.backlog.sub(amount);
                (idle, any) = (false, true);
                if now() - begin > SLICE {
                    self.first.store(index as u64 + 1, Relaxed);
                    return Some(true);
                }
            }
            if idle {
                return Some(any);
            }
        }
    }

    /// Counters of now.
    pub fn tally(&self, readers: &impl Readers) -> Tally {
        let now = now();
        let mut tally = Tally {
            run: self.done(),
            waits: self.tallies.waits.load(Relaxed),
            overruns: self.tallies.overruns.load(Relaxed),
            ..Tally::default()
        };
        let mut bytes = self.backlog.bytes.load(Relaxed);
        for queue in queues(readers) {
            // In this order, so that no entry has run that was not appended.
            let done = queue.done();
            tally.queued += queue.pushed() - done;
            let [added, freed] = queue.unreported();
            bytes = bytes.wrapping_add(added.bytes).wrapping_sub(freed.bytes);
            tally.run += freed.count;
            let age = queue.oldest().map_or(0, |since| now.saturating_sub(since));
            tally.oldest = tally.oldest.max(Duration::from_nanos(age));
        }
        tally.bytes = u64::try_from(bytes.cast_signed()).unwrap_or(0);
        tally
    }

    /// Forgets the worker and those who wait for it. The queues are the caller's affair.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self) {
        self.forks.fetch_add(1, Relaxed);
        self.alarm.give_up();
        for word in [&self.backlog.count, &self.backlog.bytes, &self.urgent, &self.stuck] {
            word.store(0, Relaxed);
        }
    }
}

/// What the worker finds in the queues.
struct Found {
    /// The most pressing thing in those that are not held.
    holds: Holds,
    /// The first grace period that entries wait for.
    due: Option<Due>,
    /// Whether the owner of some other is running entries.
    held: bool,
}

/// All queues there are.
fn queues(readers: &impl Readers) -> impl Iterator<Item = &Queue> {
    (0..readers.queues()).map(|index| readers.queue(index))
}

/// Somebody is urgent.
struct Urgent<'a> {
    callbacks: &'a Callbacks,
    forks: u64,
}

impl Urgent<'_> {
    /// Whether this is the child of a fork, made by a callback that the caller ran in the worker's place.
    fn is_parents(&self) -> bool {
        self.callbacks.forks.load(Relaxed) != self.forks
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        if !self.is_parents() {
            self.callbacks.urgent.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
