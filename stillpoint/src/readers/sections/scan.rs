//! Readers that belong to threads: a grace period takes one heavy fence and one scan, and if readers block it a
//! second fence, a rescan of these readers, and a sleep.
//!
//! The readers of [`crate::rcu`]: [`super::reader`] is what each does, [`super::registry`] where it lies. Those of
//! [`crate::readers::qsbr`] have another [`ReaderProtocol`], which needs no fences; it shares the scan, the sleep and
//! the countdown.
//!
//! # A grace period
//!
//! ```text
//! heavy fence A
//! counter += 1
//! scan            wait until each active reader is quiescent or has the new counter     (ReaderProtocol::blocks)
//! ```
//!
//! Readers are active, unless their threads have exited or called `hint_idle`. Why the scan may skip the others
//! is in [`super::registration`]; below, each section belongs to an active reader.
//!
//! Take a value that was unpublished before the caller's snapshot, and a section that may have read it. Snapshot and
//! start order the unpublishing before A (see [`crate::grace_period::engine`]). The reader's light fence lies between
//! its store of `gp_seen` and its load of the pointer. A orders these in one of two ways.
//!
//! 1. *The light fence precedes A.* Then the scan sees the store of `gp_seen` or a later store of this reader. The
//!    value stored was loaded from the counter before A, hence before the counter was advanced: it is smaller than
//!    the new counter, so the scan waits until it sees a later store. That store, on leaving or entering, is a
//!    Release, and the scan an Acquire: the section happens before the end of the grace period.
//! 2. *The light fence follows A.* Then the load of the pointer sees the unpublishing: the section did not read the
//!    value.
//!
//! One pass suffices: a section with the new counter loaded it after A, as the counter was advanced after A, and so
//! is in case 2. If the counter were advanced before A, a reader could have the new counter in case 1. The counter
//! never wraps. If [`Registry::other_readers`] returns 0, readers that register later are in case 2 by that order,
//! without a fence.
//!
//! # Sleeping
//!
//! The scan checks readers that block it a bounded number of times. Then the leader sets their `WAKE_ON_EXIT`, issues
//! heavy fence B, takes back the requests to readers that have left since, and sleeps on `awaited`. A reader that
//! leaves and sees `WAKE_ON_EXIT` counts down; the last one wakes the leader. By B, the reader sees `WAKE_ON_EXIT` or
//! the leader sees that the reader has left.
//!
//! 1. Each request is taken exactly once, by the reader or by the leader, and then counted down. So `awaited` is at
//!    least the number of outstanding requests, plus one for the leader until it sleeps. A reader that is late with
//!    the wake-up of the last grace period may end the sleep early, so the leader checks the number.
//! 2. When `awaited` is 0 no request is outstanding, and no thread changes it before the next leader does.
//! 3. *No reader is checked again.* Requests are made after A. A reader that takes one acquires it, so what it does
//!    next follows A: case 2, even if it stores the old counter, which it may have loaded long before. That includes
//!    the section for which the request was made, if a repin has just begun it: its loads follow the take. A reader
//!    whose request the leader takes back was seen quiescent, or with the new counter, after A; a later section whose
//!    light fence preceded A would have been seen instead. So a grace period takes one sleep and one wake-up as a
//!    rule, however many readers there are. (Requests begin with the first reader of a group of 64. So a reader that
//!    the scan has seen quiescent may get one too, if it has just entered with the old counter: then the leader waits
//!    for a section too many.)
//!
//! The countdown is a chain of read-modify-writes with Release, and the leader's load of `awaited` an Acquire: the
//! sections of all awaited readers happen before the end of the grace period.
//!
//! # Without `membarrier`
//!
//! Where a light fence may be a full one ([`crate::fence`]), a reader executes it on entering only: the arguments
//! above need no other fence, but for the wake-up. So a reader that leaves may miss the request, while the leader's
//! rescan after fence B still finds it inside. Then no thread wakes the leader. It therefore rescans after the first
//! of its [`timeouts`], and again after longer and longer sleeps. A store becomes visible in finite time, so a later
//! rescan sees the reader's, and takes the request back. On a processor that takes a few cache misses, far less than
//! the first sleep. A reader that leaves later sees the request, and wakes the leader at once.
//!
//! *A repin needs no fence.* `gp_seen` goes from one counter to another, and is never 0 in between. If the light
//! fence of the entry precedes A, the scan sees the first counter, which is smaller than the new one, or a later
//! store. If the second counter is smaller too, the reader still blocks. If not, the repin has loaded the new
//! counter, by an Acquire, and its section sees what was unpublished before A, as in case 2.
//!
//! # Crowds
//!
//! If more readers are active than there are CPUs, one that blocks the grace period may have been preempted inside
//! its section, and wait for a CPU behind readers that do not block it. Each of these begins one section after
//! another, and runs for a whole time slice. So the leader sets the [`YIELD_ON_EXIT`] of all active readers before it
//! sleeps. A reader that leaves, and finds it, clears it, and yields its CPU a few times while the leader sleeps: the
//! grace period then takes about as long as the sections that block it. The readers also stand between sections when
//! their turn comes, so that the next grace period finds few inside. (Not those that `repin`, or report to a `qsbr`
//! domain: they yield after the new value of `gp_seen`, and so inside or online.)
//!
//! The flag is a hint in the word that readers check anyway. One that is left from an earlier grace period sends its
//! reader to the slow path once. Quotas of control groups do not matter here: threads without quota stop, and no
//! yield helps them.
//!
//! The reader of a thread that exits inside a section keeps its `gp_seen` ([`super::registration`]), so grace periods
//! wait for it as for a long section.

