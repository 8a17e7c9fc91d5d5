//! The front of a [queue](super): what its consumer does with callbacks, and what it knows of their owner.
//!
//! Callbacks lie in linked blocks, from the consumer's block to the owner's. The consumer frees a block, or gives it
//! back to the owner, when it proceeds to the next one. So it never frees the owner's last block (invariant 4 of the
//! queue).

use core::{mem, ptr};

use crate::grace_period::engine::GpCookie;
use crate::probes::{DomainId, probe};
use crate::readers::any::AnyEngine;
use crate::reclaim::amount::Amount;
use crate::reclaim::callback::Callback;
use crate::slots::protected::Protected;
use crate::sync::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering::*, UnsafeCell, const_unless_loom, last_tick, now, step,
};

// States of `Front::claim`.
pub const FREE: u32 = 0;
pub const CLAIMED: u32 = 1;

/// What the consumer writes.
#[derive(Debug)]
pub struct Front {
    pub claim: AtomicU32,
    pub completed: AtomicU64,
    /// The last position that a barrier waits for. Barriers raise it.
    pub awaited: AtomicU64,
    pub ready_end: AtomicU64,
    pub waiting_end: AtomicU64,
    /// When the ready and the waiting callbacks were assigned their cookie: nanoseconds of [`now`].
    pub ready_since: AtomicU64,
    pub waiting_since: AtomicU64,
    pub consumer: UnsafeCell<Consumer>,
}

/// What only the consumer accesses.
#[derive(Debug)]
pub struct Consumer {
    /// The block of the callback before `next`.
    pub block: *mut Block,
    pub next: u64,
    pub cookie: Option<GpCookie>,
    pub activity: OwnerActivity,
    /// What hazard pointers protected after the grace period of the ready callbacks, if that has been looked up.
    pub protected: Option<Protected>,
}

impl Front {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                claim: AtomicU32::new(FREE),
                completed: AtomicU64::new(0),
                awaited: AtomicU64::new(0),
                ready_end: AtomicU64::new(0),
                waiting_end: AtomicU64::new(0),
                ready_since: AtomicU64::new(0),
                waiting_since: AtomicU64::new(0),
                consumer: UnsafeCell::new(Consumer::NEW),
            }
        }
    }

    /// Forgets all callbacks, and the claim.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and inside none of these methods.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        let Self { completed, awaited, ready_end, waiting_end, claim, consumer, .. } = self;
        [completed, awaited, ready_end, waiting_end].iter().for_each(|position| position.store(0, Relaxed));
        // SAFETY: threads of the parent that had claimed the front do not exist here. Not dropped: one may have been
        // changing it.
        consumer.with_mut(|consumer| unsafe { consumer.write(Consumer::NEW) });
        claim.store(FREE, Relaxed);
    }
}

/// The right to pop callbacks, until it is released.
#[derive(Debug)]
#[must_use]
pub struct Claim<'a>(pub &'a Front);

impl Claim<'_> {
    #[inline]
    pub fn with<T>(&self, f: impl FnOnce(&mut Consumer) -> T) -> T {
        // SAFETY: this thread has claimed it (3), and no `f` calls this again.
        self.0.consumer.with_mut(|consumer| f(unsafe { &mut *consumer }))
    }

    /// Runs ready callbacks by `run`, which may look up what is protected, at most `limit`, none after the time
    /// `end`, up to the first that it must `leave`. Empty blocks go to `free`. Returns `true` if a callback has run.
    /// Before a barrier may see that, calls `count` with how much has.
    #[inline]
    pub fn run(
        &self,
        (blocks, domain): (&OwnerBlocks, DomainId),
        [limit, end]: [u64; 2],
        leave: impl Fn(&Callback) -> bool,
        free: impl Fn(*mut Block),
        run: impl Fn(Callback, &mut Option<Protected>),
        count: impl FnOnce(Amount),
    ) -> bool {
        let mut protected = self.with(|consumer| consumer.protected.take());
        let mut amount = Amount::default();
        while amount.count < limit {
            let Some(callback) = self.with(|consumer| consumer.pop(self.0, blocks, &leave, &free)) else {
                break;
            };
            if cfg!(feature = "usdt") && amount.count == 0 {
                probe!(callback_batch_start, domain.address());
            }
            amount += Amount::of(&callback);
            // The others take less than to look at the clock.
            let is_timed = end != u64::MAX && !callback.is_free_only();
            run(callback, &mut protected);
            if is_timed && last_tick() >= end {
                break;
            }
        }
        self.with(|consumer| consumer.protected = protected);
        let has_run = amount.count != 0;
        if has_run {
            probe!(callback_batch_end, domain.address(), amount.count, amount.bytes);
            count(amount);
        }
        // Release: publishes the effects of the callbacks; pairs with the Acquire in `Queue::completed`.
        self.with(|consumer| self.0.completed.store(consumer.next, Release));
        has_run
    }

    #[inline]
    pub fn release(self) {
        // Release: publishes what this consumer did; pairs with the Acquire in `Queue::try_claim`.
        self.0.claim.store(FREE, Release);
    }
}

