//! The deferred entries of one thread, in order, until they have run.
//!
//! Each reader of the registry has a queue. Its *owner*, the thread that the reader belongs to, appends; whoever holds the
//! *consumer* takes from the front: the domain's worker, or the owner itself. Blocks of [`BLOCK`] entries are linked, so
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
//! | others | consumer, under its lock | as shown |
//!
//! # Invariants
//!
//! 1. `done <= head <= ripe <= pending <= pushed`.
//! 2. `due` was asked for after the entries below `pending` were seen: when it is done, a grace period has begun after
//!    they were appended, and has ended.
//! 3. While `busy`, the worker runs the entries from `done` to `head`, and nobody else takes any.
//! 4. A block is given back when the consumer goes on to its successor: never the owner's last.
//!
//! # Orderings
//!
//! The owner's stores to a block, and the links, happen before its Release of `pushed`, which the consumer acquires. What
//! an entry did happens before the Release of `done`, which `barrier` acquires.

use core::ptr;

use crossbeam_utils::CachePadded;

use super::engine::Due;
use super::entry::{Entry, try_box};
use crate::sync::{
    AtomicPtr, AtomicU64, ForkSafe, Mutex, MutexGuard, Ordering::*, UnsafeCell, const_unless_loom, mutant,
    now, weaken,
};

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
pub enum Chores {
    None,
    /// Run a [`STEP`] of its own entries, which are ripe.
    Step,
    /// Its bookkeeping: see [`Queue::report`].
    All,
}

/// Bytes after which the owner does its bookkeeping, however few the entries.
pub const REPORT_BYTES: u64 = 64 << 10;

/// See the [module](self).
#[derive(Debug)]
pub struct Queue {
    owner: CachePadded<Owner>,
    done: CachePadded<AtomicU64>,
    consumer: ForkSafe<Mutex<Consumer>>,
}

#[derive(Debug)]
struct Owner {
    pushed: AtomicU64,
    eager: AtomicU64,
    added: Tally,
    freed: Tally,
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

/// The right to take entries.
#[derive(Debug)]
struct Consumer {
    /// The block of the entry before `head`.
    block: *mut Block,
    head: u64,
    ripe: u64,
    pending: u64,
    due: Option<Due>,
    /// When the entries up to `ripe`, and up to `pending`, got one: nanoseconds of [`now`].
    since: [u64; 2],
    /// `pushed` when the worker last looked.
    seen: u64,
    busy: bool,
}

// SAFETY: blocks belong to the consumer, or to the owner; entries are `Send`.
unsafe impl Send for Consumer {}
// SAFETY: `tail` is the owner's; everything else is atomic or locked.
unsafe impl Sync for Queue {}
// SAFETY: a queue goes from one owner to the next through the registry, which orders the two.
unsafe impl Send for Queue {}

#[derive(Debug)]
struct Block {
    next: AtomicPtr<Block>,
    entries: [UnsafeCell<Option<Entry>>; BLOCK as usize],
}

impl Block {
    fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            entries: core::array::from_fn(|_| UnsafeCell::new(None)),
        }
    }
}

/// Entries that the worker takes at a time; the first are there.
pub type Batch = [Option<Entry>; if cfg!(loom) { 2 } else { 32 }];

/// What a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Nothing: all have run.
    Nothing,
    /// Lazy entries only.
    Lazy,
    /// Entries that somebody wants to run soon.
    Eager,
}

/// How many entries, and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

impl Amount {
    pub fn add(&mut self, entry: &Entry) {
        self.count += 1;
        self.bytes += entry.bytes() as u64;
    }
}

/// An amount that only the owner changes.
#[derive(Debug)]
struct Tally {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    const_unless_loom! {
        fn new() -> Self {
            Self { count: AtomicU64::new(0), bytes: AtomicU64::new(0) }
        }
    }