use core::mem;
use core::num::NonZeroU32;

use super::protocol::ReaderProtocol;
use super::reader::{Owner, Reader, WAKE_ON_EXIT, YIELD_ON_EXIT};
use super::registry::Registry;
use crate::fence::light_is_compiler_fence;
use crate::grace_period::counters::GpCounters;
use crate::grace_period::detector::StallDetector;
use crate::grace_period::engine::{Leader, ReaderSet};
use crate::grace_period::stall::{StalledReader, StalledReaders};
use crate::probes::DomainId;
use crate::readers::{awaited_reader_leaves, timeouts};
use crate::sync::{
    AtomicU64, CachePadded, Futex, Ordering::*, budget, const_unless_loom, has_normal_policy, now,
    outnumber_cpus, spin_loop, step, thread_name, yield_now,
};

/// How often a grace period checks readers that block it before it sleeps.
const SPINS: u32 = 200;

/// If a yield took longer, in nanoseconds, another thread has run, and the reader does not yield again, unless
/// readers outnumber CPUs.
const YIELD_WINDOW_NS: u64 = 500_000;

/// How often a reader yields if readers outnumber CPUs.
const YIELDS_IN_CROWD: u32 = 3;

/// See the [module](self). `A` is attached to each reader.
#[derive(Debug)]
pub struct ThreadReaders<A> {
    protocol: ReaderProtocol,
    /// Readers store it on entering. Starts at 1, as 0 means quiescent.
    counter: CachePadded<AtomicU64>,
    /// The number of readers that the leader sleeps for.
    awaited: CachePadded<Futex>,
    registry: Registry<A>,
    counters: CachePadded<GpCounters>,
}

/// The rest of a grace period: active readers from `first`, the first of a group, to below `end` may block it.
#[derive(Debug)]
struct PendingScan {
    first: usize,
    end: usize,
    counter: u64,
}

impl<A> ThreadReaders<A> {
    const_unless_loom! {
        pub fn new(protocol: ReaderProtocol) -> Self {
            Self {
                protocol,
                counter: CachePadded::new(AtomicU64::new(1)),
                awaited: CachePadded::new(Futex::new(0)),
                registry: Registry::new(),
                counters: CachePadded::new(GpCounters::new()),
            }
        }
    }

    #[inline(always)]
    pub fn counter(&self) -> &AtomicU64 {
        &self.counter
    }

    pub fn registry(&self) -> &Registry<A> {
        &self.registry
    }

    /// Returns the readers from which [`wait_for_readers`](Self::wait_for_readers) has requested a wake-up.
    fn awaited(&self, scan: &PendingScan) -> impl Iterator<Item = &'static Reader> {
        let groups = self.registry.groups(scan.first, scan.end);
        groups
            .flat_map(|(first, group)| self.registry.members(first, group.awaited()))
            .map(|(_, reader)| reader)
    }
}

