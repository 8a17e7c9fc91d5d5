//! Readers whose critical sections are inlined in C programs that were compiled against liburcu's headers.
//!
//! The words of such a reader, and what it does with them, are liburcu's, and the same binary may mix inlined sections
//! with calls of functions. The packages in `urcu/` define the words ([`Gp`], [`InlinedReader`]) under liburcu's names.
//!
//! | flavor | a section | the leader's fence |
//! |---|---|---|
//! | memb, bp | stores the counter, and takes it back; light fences | [`heavy`] |
//! | mb | the same, with full fences | a full fence |
//! | qsbr | ends with a report: stores the counter between full fences | a full fence |
//!
//! # A grace period
//!
//! `Gp::ctr` has 1 in its low half, and the number of the grace period in its high half. A reader copies all of it on
//! entering the outermost section, and counts its open sections in the low half of the copy.
//!
//! ```text
//! fence A
//! number += 1
//! scan            wait until each reader has no open section or has the new number
//! ```
//!
//! The argument is the one in `stillpoint/src/readers/sections/scan.rs`: if the reader's fence precedes A, the scan sees
//! a number that was loaded before it was advanced; if it follows A, the section sees what was unpublished. The end
//! differs. An inlined reader leaves by a plain store. On x86-64 that is a Release, as stores stay behind earlier loads, and the headers stop the
//! compiler. On other machines it is not, so a *closing fence* follows the scan ([`InlinedProtocol::CLOSING_FENCE`]).
//!
//! A number has 32 bits. A reader that is stopped between its load and its store may store a number that has become the
//! current one again, 2^32 grace periods later. Once the numbers are used up, each grace period makes two passes with
//! two numbers: the stale number equals one of them at most. Reports count by 2 in 64 bits, and are never used up.
//!
//! # Sleeping
//!
//! An inlined reader knows one word, [`Gp::futex`]: when it leaves and finds [`ARMED`], it stores 0 and wakes the
//! leader, whether the leader waits for this reader or not. A reader that leaves by a function can do better. The
//! leader makes a request of each reader that blocks it (`InlinedReader::wake`), readers that take their request count
//! `awaited` down, and the last one wakes the leader by the same word. So the leader arms both, issues fence B, checks
//! the readers again, and sleeps on [`Gp::futex`]. It does so again after each sleep, also one that a timer ended.
//! Fence B is only needed while a reader blocks the pass.
//!
//! 1. Each request is taken exactly once, by the reader or by the leader, and then counted down. So `awaited` is the
//!    number of outstanding requests, of requests taken but not counted yet, and of the leader's own share.
//! 2. The leader has its share while it makes requests and takes them back. It returns the share before it sleeps, and
//!    sleeps only if others are left: a reader may have counted down just before. When it is woken, it takes the share
//!    again, unless `awaited` was 0.
//! 3. When `awaited` is 0, no request is outstanding and every reader that blocked has left: the pass is over.
//! 4. *No reader that has passed is checked again*, by the same argument: a reader that takes a
//!    request acquires it, so its next section follows A.
//! 5. `Gp::futex` becomes [`ARMED`] before fence B, and before the leader returns its share. So a reader that leaves
//!    later, inlined or not, wakes the leader, unless another reader is about to.
//! 6. In qsbr an inlined report clears the reader's `waiting`, and wakes the leader only if that was set. The counter
//!    that it reports may be old, and still block the pass. So the futex becomes [`ARMED`] before `waiting` is set.
//!    Functions leave `waiting` set: the leader may have set it again for a second request, which an inlined report
//!    must find.
//!
//! Inlined readers of bp wake no thread ([`InlinedProtocol::TIMED`]). There the leader sleeps for a bounded time and
//! checks the readers again. Fence B is not needed: a request that a reader misses costs a longer sleep.
//!
//! # The lists
//!
//! Readers lie in the program's thread-local memory, so a lock protects the lists of them, and a thread leaves the list
//! before its memory goes. A pass moves all readers from one list to the other. New readers join the second list: they
//! see what is unpublished, by the lock. The leader sleeps without the lock.

