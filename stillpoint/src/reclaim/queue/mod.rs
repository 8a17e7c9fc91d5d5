//! A queue of callbacks: those that one thread has deferred, in order, until they have run.
//!
//! Each reader of the registry has a queue. The *owner*, the thread that the reader belongs to, pushes callbacks. A
//! *consumer*, the domain's worker or the owner itself, claims the front of the queue and pops them. Callbacks lie in
//! linked [blocks](front), so a push is a few plain stores, and one allocation in [`BLOCK`]. The next owner
//! of the reader continues its queue.
//!
//! # State
//!
//! A position is a number of callbacks, counted from the first push. (Amounts and limits count one for the values of
//! a batch as many times as there are.) The segments are as in the kernel's
//! `rcu_segcblist`.
//!
//! ```text
//!     completed    next     ready_end   waiting_end    tail
//! --------|----------|----------|------------|----------|
//!    have | popped,  |  ready   |  wait for  |  have no |
//!    run  | running  |  to run  |  `cookie`  |  cookie  |
//! ```
//!
//! The positions of a new queue, when the owner pushes *a*, *b* and, later, *c*:
//!
//! ```text
//!                                           completed  next  ready_end  waiting_end  tail  cookie
//! the owner pushes a and b                      0        0       0           0         2    none
//! the worker assigns a cookie                   0        0       0           2         2    8
//! the owner pushes c                            0        0       0           2         3    8
//! grace period 8 has ended: advance             0        0       2           2         3    none
//! the worker pops a, and runs it                0        1       2           2         3    none
//! the same with b; it releases the claim        2        2       2           2         3    none
//! the worker assigns a cookie                   2        2       2           3         3    9
//! ```
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `tail` | owner | callbacks pushed |
//! | `worker_end` | owner | the position after the last callback that the owner must not run |
//! | `unreported` | owner | what the owner has pushed and run since its last report to the backlog |
//! | `completed` | consumer | callbacks that have run |
//! | `awaited` | barriers | callbacks that a barrier waits for, or has waited for |
//! | `claim` | all | [`FREE`] or [`CLAIMED`] |
//! | others | consumer | as shown |
//!
//! # Invariants
//!
//! 1. `completed <= next <= ready_end <= waiting_end <= tail`, and none of them ever decreases.
//! 2. `cookie` was taken after the callbacks below `waiting_end` were seen. When it is done, a grace period has begun
//!    after they were pushed, and has ended.
//! 3. The thread that has set `claim` is the only consumer until it clears it, also while the callbacks from
//!    `completed` to `next` run. No thread waits for a claim. So a slow callback delays those behind it in its queue,
//!    and no others.
//! 4. The consumer gives up a block when it proceeds to the next one, so never the owner's last block.
//!
//! # Orderings
//!
//! The owner's Release of `tail` publishes callbacks, blocks and links to the consumer. The consumer's Release of
//! `completed` publishes the effects of callbacks to `barrier`. A claim acquires what the last consumer released with
//! its own.

pub mod front;

use self::front::{BLOCK, Block, CLAIMED, Claim, FREE, Front, OwnerBlocks};
use crate::fence::light;
use crate::grace_period::engine::GpCookie;
use crate::readers::any::AnyEngine;
use crate::reclaim::amount::{Amount, Reported, Unreported};
use crate::reclaim::callback::Callback;
use crate::slots::protected::Protected;
use crate::sync::{AtomicU64, CachePadded, Ordering::*, const_unless_loom, now, spin_loop};

/// Bytes after which the owner flushes, however few the callbacks; it also flushes after each [`BLOCK`].
const FLUSH_BYTES: u64 = 64 << 10;
/// The owner runs as many of its ready callbacks in as many pushes, so that what it frees is what it allocates next:
/// the C library keeps seven pieces of a size within easy reach.
pub const STEP: u64 = if cfg!(loom) { 1 } else { 4 };
/// Callbacks that the worker runs at a time.
const BATCH: u64 = if cfg!(loom) { 2 } else { 32 };
/// How often the worker tries to claim the front: a step of the owner takes less time.
const CLAIM_ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 100 };
/// Nanoseconds for each callback that the owner's own grace periods may take.
const OWN_GP_SHARE: u64 = 2;
/// Callbacks between two grace periods of the owner: at least, and at most.
const OWN_GP_INTERVAL: [u64; 2] = [2 * BLOCK, 8192];