impl<A: Default + 'static> ThreadReaders<A> {
    /// Checks the active readers one after another, a bounded number of times.
    fn scan(&self, end: usize, counter: u64) -> Result<(), PendingScan> {
        let protocol = self.protocol;
        let mut spins = budget(SPINS);
        let mut blocks_for_long = |reader| {
            while protocol.blocks(reader, counter) {
                if spins == 0 {
                    return true;
                }
                spins -= 1;
                spin_loop();
            }
            false
        };
        let mut visited = 0;
        let blocking = self.registry.groups(0, end).find_map(|(first, group)| {
            let active = group.active();
            visited += u64::from(active.count_ones());
            let is_blocking = active != 0
                && self.registry.members(first, active).any(|(_, reader)| blocks_for_long(reader));
            is_blocking.then_some(first)
        });
        // Relaxed: statistics only.
        self.counters.scanned.fetch_add(visited, Relaxed);
        blocking.map_or(Ok(()), |first| Err(PendingScan { first, end, counter }))
    }

    /// Completes the grace period, unless a reader still blocks it.
    fn try_drain(&self, own: Option<&Reader>) -> Result<(), PendingScan> {
        if self.no_other_readers(own) && self.protocol != ReaderProtocol::Hazards {
            // Ordered by the registry.
            return Ok(());
        }
        if self.protocol.is_fenced() {
            // A.
            step!("no-fence", self.counters.heavy_fence());
        }
        let counter = self.protocol.advance_counter(&self.counter);
        // After `no_other_readers`: the readers that it counted are below the length. Readers that register later see
        // what is unpublished.
        let end = self.registry.len();
        step!("no-wait", self.scan(end, counter)?);
        Ok(())
    }

    /// Sleeps until no reader blocks the grace period.
    fn wait_for_readers(&self, scan: PendingScan, detector: &mut StallDetector<'_>) {
        // Relaxed: no request is outstanding (invariant 2).
        self.awaited.store(1, Relaxed);
        step!("no-yield-requests", self.request_yields(scan.end));
        for (first, group) in self.registry.groups(scan.first, scan.end) {
            let mut awaited = 0;
            for (bit, reader) in self.registry.members(first, group.active()) {
                if self.protocol.blocks(reader, scan.counter) {
                    self.awaited.fetch_add(1, Relaxed);
                    self.protocol.request_wakeup(reader);
                    detector.will_wait_for(|| reader.thread_id(), 1);
                    awaited |= bit;
                }
            }
            group.set_awaited(awaited);
        }
        if self.protocol.is_fenced() {
            step!("no-fence-before-rescan", {
                let requests = Requests(self, &scan);
                // B.
                self.counters.heavy_fence();
                mem::forget(requests);
            });
        }
        step!("no-rescan", self.rescan(&scan));

        // The leader's own share. Acquire, here and below: the sections of awaited readers come before what follows;
        // pairs with the Release in `count_down`.
        let mut left = self.awaited.fetch_sub(1, Acquire) - 1;
        if left != 0 {
            self.counters.sleeps.fetch_add(1, Relaxed);
        }
        let wakeups_may_be_lost = self.protocol.is_fenced() && !light_is_compiler_fence();
        let mut timeouts = timeouts();
        while left != 0 {
            if wakeups_may_be_lost {
                self.awaited.wait_until(left, timeouts.next().map(|timeout| now() + timeout));
                step!("no-rescan-after-timeout", self.rescan(&scan));
            } else {
                self.awaited.wait_timeout(left, NonZeroU32::MAX, detector.next_report_in());
            }
            left = self.awaited.load(Acquire);
            detector.check(&|_| self.stalled(&scan));
        }
    }

    /// Requests that the active readers yield, if they outnumber the CPUs: see "Crowds" in the module. Before the
    /// requests for wake-ups, so that a reader which takes both yields.
    fn request_yields(&self, end: usize) {
        let groups = || self.registry.groups(0, end).map(|(first, group)| (first, group.active()));
        if outnumber_cpus(groups().map(|(_, active)| active.count_ones()).sum()) {
            for (first, active) in groups() {
                self.registry.members(first, active).for_each(|(_, reader)| reader.request_yield());
            }
        }
    }

    /// Takes back the requests to readers that have left. Called by the leader.
    fn rescan(&self, scan: &PendingScan) {
        // Not the active ones: the thread of a reader that has left without seeing the request may be idle by now.
        for reader in self.awaited(scan) {
            if !self.protocol.blocks(reader, scan.counter) && reader.take_wake_request() {
                self.awaited.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Counts the reader as one that has left. The last one wakes the leader.
    fn count_down(&self) {
        awaited_reader_leaves(DomainId::of(self));
        // Release: publishes the reader's sections; pairs with the Acquires in `wait_for_readers`.
        let left = self.awaited.fetch_sub(1, Release) - 1;
        if left == 0 {
            step!("no-wake-up", {
                self.counters.wakeups.fetch_add(1, Relaxed);
                self.awaited.wake(1, NonZeroU32::MAX);
            });
        }
    }

    /// Answers the leader's requests, which the reader has taken.
    pub(crate) fn answer(&self, wakes: bool, yields: bool) {
        if wakes {
            self.count_down();
        }
        // Relaxed: a hint. The leader of an earlier grace period may have made the request.
        if wakes || yields && self.awaited.load(Relaxed) != 0 {
            self.yield_to_others(yields);
        }
    }

    /// Where threads outnumber CPUs, the leader, or a reader that is still inside, may need this one. The scheduler
    /// may return to this thread before it has tried all others, so it yields again. Without a crowd it does not if
    /// another thread has run for a while. With a real-time policy it would yield for too long.
    fn yield_to_others(&self, in_crowd: bool) {
        if !has_normal_policy() {
            return;
        }
        let most = if in_crowd { YIELDS_IN_CROWD } else { self.protocol.max_yields() };
        for _ in 0..budget(most) {
            let start = now();
            yield_now();
            // Relaxed: a hint.
            if self.awaited.load(Relaxed) == 0 || !in_crowd && now() - start > YIELD_WINDOW_NS {
                return;
            }
        }
    }

    /// The slow path of [`Reader::leave`] and [`Reader::repin`].
    #[cold]
    pub fn exit_slow(&self, reader: &Reader) {
        let flags = reader.exit_flags.load(Relaxed);
        let yields = flags & YIELD_ON_EXIT != 0;
        if yields {
            step!("yield-request-kept", _ = reader.take_yield_request());
        }
        let wakes = flags & WAKE_ON_EXIT != 0 && reader.take_wake_request();
        self.answer(wakes, yields);
    }

    /// Resets the readers for a process with one thread, as after a fork, whose reader is `own`. Its sections stay
    /// open. The caller resets what is attached to readers.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self, own: Option<&'static Reader>) {
        // No request is outstanding: the registry takes back the request to `own` (invariant 2).
        self.awaited.store(0, Relaxed);
        self.registry.reset_in_child(own);
    }

    /// Returns the readers that the leader still waits for, or `None` if all have just left.
    fn stalled(&self, scan: &PendingScan) -> Option<StalledReaders> {
        // Without `membarrier` a reader may have left unseen, and belong to another thread by now. Then it does not
        // block.
        let still_blocks = |reader: &Reader| self.protocol.blocks(reader, scan.counter);
        let stalled = |reader| self.stalled_reader(reader, thread_name).filter(|_| still_blocks(reader));
        let mut readers = Vec::new();
        for reader in self.awaited(scan) {
            if let Some(stalled) = stalled(reader) {
                readers.push(stalled);
            }
        }
        (!readers.is_empty()).then_some(StalledReaders::Threads(readers))
    }

    /// [`stalled`](Self::stalled), for a leader that has made no requests. A reader that blocks before and after has
    /// not changed hands, as a later owner enters with a later counter.
    fn stalled_without_request(&self, scan: &PendingScan) -> Option<StalledReaders> {
        let mut readers = Vec::new();
        for (first, group) in self.registry.groups(scan.first, scan.end) {
            for (_, reader) in self.registry.members(first, group.active()) {
                let blocks = || self.protocol.blocks(reader, scan.counter);
                let stalled = blocks().then(|| reader.owner()).flatten();
                readers.extend(
                    stalled.map(|owner| self.describe(reader, owner, thread_name)).filter(|_| blocks()),
                );
            }
        }
        (!readers.is_empty()).then_some(StalledReaders::Threads(readers))
    }

    /// Returns what a report says about the reader, unless it has left. `name` returns the name of a thread.
    fn stalled_reader(
        &self,
        reader: &Reader,
        name: impl FnOnce(u32) -> Option<String>,
    ) -> Option<StalledReader> {
        reader.owner_if_still_blocking(|owner| self.describe(reader, owner, name))
    }

    fn describe(
        &self,
        reader: &Reader,
        owner: Owner,
        name: impl FnOnce(u32) -> Option<String>,
    ) -> StalledReader {
        let has_exited = reader.is_exiting();
        StalledReader {
            thread_id: owner.thread,
            // The id of a thread that has exited may be another thread's by now.
            name: if has_exited { None } else { name(owner.thread) },
            registered_at: owner.site,
            section_at: reader.section_site(),
            has_exited,
            suffix: self.protocol.stall_suffix(has_exited),
        }
    }
}

impl<A: Default + 'static> ReaderSet for ThreadReaders<A> {
    type Reader = Reader;

    fn no_other_readers(&self, own: Option<&Reader>) -> bool {
        self.registry.other_readers(own) == 0
    }

    fn drain(&self, own: Option<&Reader>, leader: &mut Leader<'_>) -> bool {
        let mut drained = self.try_drain(own);
        while let Err(scan) = &drained {
            if !leader.pause() {
                let have_left = |counter| self.scan(scan.end, counter).is_ok();
                leader
                    .check(&self.counters, scan.counter, &have_left, &|_| self.stalled_without_request(scan));
                break;
            }
            drained = self.scan(scan.end, scan.counter);
        }
        match drained {
            Ok(()) => true,
            Err(scan) => leader.sleep(&self.counters, |detector| self.wait_for_readers(scan, detector)),
        }
    }

    fn defer_to_exit(&self, own: Option<&Reader>, above: bool) {
        let Some(own) = own else { return };
        match self.protocol {
            ReaderProtocol::Sections | ReaderProtocol::Hazards => own.reclaim_on_exit(),
            // All threads see that the counter has been advanced. When those that have deferred work report, they
            // wait. Relaxed: a read-modify-write continues the release sequence of `advance_counter`.
            ReaderProtocol::Qsbr if above => _ = self.counter.fetch_add(1, Relaxed),
            ReaderProtocol::Qsbr => (),
        }
    }

    #[cfg(feature = "statistics-page")]
    fn awaited_readers(&self, most: usize) -> Option<(StalledReaders, u64)> {
        let scan = PendingScan { first: 0, end: self.registry.len(), counter: self.counter.load(Relaxed) };
        let mut readers = Vec::new();
        let mut count = 0;
        for reader in self.awaited(&scan) {
            // Not `blocks`, which changes what the owners use. Relaxed: for statistics only.
            let seen = reader.gp_seen.load(Relaxed);
            if seen == 0 || seen >= scan.counter {
                continue;
            }
            // To read a name takes some microseconds.
            let is_named = readers.len() < most;
            let name = |thread| if is_named { thread_name(thread) } else { None };
            let Some(stalled) = self.stalled_reader(reader, name) else { continue };
            count += 1;
            if is_named {
                readers.push(stalled);
            }
        }
        (count != 0).then_some((StalledReaders::Threads(readers), count))
    }

    fn is_any_inside(&self) -> bool {
        let mut groups = self.registry.groups(0, self.registry.len());
        groups.any(|(first, group)| {
            self.registry.members(first, group.active()).any(|(_, reader)| reader.in_read_section())
        })
    }

    fn counters(&self) -> &GpCounters {
        &self.counters
    }

    /// Returns the number of readers in the registry.
    fn count(&self) -> u64 {
        self.registry.len() as u64
    }
}

/// The requests that are outstanding while fence B is issued. Dropped if that panics: takes them back, so that
/// invariant 2 holds for the next leader.
struct Requests<'a, A>(&'a ThreadReaders<A>, &'a PendingScan);

impl<A> Drop for Requests<'_, A> {
    fn drop(&mut self) {
        let Self(readers, scan) = self;
        for reader in readers.awaited(scan) {
            if reader.take_wake_request() {
                readers.awaited.fetch_sub(1, Relaxed);
            }
        }
        // Readers that took theirs are about to count down.
        while readers.awaited.load(Acquire) != 1 {
            yield_now();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
