//! A grace period, as its leader sees it: passes that scan the readers, and sleep for those that block.
//!
//! The argument, and the numbers, are those of the [module above](super).

use std::iter;
use std::time::Duration;

#[cfg(loom)]
use stillpoint::grace_period::{
    counters::GpCounters,
    detector::StallDetector,
    engine::{Leader, ReaderSet},
};
#[cfg(not(loom))]
use stillpoint::urcu::{GpCounters, Leader, ReaderSet, StallDetector};

use super::readers::{InlinedProtocol, InlinedReaders};
use super::words::{ARMED, InlinedReader, Lists, NUMBER_SHIFT, WAKE, YIELD};
use crate::sync::{Ordering::*, budget, now, outnumber_cpus, spin_loop, step};

/// How often a pass checks readers that block it before it sleeps.
const SPINS: u32 = 200;

/// The number of readers that a stall report names.
const NAMED: usize = 8;

/// The rest of a grace period: the pass in progress waits for readers without `current`; `more` passes follow.
#[derive(Debug)]
struct PendingPass {
    current: u64,
    more: u32,
}

impl<P: InlinedProtocol> InlinedReaders<P> {
    /// Returns `true` if a pass with the counter `current` must wait for the reader.
    fn blocks(&self, reader: &InlinedReader, current: u64) -> bool {
        // Acquire: pairs with the Releases in `leave`, `enter` and `report`, and with the stores of inlined readers
        // on x86-64.
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
            if reader.requests() & WAKE == 0 {
                self.awaited.fetch_add(1, Relaxed);
                reader.request(WAKE);
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

    /// Asks all readers to yield when they leave, if they outnumber CPUs.
    fn request_yields(&self) {
        let lists = self.lists();
        if outnumber_cpus(u32::try_from(lists.len).unwrap_or(u32::MAX)) {
            lists.for_each(|reader| reader.request(YIELD));
        }
    }

    /// Takes back the request to a reader that has left. Returns `true`.
    fn has_passed(&self, reader: &InlinedReader) -> bool {
        if reader.take_requests(WAKE) != 0 {
            self.awaited.fetch_sub(1, Relaxed);
        }
        true
    }

    /// Sleeps until all readers have passed.
    fn wait_for_pass(&self, current: u64, detector: &mut StallDetector<'_>) {
        let mut timeouts = iter::successors(Some(50_000), |timeout| Some((timeout * 2).min(1_000_000)));
        // The leader's share. Relaxed: no request is outstanding (3).
        self.awaited.store(1, Relaxed);
        // Once, not before each sleep: readers would yield as long as one of them is inside.
        step!("inlined-no-yield-requests", self.request_yields());
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
            detector.check(&|waited| {
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
