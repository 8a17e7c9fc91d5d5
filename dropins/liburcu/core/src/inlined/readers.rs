//! The readers, and what their owners do: they register, and enter and leave sections by functions.
//!
//! The numbers are those of the [module above](super).

use std::time::Duration;

use stillpoint::fence::{heavy, light};
#[cfg(loom)]
use stillpoint::grace_period::counters::GpCounters;
#[cfg(not(loom))]
use stillpoint::urcu::GpCounters;

use super::words::{Gp, InlinedReader, Lists, WAKE, YIELD};
use crate::sync::{
    AtomicU32, ForkSafe, Mutex, MutexGuard, Ordering::*, budget, const_unless_loom, fence, has_normal_policy,
    step, yield_now,
};

/// How often a reader that leaves by a function yields while the leader sleeps, if readers outnumber CPUs.
const YIELDS: u32 = 3;

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
    pub(super) protocol: P,
    lists: ForkSafe<Mutex<Lists>>,
    /// See (1).
    pub(super) awaited: AtomicU32,
    pub(super) counters: GpCounters,
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

    pub(super) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<P: InlinedProtocol> InlinedReaders<P> {
    /// Adds the calling thread's reader. Returns `false` if it has been added before. `thread` returns the id of the
    /// thread. It is called once for a thread: a system call takes longer than the rest of a registration.
    ///
    /// # Safety
    ///
    /// The reader stays in place, and valid, until [`unregister`](Self::unregister) or
    /// [`reset_in_child`](Self::reset_in_child).
    pub unsafe fn register(&self, reader: &InlinedReader, thread: impl FnOnce() -> u32) -> bool {
        let is_new = !self.is_registered(reader);
        if is_new {
            reader.registered.store(1, Relaxed);
            reader.requests.store(0, Relaxed);
            reader.waiting.store(0, Relaxed);
            // Relaxed, in all accesses: the owner stores it, and the lock orders the loads of reports.
            if reader.thread.load(Relaxed) == 0 {
                reader.thread.store(thread(), Relaxed);
            }
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
    pub(super) fn fence(&self) {
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
            if reader.requests() != 0 {
                self.leave_slow(reader);
            }
        }
    }

    /// Answers the leader's requests, if there are any.
    #[cold]
    #[inline(never)]
    fn leave_slow(&self, reader: &InlinedReader) {
        // `waiting` stays set (6).
        let requests = reader.take_requests(WAKE | YIELD);
        if requests & WAKE != 0 {
            self.count_down();
        }
        // Relaxed, here and below: a hint. The leader of an earlier grace period may have made the request.
        let is_awaited = requests & WAKE != 0 || self.awaited.load(Relaxed) != 0;
        if requests & YIELD != 0 && is_awaited && has_normal_policy() {
            for _ in 0..budget(YIELDS) {
                yield_now();
                if self.awaited.load(Relaxed) == 0 {
                    break;
                }
            }
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
        if reader.requests() != 0 {
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

    /// Makes the readers those of a process with one thread, which has this id. Its reader, registered or not, is
    /// `own`.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and inside no method but those for
    /// readers.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, own: Option<&InlinedReader>, thread: u32) {
        // SAFETY: the caller's contract. The lists may be half changed: nothing of them is read. A number may have
        // been advanced without a note that all are used: two passes are always right.
        unsafe { self.lists.overwrite(Mutex::new(Lists::new(true))) };
        self.awaited.store(0, Relaxed);
        self.protocol.gp().futex.store(0, Relaxed);
        let Some(own) = own else { return };
        own.thread.store(thread, Relaxed);
        if self.is_registered(own) {
            own.requests.store(0, Relaxed);
            own.waiting.store(0, Relaxed);
            let mut lists = self.lists();
            lists.push(own);
            lists.len = 1;
        }
    }
}
