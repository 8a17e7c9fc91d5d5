//! Which words of blocks have no owner.
//!
//! Each [`Block`] has a bit for each of its words that is free. A block with such a bit is in one of two lists: that of
//! `returned` ones, to which any thread may push, as a signal handler may give words back; or the list from which words are
//! taken, under a lock, as whatever takes a word may allocate one too. So a block is made only if there is no free word but
//! in the hands of threads that take one now.
//!
//! # Invariants
//!
//! 1. A block without free words is in no list. The thread that gives back its first one pushes it, that which takes its
//!    last one removes it: both learn that by one read-modify-write of the bits.
//! 2. Bits are cleared under the lock. `next` belongs to the list that the block is in, or to the thread that pushes it.

use core::ptr;
use std::sync::PoisonError;

use crate::sync::{AtomicPtr, AtomicU32, ForkSafe, Mutex, Ordering::*, const_unless_loom};

/// The bits of a block, and its place in a list.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Block {
    free: AtomicU32,
    next: AtomicPtr<Block>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct FreeWords {
    returned: AtomicPtr<Block>,
    /// The first block of the list from which words are taken.
    first: ForkSafe<Mutex<Option<&'static Block>>>,
}

/// The free words of the process.
#[cfg(not(loom))]
pub static FREE: FreeWords = FreeWords::new();

impl Block {
    /// Returns a block in no list, whose `free` words will be [added](FreeWords::add).
    pub fn new(free: u32) -> Self {
        Self { free: AtomicU32::new(free), next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl FreeWords {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { returned: AtomicPtr::new(ptr::null_mut()), first: ForkSafe::new(Mutex::new(None)) }
        }
    }

    /// Takes a free word, if there is one. Returns its block and its index.
    pub fn take(&self) -> Option<(&'static Block, usize)> {
        // Nothing panics under the lock.
        let mut first = self.first.get().lock().unwrap_or_else(PoisonError::into_inner);
        // Acquire: sees the blocks; pairs with the Release in `add`.
        // SAFETY: null, or a block, which is there for ever.
        let block = first.or_else(|| unsafe { self.returned.swap(ptr::null_mut(), Acquire).as_ref() })?;
        // Relaxed, both: neither changes before the last bit is cleared, but that bits are set (2).
        let (next, index) = (block.next.load(Relaxed), block.free.load(Relaxed).trailing_zeros());
        // Acquire: sees what the last owner did with the word; pairs with the Release in `give_back`. Release: `next` has
        // been read; pairs with the Acquire there.
        let is_last = block.free.fetch_and(!(1 << index), AcqRel) == 1 << index;
        // SAFETY: as above.
        *first = if is_last { unsafe { next.as_ref() } } else { Some(block) };
        Some((block, index as usize))
    }

    /// Gives a word back.
    pub fn give_back(&self, block: &'static Block, index: usize) {
        // Release: publishes what its owner did with the word; pairs with the Acquire in `take`. Acquire: `next` is used no
        // more; pairs with the Release there.
        if block.free.fetch_or(1 << index, AcqRel) == 0 {
            self.add(block);
        }
    }

    /// Adds a block with free words that is in no list.
    pub fn add(&self, block: &'static Block) {
        let mut head = self.returned.load(Relaxed);
        loop {
            block.next.store(head, Relaxed);
            // Release: publishes the block; pairs with the Acquire in `take`.
            match self.returned.compare_exchange(head, ptr::from_ref(block).cast_mut(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Forgets the list from which another thread was about to take a word, if one was.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in none of these methods.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        if self.first.get().try_lock().is_err() {
            // SAFETY: the caller's contract.
            unsafe { self.first.overwrite(Mutex::new(None)) };
        }
    }
}