use std::iter;
use std::time::Duration;

use stillpoint::fence::{heavy, light};
#[cfg(loom)]
use stillpoint::grace_period::{
    counters::GpCounters,
    engine::{Leader, ReaderSet},
    stall::StallDetector,
};
#[cfg(not(loom))]
use stillpoint::urcu::{GpCounters, Leader, ReaderSet, StallDetector};

use crate::sync::{
    AtomicU32, ForkSafe, Mutex, MutexGuard, Ordering::*, budget, const_unless_loom, fence, now, spin_loop,
    step,
};

mod words;

pub use words::{ARMED, Gp, InlinedReader};
use words::{Lists, NUMBER_SHIFT};

/// How often a pass checks readers that block it before it sleeps.
const SPINS: u32 = 200;

/// The number of readers that a stall report names.
const NAMED: usize = 8;

/// What differs among the flavors.
pub trait InlinedProtocol: Send + Sync + 'static {
    /// Readers use light fences, and the leader [`heavy`]; otherwise both use full fences.
    const FENCED: bool;
    /// Readers report quiescent states.
    const QSBR: bool;
    /// Inlined readers wake no thread.
    const TIMED: bool;
    /// Inlined readers leave by a store that is no Release.
    const CLOSING_FENCE: bool;

    /// Returns what all threads share.
    fn gp(&self) -> &Gp;

    /// Reports that the thread has blocked a grace period for this time.
    fn report_stall(&self, thread: u32, waited: Duration);
}

/// The readers of a flavor of liburcu.
#[derive(Debug)]
pub struct InlinedReaders<P> {
    protocol: P,
    lists: ForkSafe<Mutex<Lists>>,
    /// See (1).
    awaited: AtomicU32,
    counters: GpCounters,
}

/// The rest of a grace period: the pass in progress waits for readers without `current`; `more` passes follow.
#[derive(Debug)]
pub struct PendingPass {
    current: u64,
    more: u32,
}

