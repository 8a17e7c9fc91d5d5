//! The linked blocks in which the callbacks of a [queue](super::queue) lie, from the consumer's block to the owner's.
//!
//! The consumer frees a block, or gives it back to the owner, when it proceeds to the next one. So it never frees the
//! owner's last block (invariant 4 of the queue).

use core::{mem, ptr};

use crate::reclaim::callback::Callback;
use crate::sync::{AtomicPtr, Ordering::*, UnsafeCell, const_unless_loom};

/// Callbacks in a block.
pub const BLOCK: u64 = if cfg!(loom) { 2 } else { 64 };

#[derive(Debug)]
pub struct Block {
    pub(super) next: AtomicPtr<Block>,
    pub(super) callbacks: [UnsafeCell<Option<Callback>>; BLOCK as usize],
}

impl Block {
    /// Frees an empty block, to which the caller has the only pointer.
    pub(super) fn free(block: *mut Self) {
        // SAFETY: blocks come from a `Box`, and no other thread has the pointer.
        drop(unsafe { Box::from_raw(block) });
    }
}

/// The owner's end of the list.
#[derive(Debug)]
pub struct OwnerBlocks {
    /// The first block that there was: the consumer begins with it.
    pub(super) first: AtomicPtr<Block>,
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
            let callbacks = core::array::from_fn(|_| UnsafeCell::new(None));
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
        // SAFETY: the caller's contract.
        let spare = self.ends.with(|ends| unsafe { (*ends).spare });
        for start in [if front.is_null() { self.first.load(Relaxed) } else { front }, spare] {
            let mut block = start;
            // SAFETY: the caller's contract; blocks are linked up to the last, and the spare one to none.
            while let Some(next) = unsafe { block.as_ref() }.map(|block| block.next.load(Relaxed)) {
                Block::free(block);
                block = next;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
