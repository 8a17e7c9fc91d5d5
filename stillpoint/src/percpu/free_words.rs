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
//! 3. All blocks are in a list that only grows. The child of a fork makes the others anew from that, if another thread may
//!    have been changing one: it held the lock, or `returning` counted it.

use core::ptr;
use std::sync::PoisonError;

use crate::sync::{AtomicPtr, AtomicU32, ForkSafe, Mutex, Ordering::*, const_unless_loom};

/// The bits of a block, and its places in lists.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Block {
    free: AtomicU32,
    next: AtomicPtr<Block>,
    /// The block before it in the list of all.
    older: AtomicPtr<Block>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct FreeWords {
    newest: AtomicPtr<Block>,
    returned: AtomicPtr<Block>,
    /// How many threads give a word back.
    returning: AtomicU32,
    /// The first block of the list from which words are taken.
    first: ForkSafe<Mutex<Option<&'static Block>>>,
}

/// The free words of the process.
#[cfg(not(loom))]
pub static FREE: FreeWords = FreeWords::new();

impl Block {
    /// Returns a block in no list, without free words.
    pub fn new() -> Self {
        let [next, older] = [(); 2].map(|()| AtomicPtr::new(ptr::null_mut()));
        Self { free: AtomicU32::new(0), next, older }
    }
}

impl FreeWords {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                newest: AtomicPtr::new(ptr::null_mut()),
                returned: AtomicPtr::new(ptr::null_mut()),
                returning: AtomicU32::new(0),
                first: ForkSafe::new(Mutex::new(None)),
            }
        }
    }

    /// Takes a free word, if there is one. Returns its block and its index.
    pub fn take(&self) -> Option<(&'static Block, usize)> {
        // Nothing panics under the lock.
        let mut first = self.first.get().lock().unwrap_or_else(PoisonError::into_inner);
        // Acquire: sees the blocks; pairs with the Release in `push`.
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

    /// Adds a block, some words of which are free.
    pub fn add(&self, block: &'static Block, words: u32) {
        Self::push(&self.newest, block, &block.older);
        self.give_back(block, words);
    }

    /// Gives words of a block back, at least one.
    pub fn give_back(&self, block: &'static Block, words: u32) {
        // Relaxed: the next Release publishes it to the child of a fork.
        self.returning.fetch_add(1, Relaxed);
        // Release: publishes what the owner did with the words; pairs with the Acquire in `take`. Acquire: `next` is used no
        // more; pairs with the Release there.
        if block.free.fetch_or(words, AcqRel) == 0 {
            Self::push(&self.returned, block, &block.next);
        }
        // Release: the block is in the list; pairs with a fork, which its child happens after.
        self.returning.fetch_sub(1, Release);
    }

    /// Adds a block to a list that it is not in.
    fn push(list: &AtomicPtr<Block>, block: &'static Block, link: &AtomicPtr<Block>) {
        let mut head = list.load(Relaxed);
        loop {
            link.store(head, Relaxed);
            // Release: publishes the block; pairs with the Acquire in `take`.
            match list.compare_exchange(head, ptr::from_ref(block).cast_mut(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Makes the lists anew if another thread was changing one (3). What it was about to take or to give back is lost.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in none of these methods.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // Relaxed, all: the only thread.
        if self.returning.swap(0, Relaxed) == 0 && self.first.get().try_lock().is_ok() {
            return;
        }
        // SAFETY: null, or a block, which is there for ever.
        let block_at = |link: &AtomicPtr<Block>| unsafe { link.load(Relaxed).as_ref() };
        let (mut block, mut first) = (block_at(&self.newest), None);
        while let Some(this) = block {
            if this.free.load(Relaxed) != 0 {
                this.next.store(first.map_or(ptr::null(), ptr::from_ref::<Block>).cast_mut(), Relaxed);
                first = Some(this);
            }
            block = block_at(&this.older);
        }
        self.returned.store(ptr::null_mut(), Relaxed);
        // SAFETY: the caller's contract.
        unsafe { self.first.overwrite(Mutex::new(first)) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::{iter, mem};

    /// Two blocks with sixteen free words each, of which one has been taken.
    fn free_words() -> FreeWords {
        let words = FreeWords::new();
        (0..2).for_each(|_| words.add(Box::leak(Box::new(Block::new())), 0xFFFF));
        assert!(words.take().is_some());
        words
    }

    /// Checks that the child of a fork finds `count` words, each once, also after they have been given back.
    fn check_child(words: &FreeWords, count: usize) {
        // SAFETY: no other thread uses the words.
        unsafe { words.reset_in_child() };
        for _ in 0..2 {
            let taken: Vec<_> = iter::from_fn(|| words.take()).collect();
            assert_eq!(taken.len(), count);
            taken.iter().for_each(|&(block, index)| words.give_back(block, 1 << index));
        }
    }

    #[test]
    fn fork_child_finds_words_beside_a_thread_that_takes_one() {
        let words = free_words();
        // It is about to store the rest of the list.
        mem::forget(words.first.get().lock().map(|mut first| {
            first.take();
            first
        }));
        check_child(&words, 31);
    }

    #[test]
    fn fork_child_finds_words_beside_a_thread_that_gives_one_back() {
        let words = free_words();
        let taken: Vec<_> = iter::from_fn(|| words.take()).collect();
        // The first half of `give_back`.
        let (block, index) = taken[0];
        words.returning.fetch_add(1, Relaxed);
        assert_eq!(block.free.fetch_or(1 << index, AcqRel), 0);
        check_child(&words, 1);
    }

    #[test]
    fn fork_child_of_one_thread_keeps_the_lists() {
        let words = free_words();
        check_child(&words, 31);
        check_child(&words, 31);
    }
}
