//! Readers that belong to threads, and the grace period that waits for them: one heavy fence, one scan, at most one sleep.
//!
//! The readers of [`crate::rcu`]. What each does is in [`crate::readers::reader`], how they come and go in [`crate::readers::registry`]. There is
//! another [`ReaderProtocol`], [`crate::readers::qsbr`], which does without the fences; it shares the scan, the sleep and the countdown.
//!
//! # A grace period
//!
//! ```text
//! heavy fence   A
//! counter += 1
//! scan          wait until each reader is quiescent or shows the new counter     (Reader::blocks)
//! ```
//!
//! # Why one fence and one pass suffice
//!
//! Take a value that was unpublished before the caller asked, and a section that may have read it. Asking and beginning
//! order the unpublishing before A (see [`crate::grace_period::engine`]). The reader's light fence lies between its store of `gp_seen`
//! and its load of the pointer, and A orders the two in one of two ways.
//!
//! 1. *The light fence came first.* Then the store of `gp_seen` is visible to the scan, which sees it or a later store of
//!    the same reader. The value stored was loaded from the counter before A, hence before the counter was raised: it is
//!    smaller than the new one, so the scan waits until it sees a later store. That store, a leave or an entry, is a
//!    Release, and the scan an Acquire: the section happens before the end of the grace period.
//! 2. *A came first.* Then the load of the pointer sees the unpublishing: the section did not read the value.
//!
//! A section that shows the new counter loaded it after A, since the counter was raised after A: case 2, so the scan may
//! pass it. Was the counter raised before A, a reader could show the new counter in case 1, and be passed. The counter
//! never wraps, so no second pass is needed to tell an old section from a new one.
//!
//! A reader whose thread registers after [`Registry::other_readers`] found nobody is in case 2 by that order, without a fence.
//!
//! # Sleeping
//!
//! The scan looks a bounded number of times at readers that block it. Then it sets `WAKE_ON_EXIT` on them, issues heavy fence B,
//! takes back the request of those that have left meanwhile, and sleeps on `awaited`. A reader that leaves and sees
//! `WAKE_ON_EXIT` counts down; the last wakes the sleeper. By B, either the reader sees `WAKE_ON_EXIT` or the leader sees that it has
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
//! A sleep that lasts too long is reported, with the names of those it waits for: see [`crate::grace_period::stall`].
//!
//! # Threads that exit inside a section
//!
//! A leaked guard may have lent a reference for ever, so grace periods wait for it. The reader of a thread that exits inside a
//! section stays that thread's ([`crate::readers::registration`]) and keeps its `gp_seen`; nothing here distinguishes it from one whose
//! section is long. The section ends if a later destructor of the thread drops the guard.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU32;

use crossbeam_utils::CachePadded;

use super::reader::{Reader, WAKE_ON_EXIT};
use super::registry::{Attached, Registry};
use super::stalled;
use crate::fence::heavy;
use crate::grace_period::engine::{Costs, ReaderSet};
use crate::grace_period::stall::StallDetector;
use crate::sync::{
    AtomicU64, Futex, Ordering::*, budget, const_unless_loom, now, spin_loop, step, yield_now,
};

/// How often a grace period looks at readers that block it before it sleeps.
const SPINS: u32 = 200;

/// Nanoseconds that a yield took after which a reader that was awaited does not yield again.
const YIELD_WINDOW_NS: u64 = 500_000;

const ANYBODY: NonZeroU32 = NonZeroU32::MAX;

/// How a reader and the leader learn of each other.
pub trait ReaderProtocol: fmt::Debug + Send + Sync + 'static {
    /// By heavy fences of the leader.
    const FENCED: bool;
    /// How often a reader that was awaited yields: as often as was measured to gain something (docs/measurements.md).
    const MAX_YIELDS: u32;
    /// What a report adds on a reader that stalls a grace period: that of a running thread, that of one that has exited.
    const STALL_SUFFIX: [&'static str; 2];

    /// Raises the counter; the new one.
    fn advance_counter(counter: &AtomicU64) -> u64;

    /// See [`ReaderSet::defer_to_exit`].
    fn defer_to_exit(own: &Reader, counter: &AtomicU64, above: bool);

    /// Whether a grace period that raised the counter to `counter` must wait for this reader.
    fn blocks(reader: &Reader, counter: u64) -> bool;

    /// Asks the reader to count down.
    fn request_wakeup(reader: &Reader);
}

