//! The deferred entries of one thread, in order, until they have run.
//!
//! Each reader of the registry has a queue. Its *owner*, the thread that the reader belongs to, appends; the thread that has
//! *claimed* the front takes from it: the domain's worker, or the owner itself. Blocks of [`BLOCK`] entries are linked, so
//! appending is a few plain stores, and one allocation in [`BLOCK`]. A queue stays with its reader when a thread ends, and
//! goes on with the next owner.
//!
//! # State
//!
//! Entries are counted from the beginning of time; a position never goes back.
//!
//! ```text
//!      done      head      ripe      pending      pushed
//! ------|---------|---------|-----------|------------|
//!  have |  taken, |  may    |  wait for |   have no  |
//!  run  | running |  run    |  `due`    |  grace     |
//!       |         |         |           |  period    |
//! ```
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `pushed` | owner | entries appended |
//! | `eager` | owner | how far somebody wants them soon: lazy entries do not move it |
//! | `added`, `freed` | owner | entries and bytes that the domain's backlog does not know of yet |
//! | `done` | consumer | entries that have run |
//! | `claim` | all | [`FREE`], [`CLAIMED`], or [`WANTED`]: claimed, and the worker sleeps until it is free again |
//! | others | consumer: the thread that has set `claim` | as shown |
//!
//! # Invariants
//!
//! 1. `done <= head <= ripe <= pending <= pushed`.
//! 2. `due` was asked for after the entries below `pending` were seen: when it is done, a grace period has begun after
//!    they were appended, and has ended.
//! 3. From setting `claim` to giving it back a thread is the only consumer, also while it runs the entries from `done` to
//!    `head`. No thread ever waits for a claim: one that does not get it does something else. So an entry that takes its time
//!    delays those behind it in its queue, and no others.
//! 4. A block is given back when the consumer goes on to its successor: never the owner's last.
//!
//! # Orderings
//!
//! The owner's stores to a block, and the links, happen before its Release of `pushed`, which the consumer acquires. What
//! an entry did happens before the Release of `done`, which `barrier` acquires. Claiming acquires what the consumer before
//! has released by giving its claim back.

use core::ptr;

use crossbeam_utils::CachePadded;

use crate::grace_period::cookie::GpCookie;
use crate::readers::registry::Attached;
use crate::reclaim::backlog::{Amount, LocalCount};
use crate::reclaim::callback::Callback;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, UnsafeCell, const_unless_loom, now, step};

/// Entries in a block; the owner does its bookkeeping once in as many.
pub const BLOCK: u64 = if cfg!(loom) { 2 } else { 64 };

/// Entries after which the owner runs as many of its own that are ripe, so that what it frees is what it allocates next: the
/// C library keeps seven pieces of a size within easy reach.
pub const STEP: u64 = if cfg!(loom) { 1 } else { 4 };

/// Nanoseconds that a grace period of its own may cost the owner for each entry, and the entries that pay for one.
const SHARE: u64 = 2;
const LEAST: u64 = 2 * BLOCK;
const MOST: u64 = 8192;

/// What the owner has to do after appending an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PushAction {
    None,
    /// Run a [`STEP`] of its own entries, which are ripe.
    ReclaimSome,
    /// Its bookkeeping: see [`Queue::report`].
    Flush,
}

/// Bytes after which the owner does its bookkeeping, however few the entries.
pub const REPORT_BYTES: u64 = 64 << 10;

/// See the [module](self).
#[derive(Debug)]
pub struct Queue {
    owner: CachePadded<Owner>,
    front: CachePadded<Front>,
}

/// What the consumer writes.
#[derive(Debug)]
struct Front {
    claim: AtomicU32,
    done: AtomicU64,
    ripe: AtomicU64,
    pending: AtomicU64,
    /// When the entries up to `ripe`, and up to `pending`, got a grace period: nanoseconds of [`now`].
    since: [AtomicU64; 2],
    consumer: UnsafeCell<Consumer>,
}

/// No thread takes entries.
const FREE: u32 = 0;
/// A thread does.
const CLAIMED: u32 = 1;
/// The same, and the worker is to be woken when it has done.
const WANTED: u32 = 2;

#[derive(Debug)]
struct Owner {
    pushed: AtomicU64,
    eager: AtomicU64,
    added: LocalCount,
    freed: LocalCount,
    /// Ripe entries that the owner has left for its next steps; some may have been taken since.
    ripe: AtomicU64,
    /// `pushed` when the owner tries its next grace period.
    next_try: AtomicU64,
    /// The first block, once there is one.
    first: AtomicPtr<Block>,
    tail: UnsafeCell<Tail>,
}

