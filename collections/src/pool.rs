//! Removed entries of a stripe, and the memory of earlier ones, which the next insertions take.
//!
//! For entries that only own memory, as far as is known of their types: their destructors do nothing that the program
//! could notice. Others are retired one by one.
//!
//! Writers collect what they remove in a batch of [`BATCH`], under the lock of the stripe. A full batch is deferred as
//! one callback, which drops the entries after a grace period and gives their memory back to the stripe. So a table
//! whose entries come and go hardly allocates.
//!
//! # Invariants
//!
//! 1. Memory in `free` is owned by the pool, is a `Box` of the entry's type, and has no value.
//! 2. Entries in `removed` are owned by the pool, are unlinked, and may still be used in sections of the domain.
//! 3. They are dropped after a grace period that began later, or when neither the map nor a batch of it is left: no
//!    reference to an entry outlives the borrow of its map.

use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;
use std::sync::Arc;

use crate::bucket::Hashed;
use crate::stripes::Stripe;
use crate::sync::{DeferOptions, Domain, step};

/// Entries of a batch.
const BATCH: usize = if cfg!(loom) { 1 } else { 16 };
/// What the entries of a batch own on the heap, at most, in bytes, before it is deferred, however few they are.
const BATCH_BYTES: usize = 16 << 10;
/// Free entries of a stripe, at most.
const FREE: usize = 4 * BATCH;

/// See the [module](self).
pub struct Pool<E: Hashed> {
    removed: Vec<NonNull<E>>,
    /// What they own on the heap, in bytes.
    heap_bytes: usize,
    free: Vec<NonNull<E>>,
}

// SAFETY: owns its entries, which are `Send`.
unsafe impl<E: Hashed> Send for Pool<E> {}

/// Removed entries to defer.
#[must_use]
pub struct Batch<E: Hashed> {
    entries: Vec<NonNull<E>>,
    heap_bytes: usize,
}

impl<E: Hashed> Pool<E> {
    pub const fn new() -> Self {
        Self { removed: Vec::new(), heap_bytes: 0, free: Vec::new() }
    }

    /// Returns how much memory is free.
    #[inline(always)]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes memory for an entry, if some is free.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Box<MaybeUninit<E>>> {
        // SAFETY: (1)
        self.free.pop().map(|memory| unsafe { Box::from_raw(memory.as_ptr().cast()) })
    }

    /// Adds an entry that owns as many bytes on the heap. Returns the batch if it is full.
    ///
    /// # Safety
    ///
    /// It comes from a `Box`, and is unlinked, in the map of this pool. The caller gives it up.
    #[inline(always)]
    pub unsafe fn retire(&mut self, entry: NonNull<E>, heap_bytes: usize) -> Option<Batch<E>> {
        if self.removed.len() == self.removed.capacity() {
            self.removed.reserve_exact(BATCH);
        }
        self.removed.push(entry);
        self.heap_bytes += heap_bytes;
        (self.removed.len() == BATCH || self.heap_bytes > BATCH_BYTES).then(|| self.take_batch())
    }

    /// Takes the removed entries out.
    pub fn take_batch(&mut self) -> Batch<E> {
        Batch { entries: mem::take(&mut self.removed), heap_bytes: mem::take(&mut self.heap_bytes) }
    }

    /// Takes memory back, as much as there is room for. The vector becomes that of the next batch.
    fn give(&mut self, memory: &mut Vec<NonNull<E>>) {
        let room = FREE.saturating_sub(self.free.len()).min(memory.len());
        self.free.extend(memory.drain(memory.len() - room..));
        if memory.is_empty() && self.removed.capacity() == 0 {
            self.removed = mem::take(memory);
        }
    }

    /// Takes all free memory.
    pub fn take_free(&mut self) -> Free<E> {
        Free(mem::take(&mut self.free))
    }
}

impl<E: Hashed> Drop for Pool<E> {
    fn drop(&mut self) {
        let mut removed = mem::take(&mut self.removed);
        // SAFETY: (3)
        unsafe { drop_all(&mut removed) };
        drop((Free(removed), self.take_free()));
    }
}

impl<E: Hashed> Batch<E> {
    /// Has the domain drop the entries after a grace period, and give their memory to the stripe of that number.
    pub fn defer<D: Domain>(
        self,
        stripes: &Arc<[Stripe<E>]>,
        number: usize,
        options: DeferOptions,
        domain: &D,
    ) {
        let Self { mut entries, heap_bytes } = self;
        if entries.is_empty() {
            return;
        }
        let bytes = entries.len() * size_of::<E>() + heap_bytes;
        let options = options.heap_bytes(bytes).values(entries.len() as u16).run_on_retiring_thread();
        let stripes = Arc::clone(stripes);
        let done = move || {
            // SAFETY: (3), and the grace period.
            unsafe { drop_all(&mut entries) };
            stripes[number].try_give(|pool| pool.give(&mut entries));
            drop(Free(entries));
        };
        let mut done = Some(done);
        step!(
            "batch-without-grace-period",
            // SAFETY: any thread may use the stripes, and drop the entries, which this batch owns.
            if let Some(done) = done.take() {
                unsafe { domain.call_unchecked(done, options) }
            }
        );
        if let Some(done) = done {
            done();
        }
    }
}

/// Drops entries, and keeps their memory.
///
/// # Safety
///
/// The caller owns them, and no other thread uses them any more. Afterwards they have no values.
unsafe fn drop_all<E>(entries: &mut [NonNull<E>]) {
    // SAFETY: the caller's contract.
    entries.iter_mut().for_each(|entry| unsafe { entry.drop_in_place() });
}

/// Memory of entries, which has no values. It is freed when dropped.
pub struct Free<E>(Vec<NonNull<E>>);

impl<E> Drop for Free<E> {
    fn drop(&mut self) {
        for memory in &self.0 {
            // SAFETY: it comes from a `Box` (1).
            drop(unsafe { Box::<MaybeUninit<E>>::from_raw(memory.as_ptr().cast()) });
        }
    }
}
