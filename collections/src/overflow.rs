//! The buckets of a table in which chains continue.
//!
//! They lie in slabs that belong to the table, and are freed with it. So a bucket that moves needs no visit of its chain
//! to free it, and no grace period passes before a bucket is used in another chain.
//!
//! # Invariants
//!
//! 1. A bucket is in one chain of its table, or it is free.
//! 2. A free bucket is empty and has no next one. Only the last bucket of a chain is freed.
//!
//! # Lookups in a bucket that another chain uses
//!
//! A lookup may have loaded the pointer to a bucket before it was freed, and read it when another chain has it. It
//! compares keys, and the keys of another chain are not its own. From there it follows the other chain to its end. It
//! misses nothing that was in its own chain during all of the lookup: such an entry keeps all buckets before it in the
//! chain, as only the last one is freed (2).

use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;

use crate::bucket::{Bucket, Hashed};
#[cfg(not(loom))]
use crate::memory::{NoMemory, Zeroed};
#[cfg(loom)]
use crate::model::NoMemory;
use crate::sync::{Domain, Mutex, Shared};

/// Buckets of one allocation.
#[cfg(not(loom))]
pub type Slab<B> = Zeroed<B>;

#[cfg(loom)]
pub type Slab<B> = Box<[B]>;

/// Allocates empty buckets.
pub fn allocate<E: Hashed, D: Domain>(buckets: usize) -> Result<Slab<Bucket<E, D>>, NoMemory> {
    #[cfg(loom)]
    return Ok((0..buckets).map(|_| Bucket::new()).collect());
    // SAFETY: an empty bucket consists of zeros: a header without bits, and null pointers.
    #[cfg(not(loom))]
    unsafe {
        Zeroed::new(buckets)
    }
}

/// The fewest buckets of a slab.
const LEAST: usize = 4;
/// A slab has this fraction of the buckets of the table. One ninth of the buckets of a full table begin a longer chain.
const FRACTION: usize = 16;

/// The buckets of a table in which chains continue: see the [module](self).
pub struct Overflow<E: Hashed, D: Domain> {
    /// Buckets of a slab.
    slab: usize,
    /// A panic for want of memory leaves them as they were.
    slabs: AssertUnwindSafe<Mutex<Slabs<Bucket<E, D>>>>,
}

/// Of any type: whether a map may be sent must not depend on what its entries can do.
struct Slabs<B> {
    all: Vec<Slab<B>>,
    /// Buckets of the last slab that no chain has had yet.
    unused: usize,
    free: Vec<NonNull<B>>,
}

// SAFETY: the pointers are to buckets of `all`.
unsafe impl<B: Send> Send for Slabs<B> {}

impl<E: Hashed, D: Domain> Overflow<E, D> {
    /// Does not allocate. `buckets` is the number of those in which chains begin.
    pub fn new(buckets: usize) -> Self {
        let slabs = Slabs { all: Vec::new(), unused: 0, free: Vec::new() };
        Self { slab: (buckets / FRACTION).max(LEAST), slabs: AssertUnwindSafe(Mutex::new(slabs)) }
    }

    /// Returns a free bucket, under the lock of a stripe.
    pub fn take(&self) -> Shared<'_, Bucket<E, D>> {
        let mut slabs = self.slabs.lock();
        let bucket = slabs.free.pop().unwrap_or_else(|| slabs.next(self.slab));
        // SAFETY: it exists as long as the table.
        unsafe { Shared::from_ptr(bucket.as_ptr()) }
    }

    /// Gives a bucket back that was the last of its chain, and is empty.
    pub fn give_back(&self, bucket: &Bucket<E, D>) {
        self.slabs.lock().free.push(NonNull::from(bucket));
    }

    /// Returns the bytes of all slabs.
    pub fn bytes(&self) -> usize {
        self.slabs.lock().all.iter().map(|slab| size_of_val(&**slab)).sum()
    }
}

impl<E: Hashed, D: Domain> Slabs<Bucket<E, D>> {
    /// Returns a bucket that no chain has had yet.
    fn next(&mut self, slab: usize) -> NonNull<Bucket<E, D>> {
        if self.unused == 0 {
            match allocate(slab) {
                Ok(slab) => self.all.push(slab),
                Err(error) => error.fail(),
            }
            self.unused = slab;
        }
        let last = self.all.last().expect("a slab has unused buckets");
        let bucket = &last[last.len() - self.unused];
        self.unused -= 1;
        NonNull::from(bucket)
    }
}