impl Consumer {
    pub const NEW: Self =
        Self { block: ptr::null_mut(), next: 0, cookie: None, activity: OwnerActivity::NEW, protected: None };

    /// Makes callbacks ready whose grace period has ended.
    #[inline]
    pub fn advance(&mut self, front: &Front, engine: &AnyEngine) {
        step!(
            "ready-before-grace-period",
            if !self.cookie.is_some_and(|cookie| engine.is_done(cookie)) {
                return;
            }
        );
        // Relaxed, here and below: only the consumer writes these.
        front.ready_end.store(front.waiting_end.load(Relaxed), Relaxed);
        front.ready_since.store(front.waiting_since.load(Relaxed), Relaxed);
        self.cookie = None;
        step!("protection-not-looked-up-again", self.protected = None);
    }

    /// [`advance`](Self::advance), and if no callbacks wait then, assigns a cookie to those without one.
    #[inline]
    pub fn accelerate(&mut self, front: &Front, engine: &AnyEngine, tail: impl FnOnce() -> u64) {
        self.advance(front, engine);
        let tail = tail();
        if self.cookie.is_none() && tail > front.waiting_end.load(Relaxed) {
            front.waiting_end.store(tail, Relaxed);
            // Taken after the callbacks were seen (2).
            self.cookie = Some(engine.snapshot());
            front.waiting_since.store(now(), Relaxed);
        }
    }

    /// Takes the first ready callback, unless there is none or it is one to `leave`. An empty block goes to `free`.
    #[inline]
    fn pop(
        &mut self,
        front: &Front,
        blocks: &OwnerBlocks,
        leave: impl FnOnce(&Callback) -> bool,
        free: impl FnOnce(*mut Block),
    ) -> Option<Callback> {
        if self.next == front.ready_end.load(Relaxed) {
            return None;
        }
        let index = (self.next % BLOCK) as usize;
        // Relaxed: the callback at `next` has been seen, so the link to its block has been acquired (see
        // `OwnerBlocks::add`).
        let block = match index {
            0 if self.block.is_null() => blocks.first.load(Relaxed),
            // SAFETY: the block before is not freed yet (4).
            0 => unsafe { (*self.block).next.load(Relaxed) },
            _ => self.block,
        };
        // SAFETY: the callback was pushed, as `next < tail` (1), and from then on only the consumer accesses it.
        let callback = unsafe {
            (*block).callbacks[index]
                .with_mut(|slot| if (*slot).as_ref().is_some_and(leave) { None } else { (*slot).take() })
        }?;
        let before = mem::replace(&mut self.block, block);
        if before != block && !before.is_null() {
            free(before);
        }
        self.next += 1;
        Some(callback)
    }
}

/// Callbacks in a block.
pub const BLOCK: u64 = if cfg!(loom) { 2 } else { 64 };

#[derive(Debug)]
pub struct Block {
    next: AtomicPtr<Block>,
    callbacks: [UnsafeCell<Option<Callback>>; BLOCK as usize],
}

