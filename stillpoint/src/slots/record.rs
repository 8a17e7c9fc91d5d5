//! A thread's protection slots, in blocks that grow with the number of guards that the thread has loaded and not dropped.
//!
//! Records are what the library's registry of readers ([`crate::readers::sections::registry`]) attaches to a reader: they
//! are never freed, and change owners when threads exit. A slot whose guard has outlived the thread stays in use; the
//! record's next owner fills the others.
//!
//! # Invariants
//!
//! 1. `more[k]` is null or points to `FIRST << (k + 1)` slots, for ever.
//! 2. Only the owner fills slots and adds blocks: it finds them without an atomic read-modify-write.
//!
//! # Finding a free slot
//!
//! The owner remembers the [`Place`] of the slot that it filled last. In most cases it is free again. Otherwise the
//! owner looks at those that follow in the block, and then in the other blocks. A new block is twice as large as the
//! last one, so an owner that fills all of them looks at a bounded number for each.

use core::alloc::Layout;
use core::ptr;

use super::slot::Slot;
use crate::sync::{AtomicPtr, Memory, Ordering::*};

const FIRST: usize = if cfg!(loom) { 1 } else { 8 };
/// Blocks after the first one: a record has 504 slots at most.
const MORE: usize = if cfg!(loom) { 1 } else { 5 };

/// See the [module](self). A scan loads the cache lines of the slots only.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Record {
    first: [Slot; FIRST],
    more: [AtomicPtr<Slot>; MORE],
}

/// A slot of a record: its block and its index there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    block: usize,
    index: usize,
}

impl Place {
    /// The first slot of a record.
    pub const FIRST: Self = Self { block: 0, index: 0 };
}

impl Default for Record {
    fn default() -> Self {
        Self {
            first: core::array::from_fn(|_| Slot::new()),
            more: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }
}

impl Record {
    /// Slots of the first block.
    pub const FIRST: usize = FIRST;

    /// Returns the slots of a block, if it exists.
    fn block(&self, block: usize) -> Option<&[Slot]> {
        let Some(more) = block.checked_sub(1) else { return Some(&self.first) };
        // Acquire: sees the slots; pairs with the Release in `grow`.
        let start = self.more.get(more)?.load(Acquire);
        // SAFETY: invariant 1.
        (!start.is_null()).then(|| unsafe { core::slice::from_raw_parts(start, FIRST << block) })
    }

    /// Returns all slots, in use or not.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        (0..=MORE).map_while(|block| self.block(block)).flatten()
    }

    /// Returns a free slot and its place, the next one after `last` if possible. Returns `None` if all are in use, and
    /// there can be no more, or no memory for them. The owner calls this.
    pub fn find_free(&'static self, last: Place) -> Option<(Place, &'static Slot)> {
        let in_block = |block: usize, first: usize| {
            let slots = self.block(block)?;
            let len = slots.len();
            (0..len)
                .map(|step| (first + step) % len)
                .find_map(|index| slots[index].is_free().then(|| (Place { block, index }, &slots[index])))
        };
        in_block(last.block, last.index)
            .or_else(|| (0..=MORE).filter(|&block| block != last.block).find_map(|block| in_block(block, 0)))
            .or_else(|| self.grow())
    }

    /// Adds a block. Returns its first slot.
    #[cold]
    fn grow(&self) -> Option<(Place, &'static Slot)> {
        let more = self.more.iter().position(|block| block.load(Relaxed).is_null())?;
        let len = FIRST << (more + 1);
        let layout = Layout::array::<Slot>(len).ok()?.align_to(128).ok()?;
        let start = Memory::zeroed(layout)?.start::<Slot>();
        // SAFETY: the block has room for `len` slots.
        let slots = unsafe {
            for index in 0..len {
                start.add(index).write(Slot::new());
            }
            core::slice::from_raw_parts(start.as_ptr(), len)
        };
        // Release: publishes the slots; pairs with the Acquire in `block`.
        self.more[more].store(start.as_ptr(), Release);
        Some((Place { block: more + 1, index: 0 }, &slots[0]))
    }
}
