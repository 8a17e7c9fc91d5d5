//! Batches of memory, and the *depot* of free ones, which all threads share.
//!
//! See [`free_list`](super) for the bounds and the invariants.

use core::any::TypeId;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::alloc::{Layout, dealloc};
use std::sync::Mutex;

use stillpoint::rcu::DeferOptions;

/// Bytes by which sizes differ.
pub const WORD: usize = 8;
/// Sizes that have a list.
pub const SIZES: usize = 16;
/// Entries of a batch: with the rest it has a KiB.
pub const ENTRIES: usize = 61;
/// The most memory in the depot.
pub const DEPOT_BYTES: usize = 4 << 20;
/// The most if threads take nothing from it.
pub const LEAST_BYTES: usize = 256 << 10;
/// What a byte that a thread takes adds to the room of the depot. One that a thread gives takes half a byte from it.
const GROWTH: usize = 8;

/// Memory of a batch.
#[derive(Clone, Copy)]
pub struct Piece {
    pub memory: *mut (),
    /// What drops the value, if there is one, and that needs it.
    pub drop: Option<unsafe fn(*mut ())>,
}

/// Memory of one size.
pub struct Batch {
    pub next: *mut Batch,
    pub index: u16,
    /// Until it is sealed: entries of other domains that the thread has removed meanwhile.
    pub others: u16,
    pub len: u32,
    /// Until it is sealed: the bytes, with those that the values own; the domain, and what seals it there.
    pub bytes: usize,
    pub domain: TypeId,
    pub seal: unsafe fn(*mut Batch, DeferOptions),
    pub pieces: [MaybeUninit<Piece>; ENTRIES],
}

/// Free memory for all threads.
pub struct Depot {
    /// Lists of batches, and the bytes of each.
    first: [*mut Batch; SIZES],
    bytes: [usize; SIZES],
    /// The most bytes that it has, by what threads have taken and given of late.
    room: usize,
}

// SAFETY: it has the only pointers to its batches (3), of which any thread may use the memory.
unsafe impl Send for Depot {}

static DEPOT: Mutex<Depot> = Mutex::new(Depot::new());
/// A bit for each size of which the depot has memory: a hint, changed under the lock.
pub static STOCKED: AtomicU32 = AtomicU32::new(0);

impl Batch {
    pub fn new(domain: TypeId, seal: unsafe fn(*mut Self, DeferOptions)) -> *mut Self {
        let pieces = [const { MaybeUninit::uninit() }; ENTRIES];
        Box::into_raw(Box::new(Self {
            next: ptr::null_mut(),
            index: 0,
            others: 0,
            len: 0,
            bytes: 0,
            domain,
            seal,
            pieces,
        }))
    }

    #[inline(always)]
    pub fn push(&mut self, piece: Piece) {
        self.pieces[self.len as usize].write(piece);
        self.len += 1;
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Piece> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: written by `push`.
        Some(unsafe { self.pieces[self.len as usize].assume_init() })
    }

    /// Frees a list of batches, which may be null.
    ///
    /// # Safety
    ///
    /// The caller has the batches (3), and they have no values.
    unsafe fn free_all(mut first: *mut Self) {
        while !first.is_null() {
            // SAFETY: the caller's contract.
            unsafe {
                let next = (*first).next;
                Self::free(first);
                first = next;
            }
        }
    }

    /// Frees the memory.
    ///
    /// # Safety
    ///
    /// The caller has the batch (3), and it has no values.
    pub unsafe fn free(batch: *mut Self) {
        // SAFETY: the caller's contract; it comes from `new`.
        let mut batch = unsafe { Box::from_raw(batch) };
        while let Some(piece) = batch.pop() {
            // SAFETY: (1); the alignment is a power of two.
            unsafe {
                let layout = Layout::from_size_align_unchecked((batch.index as usize + 1) * WORD, WORD);
                dealloc(piece.memory.cast(), layout);
            }
        }
    }

    /// Returns the bytes of a batch of free memory, and of its memory.
    ///
    /// # Safety
    ///
    /// The caller has the batch (3).
    unsafe fn all_bytes(batch: *mut Self) -> usize {
        // SAFETY: the caller's contract.
        let (index, len) = unsafe { ((*batch).index as usize, (*batch).len as usize) };
        size_of::<Self>() + len * (index + 1) * WORD
    }
}

impl Depot {
    const fn new() -> Self {
        Self { first: [ptr::null_mut(); SIZES], bytes: [0; SIZES], room: LEAST_BYTES }
    }

    /// Takes a batch of free memory, if the depot has one.
    pub fn take(index: usize) -> Option<*mut Batch> {
        DEPOT.try_lock().ok()?.remove(index)
    }

    /// Adds a batch, and frees others if there is no room.
    ///
    /// # Safety
    ///
    /// The caller has the batch (3), and it has no values.
    pub unsafe fn give(index: usize, batch: *mut Batch) {
        let mut unused = batch;
        // SAFETY: the caller's contract; this function has what the depot has no room for.
        unsafe {
            // An empty one is of no use.
            if let (1.., Ok(mut depot)) = ((*batch).len, DEPOT.try_lock()) {
                unused = depot.add(index, batch);
            } else {
                (*batch).next = ptr::null_mut();
            }
            // Without the lock.
            Batch::free_all(unused);
        }
    }