impl Block {
    /// Frees an empty block, to which the caller has the only pointer.
    pub(in crate::reclaim) fn free(block: *mut Self) {
        // SAFETY: blocks come from a `Box`, and no other thread has the pointer.
        drop(unsafe { Box::from_raw(block) });
    }
}

/// The owner's end of the list.
#[derive(Debug)]
pub struct OwnerBlocks {
    /// The first block that there was: the consumer begins with it.
    first: AtomicPtr<Block>,
    ends: UnsafeCell<Ends>,
}

/// What only the owner accesses.
#[derive(Debug)]
struct Ends {
    last: *mut Block,
    /// An empty block for the next push that needs one.
    spare: *mut Block,
}

impl Ends {
    const NEW: Self = Self { last: ptr::null_mut(), spare: ptr::null_mut() };
}

impl OwnerBlocks {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { first: AtomicPtr::new(ptr::null_mut()), ends: UnsafeCell::new(Ends::NEW) }
        }
    }

    /// Stores the callback at `position`, which is the next one.
    ///
    /// # Safety
    ///
    /// Only the owner may call this. The consumer does not access the position yet.
    #[inline]
    pub unsafe fn write(&self, position: u64, callback: Callback) {
        let index = (position % BLOCK) as usize;
        if index == 0 {
            self.add();
        }
        // SAFETY: the caller's contract; the block exists.
        unsafe {
            let block = self.ends.with(|ends| (*ends).last);
            (*block).callbacks[index].with_mut(|slot| slot.write(Some(callback)));
        }
    }

    /// Links another block.
    #[cold]
    fn add(&self) {
        // SAFETY: only the owner, which calls this, accesses `ends`.
        let (last, spare) = self
            .ends
            .with_mut(|ends| unsafe { ((*ends).last, mem::replace(&mut (*ends).spare, ptr::null_mut())) });
        let block = if spare.is_null() {
            #[cfg(loom)]
            let callbacks = core::array::from_fn(|_| UnsafeCell::new(None));
            #[cfg(not(loom))]
            let callbacks = [const { UnsafeCell::new(None) }; BLOCK as usize];
            Box::into_raw(Box::new(Block { next: AtomicPtr::new(ptr::null_mut()), callbacks }))
        } else {
            spare
        };
        // Relaxed: the consumer follows the link after it has acquired a `tail` behind it.
        if last.is_null() {
            self.first.store(block, Relaxed);
        } else {
            // SAFETY: the consumer does not free the last block.
            unsafe { (*last).next.store(block, Relaxed) };
        }
        // SAFETY: as above.
        self.ends.with_mut(|ends| unsafe { (*ends).last = block });
    }

    /// Keeps a block that the owner has emptied, if it has none yet.
    ///
    /// # Safety
    ///
    /// Only the owner may call this. The block is empty, and the caller has the only pointer to it.
    pub unsafe fn keep(&self, block: *mut Block) {
        // SAFETY: the caller's contract.
        self.ends.with_mut(|ends| unsafe {
            if (*ends).spare.is_null() {
                (*block).next.store(ptr::null_mut(), Relaxed);
                (*ends).spare = block;
            } else {
                Block::free(block);
            }
        });
    }

    /// Forgets all blocks, which are the parent's.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        self.first.store(ptr::null_mut(), Relaxed);
        // SAFETY: the caller's contract.
        self.ends.with_mut(|ends| unsafe { *ends = Ends::NEW });
    }

    /// Frees all blocks. Callbacks that have not run leak what they hold.
    ///
    /// # Safety
    ///
    /// No other thread has the list. `front` is the consumer's block, or null if it has none yet.
    #[cfg(not(loom))]
    pub unsafe fn free_all(&mut self, front: *mut Block) {
        let mut block = if front.is_null() { self.first.load(Relaxed) } else { front };
        // SAFETY: the caller's contract; blocks are linked up to the last.
        while let Some(next) = unsafe { block.as_ref() }.map(|block| block.next.load(Relaxed)) {
            Block::free(block);
            block = next;
        }
        // SAFETY: the caller's contract.
        let spare = self.ends.with(|ends| unsafe { (*ends).spare });
        if !spare.is_null() {
            Block::free(spare);
        }
    }
}