/// What only the owner touches.
#[derive(Debug)]
struct Tail {
    /// The last block.
    block: *mut Block,
    /// An empty one.
    spare: *mut Block,
}

impl Tail {
    const NEW: Self = Self { block: ptr::null_mut(), spare: ptr::null_mut() };
}

/// What only the consumer touches.
#[derive(Debug)]
struct Consumer {
    /// The block of the entry before `head`.
    block: *mut Block,
    head: u64,
    due: Option<GpCookie>,
    /// `pushed` when the worker last looked.
    seen: u64,
    /// Whether the owner had appended a block since the look before, and so will soon do its bookkeeping.
    owner_appends: bool,
}

// SAFETY: `tail` is the owner's, `consumer` belongs to the thread that has claimed it; everything else is atomic. Entries
// are `Send`.
unsafe impl Sync for Queue {}
// SAFETY: a queue goes from one owner to the next through the registry, which orders the two.
unsafe impl Send for Queue {}

#[derive(Debug)]
struct Block {
    next: AtomicPtr<Block>,
    entries: [UnsafeCell<Option<Callback>>; BLOCK as usize],
}

impl Block {
    fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            entries: core::array::from_fn(|_| UnsafeCell::new(None)),
        }
    }
}

/// Entries that the worker runs at a time.
const BATCH: u64 = if cfg!(loom) { 2 } else { 32 };

/// The queue has been claimed by its owner, which will wake the worker when it has done: see [`Queue::run_local`].
#[derive(Debug)]
pub struct Held;

/// The right to take entries.
#[derive(Debug)]
struct Claim<'a> {
    queue: &'a Queue,
}

/// What a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    /// Nothing: all have run.
    None,
    /// Lazy entries only.
    Lazy,
    /// Entries that somebody wants to run soon.
    Urgent,
}

impl Attached for Queue {
    fn new() -> Self {
        Self::new()
    }

    #[cfg(not(loom))]
    unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.reset_in_child() };
    }
}