    /// Adds a batch. Returns the list of those for which there is no room then.
    ///
    /// # Safety
    ///
    /// The caller has the batch (3), and it is one of free memory.
    unsafe fn add(&mut self, index: usize, batch: *mut Batch) -> *mut Batch {
        let mut unused = ptr::null_mut();
        // SAFETY: the caller's contract; and this function has what it pops.
        unsafe {
            self.room = self.room.saturating_sub(Batch::all_bytes(batch) / 2).max(LEAST_BYTES);
            self.push(index, batch);
            while self.bytes.iter().sum::<usize>() > self.room {
                let largest = (0..SIZES).max_by_key(|&index| self.bytes[index]);
                let Some(other) = largest.and_then(|index| self.pop(index)) else { break };
                (*other).next = unused;
                unused = other;
            }
        }
        unused
    }

    /// Removes a batch, for a thread that needs it.
    fn remove(&mut self, index: usize) -> Option<*mut Batch> {
        let before = self.bytes[index];
        let batch = self.pop(index)?;
        self.room = (self.room + GROWTH * (before - self.bytes[index])).min(DEPOT_BYTES);
        Some(batch)
    }

    /// # Safety
    ///
    /// The caller has the batch (3), and it is one of free memory.
    unsafe fn push(&mut self, index: usize, batch: *mut Batch) {
        // SAFETY: the caller's contract.
        unsafe {
            self.bytes[index] += Batch::all_bytes(batch);
            (*batch).next = self.first[index];
        }
        self.first[index] = batch;
        STOCKED.fetch_or(1 << index, Relaxed);
    }

    fn pop(&mut self, index: usize) -> Option<*mut Batch> {
        let batch = Some(self.first[index]).filter(|batch| !batch.is_null())?;
        // SAFETY: the depot has the batch (3).
        unsafe {
            self.bytes[index] -= Batch::all_bytes(batch);
            self.first[index] = (*batch).next;
        }
        if self.first[index].is_null() {
            STOCKED.fetch_and(!(1 << index), Relaxed);
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::iter;
    use std::alloc::alloc;

    fn new_batch() -> *mut Batch {
        Batch::new(TypeId::of::<()>(), |_, _| unreachable!("none is sealed"))
    }

    /// Returns a batch of one piece of free memory.
    fn batch_of_one(index: usize) -> *mut Batch {
        // SAFETY: the layout has a size; the batch is this thread's.
        unsafe {
            let memory = alloc(Layout::from_size_align_unchecked((index + 1) * WORD, WORD)).cast();
            let batch = new_batch();
            (*batch).index = index as u16;
            (*batch).push(Piece { memory, drop: None });
            batch
        }
    }

    /// Gives `count` batches, of which those are freed for which there is no room. Returns the bytes that it has.
    fn give(depot: &mut Depot, index: usize, count: usize) -> usize {
        for _ in 0..count {
            // SAFETY: the batches are this thread's.
            unsafe { Batch::free_all(depot.add(index, batch_of_one(index))) };
        }
        depot.bytes.iter().sum()
    }

    /// No other test has the size.
    fn take_all(depot: &mut Depot, index: usize) {
        while let Some(batch) = depot.remove(index) {
            // SAFETY: the batch is this thread's.
            unsafe {
                assert_eq!((*batch).len, 1);
                Batch::free(batch);
            }
        }
        assert_eq!((depot.bytes[index], STOCKED.load(Relaxed) & 1 << index), (0, 0));
    }

    /// More batches than the depot has room for.
    const MANY: usize = if cfg!(miri) { 10 } else { 2 * DEPOT_BYTES / size_of::<Batch>() };

    /// The first size has all of the depot, and then no more than the second one.
    #[test]
    fn depot_keeps_no_more_than_its_bytes_and_has_room_for_each_size() {
        let mut depot = Depot::new();
        depot.room = DEPOT_BYTES;
        assert!(give(&mut depot, 9, MANY / 2) <= DEPOT_BYTES);
        depot.room = DEPOT_BYTES;
        assert!(give(&mut depot, 10, MANY / 2) <= DEPOT_BYTES);
        let has = [9, 10].map(|index| depot.bytes[index]);
        if !cfg!(miri) {
            assert!(has.iter().all(|bytes| *bytes > LEAST_BYTES), "{has:?}");
        }
        [9, 10].into_iter().for_each(|index| take_all(&mut depot, index));
    }

    /// Memory that no thread takes would keep pages from being freed, of which it may be a small part.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn depot_has_much_only_if_threads_take_it() {
        let mut depot = Depot::new();
        assert!(give(&mut depot, 8, MANY) <= LEAST_BYTES);
        let mut has = 0;
        for _ in 0..4 {
            take_all(&mut depot, 8);
            has = give(&mut depot, 8, MANY / 4);
        }
        assert!(has > DEPOT_BYTES / 3, "{has}");
        assert!(give(&mut depot, 8, 2 * MANY) <= LEAST_BYTES);
        take_all(&mut depot, 8);
    }

    #[test]
    fn batch_that_was_given_is_taken() {
        // SAFETY: the batches are this thread's.
        unsafe {
            Depot::give(11, new_batch());
            // Another test may have the lock of the depot.
            let batch = iter::repeat_with(|| {
                Depot::give(11, batch_of_one(11));
                Depot::take(11)
            });
            let batch = batch.flatten().next().expect("it ends with one");
            assert_eq!((*batch).len, 1);
            Batch::free(batch);
        }
    }
}