/// Readers that enter and leave sections.
#[derive(Debug)]
pub enum Memb {}

impl ReaderProtocol for Memb {
    const FENCED: bool = true;
    const MAX_YIELDS: u32 = 1;
    const STALL_SUFFIX: [&'static str; 2] =
        ["", ", and exited inside a read-side critical section (is a guard leaked?)"];

    fn advance_counter(counter: &AtomicU64) -> u64 {
        let to = counter.load(Relaxed) + 1;
        // Relaxed, and after the fence: see "Why one fence and one pass suffice".
        counter.store(to, Relaxed);
        to
    }

    fn defer_to_exit(own: &Reader, _counter: &AtomicU64, _above: bool) {
        own.reclaim_on_exit();
    }

    fn blocks(reader: &Reader, counter: u64) -> bool {
        reader.blocks(counter)
    }

    fn request_wakeup(reader: &Reader) {
        reader.request_wake();
    }
}

/// See the [module](self). `A` is attached to each reader.
#[derive(Debug)]
pub struct ThreadReaders<K, A> {
    /// What readers show that entered now. Starts at 1, as 0 means quiescent.
    counter: CachePadded<AtomicU64>,
    /// Readers the leader sleeps for.
    awaited: CachePadded<Futex>,
    registry: Registry<A>,
    costs: CachePadded<Costs>,
    _kind: PhantomData<K>,
}

/// A grace period, with counter `counter`, that the reader `first` blocks, and perhaps others below `end`.
#[derive(Debug)]
pub struct PendingScan {
    first: usize,
    end: usize,
    counter: u64,
}

impl<K, A> ThreadReaders<K, A> {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                counter: CachePadded::new(AtomicU64::new(1)),
                awaited: CachePadded::new(Futex::new(0)),
                registry: Registry::new(),
                costs: CachePadded::new(Costs::new()),
                _kind: PhantomData,
            }
        }
    }

    /// What readers store on entering.
    #[inline(always)]
    pub fn counter(&self) -> &AtomicU64 {
        &self.counter
    }

    pub fn registry(&self) -> &Registry<A> {
        &self.registry
    }
}

impl<K: ReaderProtocol, A: Attached + 'static> ThreadReaders<K, A> {
    fn fence(&self) {
        // Relaxed, as everywhere in `costs`: statistics.
        self.costs.heavy_fences.fetch_add(1, Relaxed);
        heavy();
    }

    /// Looks at the readers, one after another, a bounded number of times; fails at the first that blocks the grace period still.
    fn scan(&self, end: usize, counter: u64) -> Result<(), PendingScan> {
        let mut spins = budget(SPINS);
        for (first, reader) in self.registry.readers(0, end).enumerate() {
            while K::blocks(reader, counter) {
                if spins == 0 {
                    return Err(PendingScan { first, end, counter });
                }
                spins -= 1;
                spin_loop();
            }
        }
        Ok(())
    }

    /// One reader less to wait for; the last wakes the leader.
    pub(crate) fn count_down(&self) {
        // Release: the reader's sections come before the leader's end of the grace period. Partner: the Acquire in `sleep`.
        let left = self.awaited.fetch_sub(1, Release) - 1;
        if left == 0 {
            step!("no-wake-up", {
                self.costs.wakeups.fetch_add(1, Relaxed);
                self.awaited.wake(1, ANYBODY);
            });
        }
        self.yield_to_waiter();
    }

    /// Where threads outnumber CPUs, those we kept waiting, the leader or readers still inside, may want this one. The scheduler
    /// may come back to us before it has tried all others, so we yield again; but not when somebody has had the CPU for a while.
    fn yield_to_waiter(&self) {
        for _ in 0..budget(K::MAX_YIELDS) {
            let begin = now();
            yield_now();
            // Relaxed: a hint.
            if self.awaited.load(Relaxed) == 0 || now() - begin > YIELD_WINDOW_NS {
                return;
            }
        }
    }

    /// The slow way out of a section. Taken when [`Reader::leave`] says so.
    #[cold]
    pub fn exit_slow(&self, reader: &Reader) {
        #[cfg(not(loom))]
        if reader.exit_flags.load(Relaxed) & crate::readers::reader::NEEDS_FENCE != 0 {
            // The light fence of `Reader::look`, for a thread in which a compiler fence is none.
            crate::fence::light();
        }
        if reader.exit_flags.load(Relaxed) & WAKE_ON_EXIT != 0 && reader.take_wake_request() {
            self.count_down();
        }
    }

    /// Makes the readers those of a process with one thread, whose reader is `own`; its sections stay open.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in no function of what is attached to readers.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, own: Option<&'static Reader>) {
        // The request that `own` may have is taken back below: none is out (invariant 2).
        self.awaited.store(0, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.registry.reset_in_child(own) };
    }
}