impl<P> InlinedReaders<P> {
    const_unless_loom! {
        /// Creates it without readers.
        pub fn new(protocol: P) -> Self {
            Self {
                protocol,
                lists: ForkSafe::new(Mutex::new(Lists::new(false))),
                awaited: AtomicU32::new(0),
                counters: GpCounters::new(),
            }
        }
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<P: InlinedProtocol> InlinedReaders<P> {
    /// Adds the reader of the thread with this id. Returns `false` if it has been added before.
    ///
    /// # Safety
    ///
    /// The reader stays in place, and valid, until [`unregister`](Self::unregister) or
    /// [`reset_in_child`](Self::reset_in_child).
    pub unsafe fn register(&self, reader: &InlinedReader, thread: u32) -> bool {
        let is_new = !self.is_registered(reader);
        if is_new {
            reader.registered.store(1, Relaxed);
            reader.wake.store(0, Relaxed);
            reader.waiting.store(0, Relaxed);
            reader.thread.store(thread, Relaxed);
            let mut lists = self.lists();
            lists.push(reader);
            lists.len += 1;
        }
        is_new
    }

    /// Removes the reader, which is the calling thread's, and outside a section. Returns `false` if it was not there.
    pub fn unregister(&self, reader: &InlinedReader) -> bool {
        let is_registered = self.is_registered(reader);
        if is_registered {
            reader.registered.store(0, Relaxed);
            let mut lists = self.lists();
            lists.remove(reader);
            lists.len -= 1;
            drop(lists);
            self.leave_slow(reader);
        }
        is_registered
    }

    /// Returns `true` if the reader, which is the calling thread's, has been added.
    pub fn is_registered(&self, reader: &InlinedReader) -> bool {
        reader.registered.load(Relaxed) != 0
    }

    /// The light fence of sections.
    #[inline(always)]
    fn light(&self) {
        if P::FENCED { light() } else { fence(SeqCst) }
    }

    /// Fences A and B, and the closing fence.
    fn fence(&self) {
        if P::FENCED {
            self.counters.heavy_fences.fetch_add(1, Relaxed);
            heavy();
        } else {
            fence(SeqCst);
        }
    }

    /// Enters a section, for a flavor with sections.
    #[inline(always)]
    pub fn enter(&self, reader: &InlinedReader) {
        let ctr = reader.ctr.load(Relaxed);
        if ctr as u32 == 0 {
            // Release: the scan may see this store in place of the one that left the last section; pairs with the
            // Acquire in `blocks`.
            reader.ctr.store(self.protocol.gp().ctr.load(Relaxed), Release);
            self.light();
        } else {
            // Relaxed: the section is open already.
            reader.ctr.store(ctr + 1, Relaxed);
        }
    }

    /// Leaves a section, for a flavor with sections.
    #[inline(always)]
    pub fn leave(&self, reader: &InlinedReader) {
        let ctr = reader.ctr.load(Relaxed);
        // Release: publishes the section; pairs with the Acquire in `blocks`.
        reader.ctr.store(ctr.wrapping_sub(1), Release);
        if ctr as u32 == 1 {
            self.light();
            if reader.is_awaited() {
                self.leave_slow(reader);
            }
        }
    }

    /// Answers the leader's request, if there is one.
    #[cold]
    #[inline(never)]
    fn leave_slow(&self, reader: &InlinedReader) {
        // `waiting` stays set (6).
        if reader.take_request() {
            self.count_down();
        }
    }

    /// Reports a quiescent state, for qsbr, if the counter has changed since the last one.
    #[inline(always)]
    pub fn quiescent_state(&self, reader: &InlinedReader) {
        let current = self.protocol.gp().ctr.load(Relaxed);
        if reader.ctr.load(Relaxed) != current {
            self.report(reader, current);
        }
    }

    /// For qsbr: stores what the reader has seen, or 0 if it goes offline.
    pub fn report(&self, reader: &InlinedReader, seen: u64) {
        // Before: the loads of the last section, or of the counter, precede the store. After: see `light` in `leave`.
        fence(SeqCst);
        // Release: publishes the reader's sections; pairs with the Acquire in `blocks`.
        reader.ctr.store(seen, Release);
        fence(SeqCst);
        if reader.is_awaited() {
            self.leave_slow(reader);
        }
    }

    /// For qsbr: makes the reader online.
    pub fn online(&self, reader: &InlinedReader) {
        reader.ctr.store(self.protocol.gp().ctr.load(Relaxed), Relaxed);
        fence(SeqCst);
    }

    /// The last reader wakes the leader.
    fn count_down(&self) {
        // Release: publishes the reader's section. Acquire: sees the armed futex (5). Both pair with `wait_for_pass`.
        if self.awaited.fetch_sub(1, AcqRel) == 1 {
            step!("inlined-no-wake-up", {
                self.counters.wakeups.fetch_add(1, Relaxed);
                let futex = &self.protocol.gp().futex;
                futex.store(0, Relaxed);
                futex.wake_shared(1);
            });
        }
    }

    /// Returns `true` if a pass with the counter `current` must wait for the reader.
    fn blocks(&self, reader: &InlinedReader, current: u64) -> bool {
        // Acquire: pairs with the Releases in `leave`, `enter` and `report`, and with the stores of inlined readers on
        // x86-64.
        let ctr = reader.ctr.load(Acquire);
        if P::QSBR {
            ctr != 0 && ctr != current
        } else {
            ctr as u32 != 0 && (ctr ^ current) >> NUMBER_SHIFT != 0
        }
    }

    /// Advances the counter, and begins a pass. Returns the new counter.
    fn begin_pass(&self, lists: &mut Lists) -> u64 {
        // The readers that blocked a grace period which the engine has abandoned: none has a request.
        step!("inlined-abandoned-pass-kept", lists.pass_if(|_| true));
        lists.scanned = 1 - lists.scanned;
        let counter = &self.protocol.gp().ctr;
        let old = counter.load(Relaxed);
        let new = if P::QSBR { old + 2 } else { old.wrapping_add(1 << NUMBER_SHIFT) };
        step!("inlined-wrap-unnoticed", lists.used_up |= new < old);
        // Relaxed: comes after fence A, which is a full barrier between any two instructions of a reader.
        counter.store(new, Relaxed);
        new
    }

    /// Checks the readers one after another, a bounded number of times. Returns `true` if all have passed.
    fn scan(&self, lists: &Lists, current: u64, spins: &mut u32) -> bool {
        lists.pass_if(|reader| {
            while self.blocks(reader, current) {
                if *spins == 0 {
                    return false;
                }
                *spins -= 1;
                spin_loop();
            }
            true
        });
        lists.all_passed()
    }

    /// Arms the futex, makes requests of the readers that block the pass, and checks the readers again.
    fn arm(&self, lists: &Lists, current: u64) {
        // Relaxed: before the Release of `waiting`, fence B, and the Release in `wait_for_pass` (5).
        self.protocol.gp().futex.store(ARMED, Relaxed);
        lists.pass_if(|reader| {
            if !self.blocks(reader, current) {
                return self.has_passed(reader);
            }
            if P::QSBR {
                // Release: publishes the armed futex (6); pairs with the fence of the inlined report.
                reader.waiting.store(1, Release);
            }
            if !reader.is_awaited() {
                self.awaited.fetch_add(1, Relaxed);
                reader.request();
            }
            false
        });
        if !P::TIMED && !lists.all_passed() {
            step!("inlined-no-fence-before-rescan", self.fence());
            step!(
                "inlined-no-rescan",
                lists.pass_if(|reader| !self.blocks(reader, current) && self.has_passed(reader))
            );
        }
    }

    /// Takes back the request to a reader that has left. Returns `true`.
    fn has_passed(&self, reader: &InlinedReader) -> bool {
        if reader.take_request() {
            self.awaited.fetch_sub(1, Relaxed);
        }
        true
    }

    /// Sleeps until all readers have passed.
    fn wait_for_pass(&self, current: u64, detector: &mut StallDetector<'_>) {
        let mut timeouts = iter::successors(Some(50_000), |timeout| Some((timeout * 2).min(1_000_000)));
        // The leader's share. Relaxed: no request is outstanding (3).
        self.awaited.store(1, Relaxed);
        loop {
            let lists = self.lists();
            self.arm(&lists, current);
            // Acquire: the sections of the readers that have counted down. Release: publishes the armed futex. Both
            // pair with `count_down`.
            let left = self.awaited.fetch_sub(1, AcqRel) - 1;
            let mut is_done = false;
            // A reader may have counted down between the check and here; it does not wake the leader (2).
            step!("inlined-share-not-checked", is_done = left == 0);
            if is_done {
                return self.end_pass(&lists);
            }
            drop(lists);
            self.sleep(&mut timeouts, current, detector);
            // Acquire: as above. Takes the share again (2).
            if self.awaited.fetch_add(1, Acquire) == 0 {
                // Relaxed: no request is outstanding (3).
                self.awaited.store(0, Relaxed);
                return self.end_pass(&self.lists());
            }
        }
    }

    /// All readers have left (3).
    fn end_pass(&self, lists: &Lists) {
        self.protocol.gp().futex.store(0, Relaxed);
        lists.pass_if(|_| true);
    }

    /// Completes a grace period whose readers have passed.
    fn close(&self) {
        if P::CLOSING_FENCE {
            step!("inlined-no-closing-fence", self.fence());
        }
    }

    /// Sleeps until a reader wakes the leader, or a report is due; for a bounded time if inlined readers wake none.
    fn sleep(
        &self,
        timeouts: &mut impl Iterator<Item = u64>,
        current: u64,
        detector: &mut StallDetector<'_>,
    ) {
        self.counters.sleeps.fetch_add(1, Relaxed);
        let futex = &self.protocol.gp().futex;
        if futex.load(Relaxed) == ARMED {
            let mut limit = u64::try_from(detector.next_report_in().as_nanos()).unwrap_or(u64::MAX);
            if P::TIMED {
                limit = timeouts.next().map_or(limit, |timeout| limit.min(timeout));
            }
            futex.wait_shared(ARMED, now().checked_add(limit));
            detector.check(|waited| {
                self.report_stalled(current, waited);
                None
            });
        }
    }

    /// Reports some of the readers that block the pass.
    fn report_stalled(&self, current: u64, waited: Duration) {
        let (mut threads, mut len) = ([0; NAMED], 0);
        self.lists().pass_if(|reader| {
            if len < NAMED && self.blocks(reader, current) {
                threads[len] = reader.thread.load(Relaxed);
                len += 1;
            }
            false
        });
        threads[..len].iter().for_each(|&thread| self.protocol.report_stall(thread, waited));
    }

    /// Completes the grace period, unless a reader still blocks it.
    fn try_drain(&self, own: Option<&InlinedReader>) -> Result<(), PendingPass> {
        let mut lists = self.lists();
        if lists.len == usize::from(own.is_some()) {
            // Ordered by the lock.
            return Ok(());
        }
        step!("inlined-no-fence", self.fence());
        let mut current = self.begin_pass(&mut lists);
        let mut more = u32::from(lists.used_up);
        let mut spins = budget(SPINS);
        while self.scan(&lists, current, &mut spins) {
            if more == 0 {
                self.close();
                return Ok(());
            }
            more -= 1;
            current = self.begin_pass(&mut lists);
        }
        Err(PendingPass { current, more })
    }

    /// Sleeps until no reader blocks the grace period.
    fn wait_for_readers(&self, pending: PendingPass, detector: &mut StallDetector<'_>) {
        self.wait_for_pass(pending.current, detector);
        step!(
            "inlined-one-pass-after-wrap",
            for _ in 0..pending.more {
                let current = self.begin_pass(&mut self.lists());
                self.wait_for_pass(current, detector);
            }
        );
        self.close();
    }

    /// Makes the readers those of a process with one thread, which has this id. Its reader is `own`.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and inside no method but those for readers.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, own: Option<&InlinedReader>, thread: u32) {
        // SAFETY: the caller's contract. The lists may be half changed: nothing of them is read. A number may have been
        // advanced without a note that all are used: two passes are always right.
        unsafe { self.lists.overwrite(Mutex::new(Lists::new(true))) };
        self.awaited.store(0, Relaxed);
        self.protocol.gp().futex.store(0, Relaxed);
        if let Some(own) = own {
            own.wake.store(0, Relaxed);
            own.waiting.store(0, Relaxed);
            own.thread.store(thread, Relaxed);
            let mut lists = self.lists();
            lists.push(own);
            lists.len = 1;
        }
    }
}

impl<P: InlinedProtocol> ReaderSet for InlinedReaders<P> {
    type Reader = InlinedReader;

    fn no_other_readers(&self, own: Option<&InlinedReader>) -> bool {
        self.lists().len == usize::from(own.is_some())
    }

    fn drain(&self, own: Option<&InlinedReader>, leader: &mut Leader<'_>) -> bool {
        match self.try_drain(own) {
            Ok(()) => true,
            Err(pending) => leader.sleep(&self.counters, |detector| self.wait_for_readers(pending, detector)),
        }
    }

    fn counters(&self) -> &GpCounters {
        &self.counters
    }

    fn count(&self) -> u64 {
        self.lists().len as u64
    }
}