/// Nanoseconds after which the worker assesses an owner again.
pub const ASSESSMENT_INTERVAL: u64 = if cfg!(loom) { 0 } else { 4_000_000 };

/// What the owner of a queue does by itself, which the worker leaves to it: of the time between the last two
/// assessments.
#[derive(Debug)]
pub struct OwnerActivity {
    /// Callbacks pushed, callbacks that have run, and the time, when the worker last assessed the owner.
    pushed: u64,
    run: u64,
    at: u64,
    /// Callbacks pushed at the assessment before.
    pushed_before: u64,
    /// The owner has pushed a block, and all that it had pushed two assessments ago has run. So it will soon flush,
    /// and run what it may.
    pub pushes: bool,
    /// Besides, a block of its callbacks has run. So grace periods end.
    pub reclaims: bool,
}

impl OwnerActivity {
    pub const NEW: Self = Self { pushed: 0, run: 0, at: 0, pushed_before: 0, pushes: false, reclaims: false };

    /// Assesses the owner at the time `now`, in nanoseconds, if it is time for that.
    pub fn assess(&mut self, pushed: u64, run: u64, now: u64) {
        let interval = now.saturating_sub(self.at);
        if interval >= ASSESSMENT_INTERVAL {
            // What was pushed and run in a longer time says nothing about what the owner does now.
            let is_recent = interval < 4 * ASSESSMENT_INTERVAL.max(1);
            let keeps_up = is_recent && run >= self.pushed_before;
            let pushes = keeps_up && pushed - self.pushed >= BLOCK;
            let reclaims = pushes && run - self.run >= BLOCK;
            *self = Self { pushed, run, at: now, pushed_before: self.pushed, pushes, reclaims };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn owner_reclaims_while_blocks_are_pushed_and_run() {
        let mut owner = OwnerActivity::NEW;
        let mut assess = |blocks_pushed, blocks_run, intervals| {
            owner.assess(blocks_pushed * BLOCK, blocks_run * BLOCK, intervals * ASSESSMENT_INTERVAL);
            [owner.pushes, owner.reclaims]
        };
        assert_eq!(assess(1, 0, 1), [true, false]);
        assert_eq!(assess(2, 1, 2), [true, true]);
        // It is not time yet.
        assert_eq!(assess(2, 1, 2), [true, true]);
        assert_eq!(assess(3, 1, 3), [true, false]);
        assert_eq!(assess(3, 3, 4), [false, false]);
        // It does not keep up: what it had pushed two assessments ago has not run.
        assert_eq!(assess(5, 3, 5), [true, false]);
        assert_eq!(assess(7, 4, 6), [true, true]);
        assert_eq!(assess(9, 4, 7), [false, false]);
        assert_eq!(assess(10, 9, 8), [true, true]);
        // The last assessment was long ago.
        assert_eq!(assess(20, 20, 12), [false, false]);
    }

    #[test]
    fn block_that_is_used_again_is_the_last_one() {
        let mut blocks = OwnerBlocks::new();
        let write = |number| {
            for position in number * BLOCK..(number + 1) * BLOCK {
                // SAFETY: this is the only thread, and each position follows the last.
                unsafe { blocks.write(position, Callback::call(|| (), None)) };
            }
            blocks.ends.with(|ends| {
                // SAFETY: as above.
                unsafe { (*ends).last }
            })
        };
        let first = write(0);
        let second = write(1);
        // SAFETY: the callbacks need no drop, and the list continues with the second block.
        unsafe { blocks.keep(first) };
        assert_eq!(write(2), first);
        // SAFETY: as above.
        assert!(unsafe { (*first).next.load(Relaxed) }.is_null(), "it is linked to an earlier block");
        // SAFETY: the list begins with the second block.
        unsafe { blocks.free_all(second) };
    }
}