impl Queue {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                owner: CachePadded::new(Owner {
                    pushed: AtomicU64::new(0),
                    eager: AtomicU64::new(0),
                    added: LocalCount::new(),
                    freed: LocalCount::new(),
                    ripe: AtomicU64::new(0),
                    next_try: AtomicU64::new(0),
                    first: AtomicPtr::new(ptr::null_mut()),
                    tail: UnsafeCell::new(Tail::NEW),
                }),
                front: CachePadded::new(Front {
                    claim: AtomicU32::new(FREE),
                    done: AtomicU64::new(0),
                    ripe: AtomicU64::new(0),
                    pending: AtomicU64::new(0),
                    since: [AtomicU64::new(0), AtomicU64::new(0)],
                    consumer: UnsafeCell::new(Consumer::NEW),
                }),
            }
        }
    }

    /// Entries appended. What was appended before is there for who takes it.
    pub fn pushed(&self) -> u64 {
        // Acquire: partner is the Release in `push`.
        self.owner.pushed.load(Acquire)
    }

    /// Entries that have run, and what they did has happened.
    pub fn done(&self) -> u64 {
        // Acquire: partner is the Release in `Claim::run`.
        self.front.done.load(Acquire)
    }

    /// What is left to run.
    pub fn holds(&self) -> Pending {
        let done = self.done();
        // Acquire: who sees that an entry is wanted finds it.
        if done < self.owner.eager.load(Acquire) {
            Pending::Urgent
        } else if done < self.pushed() {
            Pending::Lazy
        } else {
            Pending::None
        }
    }

    /// Appends `entry`.
    ///
    /// # Safety
    ///
    /// Only the owner may call this, and not from a signal handler.
    #[inline]
    pub unsafe fn push(&self, entry: Callback, lazy: bool) -> PushAction {
        let owner = &self.owner;
        // Relaxed, as all loads here: only the owner writes these.
        let at = owner.pushed.load(Relaxed);
        let place = at % BLOCK;
        if place == 0 {
            self.extend();
        }
        let bytes = owner.added.add(1, entry.bytes() as u64);
        // SAFETY: only the owner uses `tail`, the block is there, and nobody looks at the entry before `pushed` covers it.
        unsafe {
            let block = owner.tail.with(|tail| (*tail).block);
            (*block).entries[place as usize].with_mut(|slot| slot.write(Some(entry)));
        }
        // Release: the entry, and all that the owner did before, such as unpublishing what is to be freed. Partner: the
        // Acquire in `pushed`.
        owner.pushed.store(at + 1, Release);
        if !lazy {
            // Release: partner is the Acquire in `holds`.
            owner.eager.store(at + 1, Release);
        }
        if bytes >= REPORT_BYTES || place == BLOCK - 1 {
            PushAction::Flush
        } else if place % STEP == STEP - 1 && owner.ripe.load(Relaxed) != 0 {
            PushAction::ReclaimSome
        } else {
            PushAction::None
        }
    }

    /// Links another block.
    #[cold]
    fn extend(&self) {
        // SAFETY: only the owner, who calls this, uses `tail`.
        let (last, spare) = self.owner.tail.with_mut(|tail| unsafe {
            ((*tail).block, core::mem::replace(&mut (*tail).spare, ptr::null_mut()))
        });
        let fresh = if spare.is_null() { Box::into_raw(Box::new(Block::new())) } else { spare };
        // Relaxed: the consumer follows the link when `pushed` has told it of an entry behind it.
        if last.is_null() {
            self.owner.first.store(fresh, Relaxed);
        } else {
            // SAFETY: the last block is the owner's (4).
            unsafe { (*last).next.store(fresh, Relaxed) };
        }
        // SAFETY: as above.
        self.owner.tail.with_mut(|tail| unsafe { (*tail).block = fresh });
    }

    /// Whether the owner should try a grace period of its own.
    pub fn is_due(&self) -> bool {
        let owner = &self.owner;
        // Relaxed, here and below: only the owner uses these.
        owner.pushed.load(Relaxed) >= owner.next_try.load(Relaxed)
    }

    /// The owner has tried a grace period of its own, which took `time`: so long will it be until the next that it costs each
    /// entry [`SHARE`] nanoseconds. With few entries in flight their memory stays in the cache, so one that costs little (no
    /// other thread runs, so that there is nobody to interrupt) is worth while soon.
    pub fn tried(&self, time: u64) {
        let entries = (time / SHARE).clamp(LEAST, MOST);
        self.owner.next_try.store(self.owner.pushed.load(Relaxed) + entries, Relaxed);
    }

    /// What was appended, and what the owner has run, since the last call. The owner calls this, and tells the domain.
    pub fn report(&self) -> [Amount; 2] {
        [&self.owner.added, &self.owner.freed].map(LocalCount::take)
    }

    /// What the domain has not been told. Statistics: the numbers may be of different moments.
    pub fn unreported(&self) -> [Amount; 2] {
        [&self.owner.added, &self.owner.freed].map(LocalCount::amount)
    }

    /// Whether the owner has run so much more than it has added that the domain, which knows of neither, should.
    pub fn has_freed_much(&self) -> bool {
        let [added, freed] = self.unreported();
        freed.bytes >= added.bytes + REPORT_BYTES / 16
    }

    /// Claims the front, if it is free.
    fn try_claim(&self) -> Option<Claim<'_>> {
        // Acquire: what the last consumer did; partner: the Release in `Claim::give_back`. Relaxed: a failure reads nothing else.
        let claimed = self.front.claim.compare_exchange(FREE, CLAIMED, Acquire, Relaxed);
        claimed.is_ok().then(|| Claim { queue: self })
    }

    /// Claims the front for the worker, or has the thread that takes entries wake the worker when it has done.
    fn claim_or_want(&self) -> Result<Claim<'_>, Held> {
        loop {
            if let Some(claim) = self.try_claim() {
                return Ok(claim);
            }
            // Relaxed: the mark carries nothing.
            match self.front.claim.compare_exchange(CLAIMED, WANTED, Relaxed, Relaxed) {
                Ok(_) | Err(WANTED) => return Err(Held),
                Err(_) => {}
            }
        }
    }

    /// Whether there are entries for the worker, `lazy` ones if they are to run too, though not in a queue whose owner will wake it.
    pub fn is_ready(&self, lazy: bool) -> bool {
        let least = if lazy { Pending::Lazy } else { Pending::Urgent };
        // Relaxed: the worker asks after an operation on its state that acquires, and the owner wakes it by one that releases.
        self.holds() >= least && self.front.claim.load(Relaxed) != WANTED
    }

    /// For the worker: gives entries that have no grace period to wait for one, by `ask`; the one that the queue
    /// waits for.
    ///
    /// # Errors
    ///
    /// The owner is running entries, and will wake the worker.
    pub fn assign_cookies(
        &self,
        done: impl Fn(GpCookie) -> bool,
        ask: impl Fn() -> GpCookie,
    ) -> Result<Option<GpCookie>, Held> {
        let claim = self.claim_or_want()?;
        let due = claim.with(|consumer| {
            let pushed = self.pushed();
            consumer.owner_appends = pushed - consumer.seen >= BLOCK;
            consumer.seen = pushed;
            consumer.accelerate(self, done, ask);
            consumer.due
        });
        claim.give_back();
        Ok(due)
    }

    /// For the worker: runs some entries whose grace period is over, by `run`; how much that was. Local entries of an owner that is
    /// appending are left to it, unless `all`.
    pub fn run_batch(&self, done: impl Fn(GpCookie) -> bool, all: bool, run: impl Fn(Callback)) -> Amount {
        let Some(claim) = self.try_claim() else { return Amount::default() };
        let leave = claim.with(|consumer| {
            consumer.advance(self, done);
            !all && consumer.owner_appends
        });
        claim.run(BATCH, |entry| leave && entry.may_run_on_owner(), drop_block, run)
    }

    /// For the owner: runs local entries whose grace period is over, at most `limit`, by `run`, and gives others one to wait
    /// for. What has run is part of the next [`report`](Self::report). True if the caller must wake the worker, which has found
    /// the queue claimed.
    #[must_use]
    pub fn run_local(
        &self,
        limit: u64,
        done: impl Fn(GpCookie) -> bool,
        ask: impl Fn() -> GpCookie,
        run: impl Fn(Callback),
    ) -> bool {
        // The worker has it, or this thread itself: a destructor that it runs here may defer something.
        let Some(claim) = self.try_claim() else { return false };
        claim.with(|consumer| consumer.advance(self, &done));
        let amount = claim.run(limit, |entry| !entry.may_run_on_owner(), |block| self.keep(block), run);
        claim.with(|consumer| {
            // Relaxed: the owner's.
            self.owner.ripe.store(self.front.ripe.load(Relaxed) - consumer.head, Relaxed);
            consumer.accelerate(self, done, ask);
        });
        self.owner.freed.add(amount.count, amount.bytes);
        claim.give_back()
    }

    /// The owner has emptied `block`: it keeps one for later.
    fn keep(&self, block: *mut Block) {
        // SAFETY: only the owner, who calls this, uses `tail`; the block is empty and nobody's (4).
        self.owner.tail.with_mut(|tail| unsafe {
            if (*tail).spare.is_null() {
                (*block).next.store(ptr::null_mut(), Relaxed);
                (*tail).spare = block;
            } else {
                drop_block(block);
            }
        });
    }

    /// Since when the oldest entry has waited that a consumer has seen, if there is one: nanoseconds of [`now`]. A statistic.
    pub fn oldest(&self) -> Option<u64> {
        let Front { ripe, pending, since: [of_ripe, of_pending], .. } = &*self.front;
        let done = self.done();
        // Relaxed: the numbers may be of different moments.
        if done < ripe.load(Relaxed) {
            Some(of_ripe.load(Relaxed))
        } else if done < pending.load(Relaxed) {
            Some(of_pending.load(Relaxed))
        } else {
            None
        }
    }

    /// Forgets everything: the entries are the parent's, and so is the claim.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and goes on in no function of the queue.
    pub unsafe fn reset_in_child(&self) {
        let (owner, front) = (&self.owner, &self.front);
        for word in [
            &owner.pushed,
            &owner.eager,
            &owner.ripe,
            &owner.next_try,
            &front.done,
            &front.ripe,
            &front.pending,
        ] {
            word.store(0, Relaxed);
        }
        // What the domain has not been told.
        self.report();
        owner.first.store(ptr::null_mut(), Relaxed);
        // SAFETY: nobody else uses it.
        owner.tail.with_mut(|tail| unsafe { *tail = Tail::NEW });
        // SAFETY: as above; those of the parent's threads that had claimed it are gone.
        front.consumer.with_mut(|consumer| unsafe { *consumer = Consumer::NEW });
        front.claim.store(FREE, Relaxed);
    }
}