/// What the owner must do after a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PushAction {
    None,
    /// Run [`STEP`] of its ready callbacks.
    ReclaimSome,
    /// Run ready callbacks, and report to the backlog: after callbacks that count as a block, or many bytes.
    Flush,
    /// Report what was pushed, as much as for [`Flush`](Self::Flush), and run and wake nothing: the caller only pushes.
    Report,
}

/// What queues contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    /// Nothing: all callbacks have run.
    None,
    /// Only what hazard pointers kept when the worker looked last.
    Kept,
    /// Callbacks that are to run soon.
    Urgent,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Queue {
    owner: CachePadded<OwnerSide>,
    front: CachePadded<Front>,
}

/// What the owner writes.
#[derive(Debug)]
struct OwnerSide {
    tail: AtomicU64,
    worker_end: AtomicU64,
    unreported: Unreported,
    /// What the owner has reported since it last flushed.
    since_flush: AtomicU64,
    /// Ready callbacks that the owner has left for its next steps; some may have run since.
    ready: AtomicU64,
    /// What the owner has reported since its last own grace period, and what it must have for the next one.
    since_gp: AtomicU64,
    gp_interval: AtomicU64,
    blocks: OwnerBlocks,
}

// SAFETY: the owner alone accesses its end of `blocks`, and the thread that has set `claim` alone accesses
// `consumer`; everything else is atomic. Callbacks are `Send`.
unsafe impl Sync for Queue {}
// SAFETY: a queue goes from one owner to the next through the registry, which orders the two.
unsafe impl Send for Queue {}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                owner: CachePadded::new(OwnerSide {
                    tail: AtomicU64::new(0),
                    worker_end: AtomicU64::new(0),
                    unreported: Unreported::new(),
                    since_flush: AtomicU64::new(0),
                    ready: AtomicU64::new(0),
                    since_gp: AtomicU64::new(0),
                    gp_interval: AtomicU64::new(0),
                    blocks: OwnerBlocks::new(),
                }),
                front: CachePadded::new(Front::new()),
            }
        }
    }

    /// Returns the number of callbacks pushed.
    pub fn tail(&self) -> u64 {
        // Acquire: the callbacks themselves; pairs with the Release in `push`.
        self.owner.tail.load(Acquire)
    }

    /// Returns the number of callbacks that have run, and acquires their effects.
    pub fn completed(&self) -> u64 {
        // Acquire: pairs with the Release in `Claim::run`.
        self.front.completed.load(Acquire)
    }

    /// Returns `true` if a callback has not run.
    pub fn has_pending(&self) -> bool {
        self.completed() < self.tail()
    }

    /// Returns how many callbacks must have run for a barrier that begins. Calls `awaits` if the owner may run the
    /// last of them: then the barrier executes a heavy fence, and looks at `completed`, before it waits. See
    /// [`run_local`](Self::run_local).
    pub fn await_tail(&self, awaits: impl FnOnce()) -> u64 {
        let tail = self.tail();
        // Relaxed: written before the `tail` that was acquired, or for a callback behind it.
        let owner_may_run_last = self.owner.worker_end.load(Relaxed) != tail;
        if owner_may_run_last && self.completed() < tail {
            // Relaxed: ordered by the fences, as in `run_local`.
            self.front.awaited.fetch_max(tail, Relaxed);
            awaits();
        }
        tail
    }

    /// Appends a callback.
    ///
    /// # Safety
    ///
    /// Only the owner may call this, and not from a signal handler.
    #[inline]
    pub unsafe fn push(&self, callback: Callback) -> PushAction {
        let owner = &self.owner;
        // Relaxed, as all loads here: only the owner writes these.
        let tail = owner.tail.load(Relaxed);
        let amount = Amount::of(&callback);
        let [count, bytes] = owner.unreported.push(amount);
        if !callback.may_run_on_owner() {
            owner.worker_end.store(tail + 1, Relaxed);
        }
        let is_push_only = callback.is_push_only();
        // SAFETY: the caller's contract; the consumer does not access the position before `tail` covers it.
        unsafe { owner.blocks.write(tail, callback) };
        // Release: publishes the callback, and all that the owner did before, such as unpublishing what the callback
        // frees; pairs with the Acquire in `tail`.
        owner.tail.store(tail + 1, Release);
        if is_push_only {
            if bytes >= FLUSH_BYTES || count >= BLOCK { PushAction::Report } else { PushAction::None }
        } else if bytes >= FLUSH_BYTES || owner.since_flush.load(Relaxed) + count >= BLOCK {
            PushAction::Flush
        } else if count % STEP < amount.count && owner.ready.load(Relaxed) != 0 {
            PushAction::ReclaimSome
        } else {
            PushAction::None
        }
    }

    /// Returns `true` if the owner should try a grace period of its own.
    pub fn own_gp_is_due(&self) -> bool {
        // Relaxed: only the owner accesses these.
        self.owner.since_gp.load(Relaxed) >= self.owner.gp_interval.load(Relaxed)
    }

    /// The owner has tried a grace period of its own, which took `nanoseconds`. The next one comes when the callbacks
    /// have paid for it ([`OWN_GP_SHARE`]). With few of them in flight their memory stays in the cache, so a cheap
    /// grace period (no other thread runs that it would interrupt) is worthwhile soon. At least half of them are
    /// freed then, however many of the `slots` of hazard pointers are in use, which are all looked at.
    pub fn own_gp_took(&self, nanoseconds: u64, slots: u64) {
        let [least, most] = OWN_GP_INTERVAL;
        let interval = (nanoseconds / OWN_GP_SHARE).clamp(least, most).max(2 * slots);
        // Relaxed: only the owner accesses these.
        self.owner.since_gp.store(0, Relaxed);
        self.owner.gp_interval.store(interval, Relaxed);
    }

    /// For the owner: reports what it has pushed and what it has run since the last call. Returns `true` if it has run
    /// callbacks.
    pub fn report(&self, reported: &Reported) -> bool {
        let [pushed, run] = self.owner.unreported.report(reported);
        self.count_reported(pushed);
        run != 0
    }

    /// For the owner: reports only what it has pushed, so that there is nothing that others wait for.
    #[cold]
    pub fn report_pushed(&self, reported: &Reported) {
        self.count_reported(self.owner.unreported.report_pushed(reported));
    }

    fn count_reported(&self, pushed: u64) {
        // Relaxed: only the owner accesses these.
        let raise = |since: &AtomicU64| since.store(since.load(Relaxed) + pushed, Relaxed);
        raise(&self.owner.since_flush);
        raise(&self.owner.since_gp);
    }

    /// The owner has reported, and is throttled if too much waits: not so after each report.
    pub fn flushes(&self) {
        // Relaxed: only the owner accesses it.
        self.owner.since_flush.store(0, Relaxed);
    }

    /// Returns what the owner has pushed and run since the last report, which only the owner may change.
    pub fn unreported(&self) -> &Unreported {
        &self.owner.unreported
    }

    /// Returns `true` if the owner has run so much more than it has pushed that it should report. It may push nothing
    /// for long, and what it has run counts until then: so no callbacks, and few bytes. (It runs no more callbacks
    /// than it pushes, unless they count as several.)
    pub fn has_freed_much(&self) -> bool {
        self.owner.unreported.has_run_more(FLUSH_BYTES / 16)
    }

    /// Claims the front if it is free.
    fn try_claim(&self) -> Option<Claim<'_>> {
        // Acquire: what the last consumer did; pairs with the Release in `Claim::release`. Relaxed: a failure reads
        // nothing else.
        self.front.claim.compare_exchange(FREE, CLAIMED, Acquire, Relaxed).ok().map(|_| Claim(&self.front))
    }

    /// For the worker: assigns a cookie to callbacks without one, unless others still wait for theirs. Returns the
    /// cookie that the queue waits for, and whether the worker can leave the queue to its owner. Returns `None` if
    /// the owner is running callbacks, and for longer than a step takes.
    pub fn assign_cookies(&self, engine: &AnyEngine) -> Option<(Option<GpCookie>, bool)> {
        let try_claim = |_| {
            let claim = self.try_claim();
            if claim.is_none() {
                spin_loop();
            }
            claim
        };
        let claim = (0..CLAIM_ATTEMPTS).find_map(try_claim)?;
        let found = claim.with(|consumer| {
            consumer.activity.assess(self.tail(), consumer.next, now());
            let owner_may_run_all = self.owner_may_run_from(consumer.next);
            consumer.accelerate(&self.front, engine, || self.tail());
            (consumer.cookie, consumer.activity.reclaims && owner_may_run_all)
        });
        claim.release();
        Some(found)
    }

    /// Returns `true` if the owner may run all callbacks from `next` to the `tail` that the caller has just loaded.
    fn owner_may_run_from(&self, next: u64) -> bool {
        // Relaxed: written before that `tail`, which was acquired.
        self.owner.worker_end.load(Relaxed) <= next
    }

    /// For the worker: runs some ready callbacks by `run`, none after the time `end`, and then calls `count` with how
    /// much that was. Those that the owner may run are left to an owner that is active, unless `all`. Returns `true`
    /// if a callback has run.
    pub fn run_batch(
        &self,
        engine: &AnyEngine,
        all: bool,
        end: u64,
        run: impl Fn(Callback, &mut Option<Protected>),
        count: impl FnOnce(Amount),
    ) -> bool {
        let Some(claim) = self.try_claim() else { return false };
        let leave = claim.with(|consumer| {
            consumer.advance(&self.front, engine);
            // Not if nothing lies behind those that are ready: the owner may have stopped, and there is no grace
            // period to wait for. Nor if there is a callback that only the worker may run: each would stop at the
            // other's.
            !all && consumer.activity.pushes
                && self.tail() > self.front.ready_end.load(Relaxed)
                && self.owner_may_run_from(consumer.next)
        });
        let has_run = claim.run(
            (&self.owner.blocks, engine.id()),
            [BATCH, end],
            |callback| leave && callback.may_run_on_owner(),
            Block::free,
            run,
            count,
        );
        claim.release();
        has_run
    }

    /// For the owner: runs ready callbacks that it may run, at most `limit`, by `run`, and assigns a cookie to
    /// others. Returns `true` if a barrier may wait for what has run.
    ///
    /// Either the light fence precedes the heavy one of a barrier, which then finds that the callbacks have run, or
    /// this finds that they are awaited.
    #[must_use]
    pub fn run_local(
        &self,
        limit: u64,
        engine: &AnyEngine,
        run: impl Fn(Callback, &mut Option<Protected>),
    ) -> bool {
        // The worker has the claim, or this thread itself: a destructor that it runs here may defer something.
        let Some(claim) = self.try_claim() else { return false };
        let first = claim.with(|consumer| {
            consumer.advance(&self.front, engine);
            consumer.next
        });
        // SAFETY: this is the owner, and the consumer gives up the block (4).
        let keep = |block| unsafe { self.owner.blocks.keep(block) };
        let count = |amount: Amount| self.owner.unreported.run(amount);
        let has_run = claim.run(
            (&self.owner.blocks, engine.id()),
            [limit, u64::MAX],
            |callback| !callback.may_run_on_owner(),
            keep,
            run,
            count,
        );
        claim.with(|consumer| {
            // Relaxed: only the owner writes it.
            self.owner.ready.store(self.front.ready_end.load(Relaxed) - consumer.next, Relaxed);
            consumer.accelerate(&self.front, engine, || self.tail());
        });
        claim.release();
        if !has_run {
            return false;
        }
        light();
        self.front.awaited.load(Relaxed) > first
    }

    /// Returns when the oldest callback that has not run was assigned its cookie, if it was: nanoseconds of [`now`].
    /// A statistic.
    pub fn oldest(&self) -> Option<u64> {
        let (front, completed) = (&self.front, self.completed());
        let segments = [(&front.ready_end, &front.ready_since), (&front.waiting_end, &front.waiting_since)];
        // Relaxed: the numbers may be of different moments.
        segments.iter().find(|(end, _)| completed < end.load(Relaxed)).map(|(_, since)| since.load(Relaxed))
    }

    /// Forgets all callbacks, which the parent runs, and the claim.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and inside none of these methods.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        let OwnerSide { tail, worker_end, since_flush, ready, gp_interval, blocks, .. } = &*self.owner;
        [tail, worker_end, since_flush, ready, gp_interval]
            .iter()
            .for_each(|position| position.store(0, Relaxed));
        self.owner.unreported.forget();
        // SAFETY: the caller's contract.
        unsafe {
            blocks.reset_in_child();
            self.front.reset_in_child();
        }
    }
}

#[cfg(not(loom))]
impl Drop for Queue {
    /// Callbacks that have not run leak what they hold; a domain's queues are empty when it is dropped.
    fn drop(&mut self) {
        // SAFETY: no other thread has the queue.
        unsafe {
            let front = self.front.consumer.with(|consumer| (*consumer).block);
            self.owner.blocks.free_all(front);
        }
    }
}