impl<K: ReaderProtocol, A: Attached + 'static> ReaderSet for ThreadReaders<K, A> {
    type Reader = Reader;
    type Pending = PendingScan;

    fn no_other_readers(&self, own: Option<&Reader>) -> bool {
        self.registry.other_readers(own) == 0
    }

    fn try_drain(&self, own: Option<&Reader>) -> Result<(), PendingScan> {
        if self.no_other_readers(own) {
            // No section of another thread is open that began before: see the registry's orderings.
            return Ok(());
        }
        if K::FENCED {
            step!("no-fence", self.fence());
        }
        let counter = K::advance_counter(&self.counter);
        // After `no_other_readers`: a reader that was counted there, and may be inside, is below the length. One that registers later sees
        // what is unpublished.
        let end = self.registry.len();
        step!("no-wait", self.scan(end, counter)?);
        Ok(())
    }

    fn wait_for_readers(&self, pending: PendingScan, detector: &mut StallDetector<'_>) {
        let PendingScan { first, end, counter } = pending;
        let readers = || self.registry.readers(first, end);
        // Relaxed: no request is out (invariant 2).
        self.awaited.store(1, Relaxed);
        for reader in readers().filter(|reader| K::blocks(reader, counter)) {
            self.awaited.fetch_add(1, Relaxed);
            K::request_wakeup(reader);
        }
        if K::FENCED {
            step!("no-fence-before-rescan", {
                let requests = Requests { registry: &self.registry, awaited: &self.awaited, first, end };
                self.fence();
                core::mem::forget(requests);
            });
        }
        for reader in readers() {
            step!(
                "no-rescan",
                if !K::blocks(reader, counter) && reader.take_wake_request() {
                    self.awaited.fetch_sub(1, Relaxed);
                }
            );
        }

        // The leader's own share. Acquire, here and below: all who counted down have left, and what they did before comes
        // before what we do next. Partner: the Release in `count_down`.
        let mut left = self.awaited.fetch_sub(1, Acquire) - 1;
        if left != 0 {
            self.costs.sleeps.fetch_add(1, Relaxed);
        }
        while left != 0 {
            self.awaited.wait_timeout(left, ANYBODY, detector.next_report_in());
            left = self.awaited.load(Acquire);
            detector.check(|waited| stalled::awaited(readers(), waited, K::STALL_SUFFIX));
        }
    }

    fn defer_to_exit(&self, own: Option<&Reader>, above: bool) {
        if let Some(own) = own {
            K::defer_to_exit(own, &self.counter, above);
        }
    }

    fn costs(&self) -> &Costs {
        &self.costs
    }

    fn count(&self) -> u64 {
        self.registry.len() as u64
    }
}

/// Requests that are out while fence B is issued. Dropped if that panics: all are taken back, so that invariant 2 holds for
/// the next leader.
struct Requests<'a, A> {
    registry: &'a Registry<A>,
    awaited: &'a Futex,
    first: usize,
    end: usize,
}

impl<A> Drop for Requests<'_, A> {
    fn drop(&mut self) {
        let awaited = self.awaited;
        for reader in self.registry.readers(self.first, self.end) {
            if reader.take_wake_request() {
                awaited.fetch_sub(1, Relaxed);
            }
        }
        // Readers that took theirs are about to count down.
        while awaited.load(Acquire) != 1 {
            yield_now();
        }
    }
}