#[cfg(not(loom))]
impl Drop for Queue {
    /// Entries that have not run leak what they hold; the queues of a domain that goes are empty.
    fn drop(&mut self) {
        // SAFETY: nobody else uses the queue. All blocks from the consumer's on, or from the first, are linked.
        unsafe {
            let taken = self.front.consumer.with(|consumer| (*consumer).block);
            let mut block = if taken.is_null() { self.owner.first.load(Relaxed) } else { taken };
            while !block.is_null() {
                let next = (*block).next.load(Relaxed);
                drop_block(block);
                block = next;
            }
            let spare = self.owner.tail.with(|tail| (*tail).spare);
            if !spare.is_null() {
                drop_block(spare);
            }
        }
    }
}

impl Claim<'_> {
    fn with<R>(&self, f: impl FnOnce(&mut Consumer) -> R) -> R {
        // SAFETY: this thread has claimed it (3), and no `f` calls this again.
        self.queue.front.consumer.with_mut(|consumer| f(unsafe { &mut *consumer }))
    }

    /// Runs ripe entries by `run`, at most `limit`, up to one to `leave`. Empty blocks are given to `free`.
    fn run(
        &self,
        limit: u64,
        leave: impl Fn(&Callback) -> bool,
        free: impl Fn(*mut Block),
        run: impl Fn(Callback),
    ) -> Amount {
        let mut amount = Amount::default();
        while amount.count < limit
            && let Some(entry) = self.with(|consumer| consumer.pop(self.queue, &leave, &free))
        {
            amount.count += 1;
            amount.bytes += entry.bytes() as u64;
            run(entry);
        }
        // Release: what the entries did. Partner: the Acquire in `done`.
        self.with(|consumer| self.queue.front.done.store(consumer.head, Release));
        amount
    }

    /// True if the worker has found the queue claimed, and sleeps until it is woken.
    fn give_back(self) -> bool {
        let wanted = self.release() == WANTED;
        core::mem::forget(self);
        wanted
    }

    fn release(&self) -> u32 {
        // Release: what this consumer did; partner: the Acquire in `try_claim`.
        self.queue.front.claim.swap(FREE, Release)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

impl Consumer {
    const NEW: Self = Self { block: ptr::null_mut(), head: 0, due: None, seen: 0, owner_appends: false };

    /// Lets entries run whose grace period is over.
    fn advance(&mut self, queue: &Queue, done: impl Fn(GpCookie) -> bool) {
        let front = &queue.front;
        step!(
            "ready-before-grace-period",
            if !self.due.is_some_and(done) {
                return;
            }
        );
        // Relaxed, as all of these here and below: only the consumer writes them.
        front.ripe.store(front.pending.load(Relaxed), Relaxed);
        front.since[0].store(front.since[1].load(Relaxed), Relaxed);
        self.due = None;
    }

    /// Ripens, and gives entries that have no grace period to wait for one, if no others wait for theirs.
    fn accelerate(&mut self, queue: &Queue, done: impl Fn(GpCookie) -> bool, ask: impl Fn() -> GpCookie) {
        self.advance(queue, done);
        if self.due.is_none() {
            let pushed = queue.pushed();
            if pushed > queue.front.pending.load(Relaxed) {
                queue.front.pending.store(pushed, Relaxed);
                // Asked now, after they were seen (2).
                self.due = Some(ask());
                queue.front.since[1].store(now(), Relaxed);
            }
        }
    }

    /// Takes the first ripe entry, unless there is none or it is one to `leave`. An empty block is given to `free`.
    fn pop(
        &mut self,
        queue: &Queue,
        leave: impl FnOnce(&Callback) -> bool,
        free: impl FnOnce(*mut Block),
    ) -> Option<Callback> {
        if self.head == queue.front.ripe.load(Relaxed) {
            return None;
        }
        let place = (self.head % BLOCK) as usize;
        // Relaxed: the entry at `head` has been seen, so the link to its block has (see `extend`).
        let block = match place {
            0 if self.block.is_null() => queue.owner.first.load(Relaxed),
            // SAFETY: the block before is not given back yet (4).
            0 => unsafe { (*self.block).next.load(Relaxed) },
            _ => self.block,
        };
        // SAFETY: the entry was appended, as `head < pushed` (1), and only the consumer touches it from then on.
        let entry = unsafe {
            (*block).entries[place]
                .with_mut(|entry| if (*entry).as_ref().is_some_and(leave) { None } else { (*entry).take() })
        }?;
        let empty = core::mem::replace(&mut self.block, block);
        if empty != block && !empty.is_null() {
            free(empty);
        }
        self.head += 1;
        Some(entry)
    }
}

/// Gives an empty block back.
fn drop_block(block: *mut Block) {
    // SAFETY: blocks come from a `Box`, and the caller has the only pointer to this one (4).
    drop(unsafe { Box::from_raw(block) });
}