    /// The bytes.
    #[inline(always)]
    fn add(&self, count: u64, bytes: u64) -> u64 {
        // Relaxed, as everywhere here: others look for statistics only.
        self.count.store(self.count.load(Relaxed) + count, Relaxed);
        let bytes = self.bytes.load(Relaxed) + bytes;
        self.bytes.store(bytes, Relaxed);
        bytes
    }

    fn amount(&self) -> Amount {
        Amount { count: self.count.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    fn take(&self) -> Amount {
        let amount = self.amount();
        self.count.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
        amount
    }
}

impl Queue {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                owner: CachePadded::new(Owner {
                    pushed: AtomicU64::new(0),
                    eager: AtomicU64::new(0),
                    added: Tally::new(),
                    freed: Tally::new(),
                    ripe: AtomicU64::new(0),
                    next_try: AtomicU64::new(0),
                    first: AtomicPtr::new(ptr::null_mut()),
                    tail: UnsafeCell::new(Tail::NEW),
                }),
                done: CachePadded::new(AtomicU64::new(0)),
                consumer: ForkSafe::new(Mutex::new(Consumer::NEW)),
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
        // Acquire: partner is the Release in `finish`.
        self.done.load(weaken(Acquire, "done-load-relaxed"))
    }

    /// What is left to run.
    pub fn holds(&self) -> Holds {
        let done = self.done();
        // Acquire: who sees that an entry is wanted finds it.
        if done < self.owner.eager.load(Acquire) {
            Holds::Eager
        } else if done < self.pushed() {
            Holds::Lazy
        } else {
            Holds::Nothing
        }
    }

    /// Makes room for an entry. False when there is no memory.
    ///
    /// # Safety
    ///
    /// Only the owner may call this, and not from a signal handler.
    #[inline]
    pub unsafe fn reserve(&self) -> bool {
        // Relaxed: only the owner writes it.
        !self.owner.pushed.load(Relaxed).is_multiple_of(BLOCK) || self.extend()
    }

    /// Appends `entry`.
    ///
    /// # Safety
    ///
    /// As for [`reserve`](Self::reserve), which has just made room.
    #[inline]
    pub unsafe fn push(&self, entry: Entry, lazy: bool) -> Chores {
        let owner = &self.owner;
        // Relaxed, as all loads here: only the owner writes these.
        let at = owner.pushed.load(Relaxed);
        let place = at % BLOCK;
        let bytes = owner.added.add(1, entry.bytes() as u64);
        // SAFETY: only the owner uses `tail`, the block is there, and nobody looks at the entry before `pushed` covers it.
        unsafe {
            let block = owner.tail.with(|tail| (*tail).block);
            (*block).entries[place as usize].with_mut(|slot| slot.write(Some(entry)));
        }
        // Release: the entry, and all that the owner did before, such as unpublishing what is to be freed. Partner: the
        // Acquire in `pushed`.
        owner.pushed.store(at + 1, weaken(Release, "pushed-store-relaxed"));
        if !lazy {
            // Release: partner is the Acquire in `holds`.
            owner.eager.store(at + 1, Release);
        }
        if bytes >= REPORT_BYTES || place == BLOCK - 1 {
            Chores::All
        } else if place % STEP == STEP - 1 && owner.ripe.load(Relaxed) != 0 {
            Chores::Step
        } else {
            Chores::None
        }
    }

    /// Links another block. False when there is no memory.
    #[cold]
    fn extend(&self) -> bool {
        // SAFETY: only the owner, who calls this, uses `tail`.
        let (last, spare) = self.owner.tail.with_mut(|tail| unsafe {
            ((*tail).block, core::mem::replace(&mut (*tail).spare, ptr::null_mut()))
        });
        let fresh = if spare.is_null() {
            let Ok(fresh) = try_box(Block::new()) else { return false };
            fresh.as_ptr()
        } else {
            spare
        };
        // Relaxed: the consumer follows the link when `pushed` has told it of an entry behind it.
        if last.is_null() {
            self.owner.first.store(fresh, Relaxed);
        } else {
            // SAFETY: the last block is the owner's (4).
            unsafe { (*last).next.store(fresh, Relaxed) };
        }
        // SAFETY: as above.
        self.owner.tail.with_mut(|tail| unsafe { (*tail).block = fresh });
        true
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
        [&self.owner.added, &self.owner.freed].map(Tally::take)
    }

    /// What the domain has not been told. Statistics: the numbers may be of different moments.
    pub fn unreported(&self) -> [Amount; 2] {
        [&self.owner.added, &self.owner.freed].map(Tally::amount)
    }

    /// Whether the owner has run so much more than it has added that the domain, which knows of neither, should.
    pub fn has_freed_much(&self) -> bool {
        let [added, freed] = self.unreported();
        freed.bytes >= added.bytes + REPORT_BYTES / 16
    }

    fn lock(&self) -> MutexGuard<'_, Consumer> {
        // No code of the program runs under the lock.
        self.consumer.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// For the worker: gives entries that have no grace period to wait for one, by `ask`; the one that the queue
    /// waits for.
    pub fn collect(&self, done: impl Fn(Due) -> bool, ask: impl Fn() -> Due) -> Option<Due> {
        let mut consumer = self.lock();
        consumer.seen = self.pushed();
        consumer.advance(self, done, ask);
        consumer.due
    }

    /// For the worker: takes entries whose grace period is over, at most a [`Batch`], and calls [`finish`](Self::finish)
    /// when they have run. Local entries of an owner who is appending are left to it, unless `all`.
    pub fn take(&self, done: impl Fn(Due) -> bool, all: bool) -> Batch {
        let mut consumer = self.lock();
        assert!(!consumer.busy, "one worker at a time");
        consumer.ripen(done);
        // One that appends a block in the time of a grace period will soon do its bookkeeping.
        let leave = !all && self.pushed() - consumer.seen >= BLOCK;
        let batch =
            core::array::from_fn(|_| consumer.pop(self, |entry| leave && entry.is_local(), drop_block));
        consumer.busy = batch[0].is_some() && !mutant("owner-takes-beside-worker");
        batch
    }

    /// For the worker: what it took has run.
    pub fn finish(&self) {
        let mut consumer = self.lock();
        consumer.busy = false;
        self.publish_done(&consumer);
    }

    fn publish_done(&self, consumer: &Consumer) {
        // Release: what the entries did. Partner: the Acquire in `done`.
        self.done.store(consumer.head, weaken(Release, "done-store-relaxed"));
    }

    /// For the owner: runs local entries whose grace period is over, at most `limit`, by `run`, and gives others one to wait
    /// for. Stops when `run` says so. What has run is part of the next [`report`](Self::report).
    pub fn run_local(
        &self,
        limit: u64,
        done: impl Fn(Due) -> bool,
        ask: impl Fn() -> Due,
        run: impl Fn(Entry) -> bool,
    ) {
        let mut amount = Amount::default();
        // Not `lock`: the worker has it for a moment only, but may be off the processor; and a destructor that we run here may
        // defer something.
        let Ok(mut consumer) = self.consumer.get().try_lock() else { return };
        if consumer.busy {
            return;
        }
        consumer.ripen(&done);
        while amount.count < limit
            && let Some(entry) = consumer.pop(self, |entry| !entry.is_local(), |block| self.keep(block))
        {
            amount.add(&entry);
            if !run(entry) {
                // The lock has been written over, and another thread of the child may hold it: it is not ours to release.
                core::mem::forget(consumer);
                return;
            }
        }
        self.publish_done(&consumer);
        // Relaxed: the owner's.
        self.owner.ripe.store(consumer.ripe - consumer.head, Relaxed);
        consumer.advance(self, done, ask);
        drop(consumer);
        self.owner.freed.add(amount.count, amount.bytes);
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

    /// Since when the oldest entry has waited that a consumer has seen, if there is one: nanoseconds of [`now`].
    ///
    /// Nothing too if somebody is at the queue now: it may be the caller, in a destructor that the owner runs.
    pub fn oldest(&self) -> Option<u64> {
        let consumer = self.consumer.get().try_lock().ok()?;
        let done = self.done();
        match consumer.since {
            [since, _] if done < consumer.ripe => Some(since),
            [_, since] if done < consumer.pending => Some(since),
            _ => None,
        }
    }

    /// Forgets everything: the entries are the parent's, and so is the lock.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and is not inside another function of the queue.
    pub unsafe fn reset_in_child(&self) {
        let owner = &self.owner;
        for word in [
            &owner.pushed,
            &owner.eager,
            &owner.added.count,
            &owner.added.bytes,
            &owner.freed.count,
            &owner.freed.bytes,
            &owner.ripe,
            &owner.next_try,
            &self.done,
        ] {
            word.store(0, Relaxed);
        }
        owner.first.store(ptr::null_mut(), Relaxed);
        // SAFETY: nobody else uses it.
        owner.tail.with_mut(|tail| unsafe { *tail = Tail::NEW });
        // SAFETY: the caller's contract.
        unsafe { self.consumer.overwrite(Mutex::new(Consumer::NEW)) };
    }
}

#[cfg(not(loom))]
impl Drop for Queue {
    /// Entries that have not run leak what they hold; the queues of a domain that goes are empty.
    fn drop(&mut self) {
        // SAFETY: nobody else uses the queue. All blocks from the consumer's on, or from the first, are linked.
        unsafe {
            let taken = self.lock().block;
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

impl Consumer {
    const NEW: Self = Self {
        block: ptr::null_mut(),
        head: 0,
        ripe: 0,
        pending: 0,
        due: None,
        since: [0; 2],
        seen: 0,
        busy: false,
    };

    /// Lets entries run whose grace period is over.
    fn ripen(&mut self, done: impl Fn(Due) -> bool) {
        if self.due.is_some_and(done) || mutant("ripe-before-grace-period") {
            self.ripe = self.pending;
            self.due = None;
            self.since[0] = self.since[1];
        }
    }

    /// Ripens, and gives entries that have no grace period to wait for one, if no others wait for theirs.
    fn advance(&mut self, queue: &Queue, done: impl Fn(Due) -> bool, ask: impl Fn() -> Due) {
        self.ripen(done);
        if self.due.is_none() {
            let early = mutant("asked-before-seen").then(&ask);
            let pushed = queue.pushed();
            if pushed > self.pending {
                self.pending = pushed;
                // Asked now, after they were seen (2).
                self.due = Some(early.unwrap_or_else(ask));
                self.since[1] = now();
            }
        }
    }

    /// Takes the first ripe entry, unless there is none or it is one to `leave`. An empty block is given to `free`.
    fn pop(
        &mut self,
        queue: &Queue,
        leave: impl FnOnce(&Entry) -> bool,
        free: impl FnOnce(*mut Block),
    ) -> Option<Entry> {
        if self.head == self.ripe {
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
    // SAFETY: blocks come from `try_box`, and the caller has the only pointer to this one (4).
    drop(unsafe { Box::from_raw(block) });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_destructor_that_forks_leaves_the_lock_of_the_child_alone() {
        let engine = super::super::engine::Engine::new((), || "Here");
        // Never dropped: somebody holds it.
        let queue: &Queue = Box::leak(Box::new(Queue::new()));
        // SAFETY: this thread is the owner.
        unsafe {
            assert!(queue.reserve());
            let _ = queue.push(Entry::free(ptr::NonNull::from(Box::leak(Box::new(1_u8))), 1, true), false);
        }
        let ask = || engine.ask();
        queue.run_local(1, |_| true, ask, |_| true);
        queue.run_local(
            1,
            |_| true,
            ask,
            |entry| {
                // SAFETY: nobody reads it.
                unsafe { entry.run() };
                // As in the child of a fork, where another thread is at the queue by now.
                // SAFETY: there is no other thread really.
                unsafe { queue.reset_in_child() };
                core::mem::forget(queue.lock());
                false
            },
        );
        assert!(queue.consumer.get().try_lock().is_err(), "the other thread holds it still");
    }
}
