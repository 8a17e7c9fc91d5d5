//! The readers of a domain: one [`Reader`] for each thread that has read, reused when the thread ends.
//!
//! Readers live in chunks of doubling size that never move and are never freed, so a scan needs no lock and a reference to
//! a reader is good for ever. Free readers form a stack (Treiber, 1986) linked by index, whose head carries a tag that
//! changes with every change, against ABA. The registry grows only when the stack is empty, that is, when every reader is
//! in use: it is never larger than the peak number of threads.
//!
//! # Invariants
//!
//! 1. `chunks[c]` is null or points to `32 << c` readers, for ever.
//! 2. Every index below `len` lies in a chunk that is not null.
//! 3. A reader belongs to at most one thread: from a successful `claim` to its `release`. That of a thread that exits inside a
//!    section is not released: see [`crate::readers::registration`].
//! 4. `gp_seen` of a free reader is 0.
//!
//! # Orderings
//!
//! - A scan that follows a heavy fence sees every reader whose thread entered a section before that fence: registration
//!   comes before the section in that thread, and the fence orders the whole past of the thread. Later ones see what was
//!   published before the fence and do not matter.
//! - A reader changes hands by *release* (Release) and *claim* (Acquire): the new owner's stores to `gp_seen` come after
//!   the old owner's, and a scan that reads one is ordered after the old owner's sections as well.
//! - `registered` is changed and read by read-modify-writes only, so that a grace period happens before the registration of
//!   all whom it does not find there, and after that of all whom it does: for those that do without a heavy fence, as nobody is
//!   registered or as [`crate::readers::qsbr`] never needs one.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicU64, Block, Ordering::*};

use crate::readers::reader::Reader;

/// Readers in the first chunk.
const FIRST: usize = if cfg!(loom) { 2 } else { 32 };
/// Chunks; together more readers than Linux has thread ids (2^22).
const CHUNKS: usize = if cfg!(loom) { 2 } else { 18 };

/// What each reader has that scans do not look at: it lies elsewhere, so that a scan of many readers touches nothing but them.
pub trait Attached {
    fn new() -> Self;

    /// Makes it that of no thread.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in none of its functions.
    #[cfg(not(loom))]
    unsafe fn reset_in_child(&self);
}

impl Attached for () {
    fn new() -> Self {}

    #[cfg(not(loom))]
    unsafe fn reset_in_child(&self) {}
}

/// See the [module](self). `A` is attached to each reader.
#[derive(Debug)]
pub struct Registry<A> {
    chunks: [AtomicPtr<Reader>; CHUNKS],
    /// Readers that exist.
    len: AtomicU64,
    /// The stack of free readers: tag in the high half, index + 1 of the top in the low half, 0 if empty.
    free: AtomicU64,
    /// Readers that belong to a thread.
    registered: AtomicU64,
    _attached: PhantomData<fn() -> A>,
}

/// No memory for another reader.
#[derive(Debug)]
pub struct OutOfMemory;

impl<A> Registry<A> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            len: AtomicU64::new(0),
            free: AtomicU64::new(0),
            registered: AtomicU64::new(0),
            _attached: PhantomData,
        }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            len: AtomicU64::new(0),
            free: AtomicU64::new(0),
            registered: AtomicU64::new(0),
            _attached: PhantomData,
        }
    }

    /// Chunk and place in it of a reader.
    fn place(index: usize) -> (usize, usize) {
        let chunk = (index / FIRST + 1).ilog2() as usize;
        (chunk, index - FIRST * ((1 << chunk) - 1))
    }

    /// The reader with this index, which is below some `len`.
    pub fn reader(&self, index: usize) -> &'static Reader {
        let (chunk, place) = Self::place(index);
        // SAFETY: the place is one in the chunk.
        unsafe { &*self.chunk(chunk).add(place) }
    }

    /// What is attached to that reader.
    pub fn attached(&self, index: usize) -> &'static A
    where
        A: 'static,
    {
        let (chunk, place) = Self::place(index);
        // SAFETY: in a chunk this follows the readers: see `Chunk::new`.
        unsafe { &*self.chunk(chunk).add(FIRST << chunk).cast::<A>().add(place) }
    }

    /// What is attached to `reader`.
    pub fn attached_to(&self, reader: &Reader) -> &'static A
    where
        A: 'static,
    {
        // Relaxed: written before the reader's first owner had it.
        self.attached(reader.index.load(Relaxed) as usize)
    }

    /// The first reader of a chunk, which is there.
    fn chunk(&self, chunk: usize) -> *const Reader {
        // Acquire: the readers are initialized; partner: the Release in `grow`.
        let chunk = self.chunks[chunk].load(Acquire);
        #[cfg(loom)]
        assert!(!chunk.is_null(), "a chunk that was not seen");
        chunk
    }

    /// Readers that exist, in use or not.
    pub fn len(&self) -> usize {
        // Acquire: the chunks of all these are there (invariant 2); partner: the Release in `grow`.
        self.len.load(Acquire) as usize
    }

    /// All readers with an index from `first` to below `end`, which is a value of [`len`](Self::len).
    pub fn readers(&self, first: usize, end: usize) -> impl Iterator<Item = &'static Reader> {
        (first..end).map(|index| self.reader(index))
    }

    /// Readers that belong to a thread, `own` or not. A read-modify-write: see the module's orderings.
    pub fn other_readers(&self, own: Option<&Reader>) -> u64 {
        // Release: what was published before happens before later registrations, so they need no heavy fence of ours.
        // Acquire: partner is the Release in `release`; the scan then sees the last exit of a thread that has gone.
        self.registered.fetch_add(0, AcqRel) - u64::from(own.is_some())
    }
}

impl<A: Attached + 'static> Registry<A> {
    /// A reader for the calling thread.
    pub fn claim(&self) -> Result<&'static Reader, OutOfMemory> {
        let reader = match self.pop() {
            Some(reader) => reader,
            None => self.grow()?,
        };
        // Acquire: partner is the Release in `other_readers`, so this thread sees what was published before a grace period that
        // did not know of it. Release: partner is the Acquire there; a grace period that knows of it finds the reader, without
        // a fence too.
        self.registered.fetch_add(1, AcqRel);
        Ok(reader)
    }

    /// Gives the calling thread's reader back; it is outside any section.
    pub fn release(&self, reader: &'static Reader) {
        // Release: this thread's sections happen before the end of a grace period that no longer knows of it.
        self.registered.fetch_sub(1, Release);
        self.push(reader);
    }

    /// All readers but `own` become free, with nothing attached.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in no function of what is attached.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, own: Option<&'static Reader>) {
        self.free.store(0, Relaxed);
        self.registered.store(own.is_some().into(), Relaxed);
        for index in 0..self.len() {
            let reader = self.reader(index);
            // A thread may have been about to say which one it is.
            reader.index.store(index as u32, Relaxed);
            // SAFETY: the caller's contract.
            unsafe { self.attached(index).reset_in_child() };
            if own.is_some_and(|own| ptr::eq(own, reader)) {
                reader.take_wake_request();
            } else {
                reader.reset();
                self.push(reader);
            }
        }
    }

    /// Takes the top of the stack.
    fn pop(&self) -> Option<&'static Reader> {
        // Acquire, here and below: the chunk is there, and the `next_free` we read and the old owner's stores come before
        // ours. Partner: the Release in `push`.
        let mut head = self.free.load(Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            let reader = self.reader(index as usize);
            let next = reader.next_free.load(Relaxed);
            // Release keeps nothing in order, but a read-modify-write keeps the release sequence of `push` going.
            match self.free.compare_exchange(head, retag(head, next), Acquire, Acquire) {
                Ok(_) => return Some(reader),
                Err(now) => head = now,
            }
        }
    }

    /// Puts a reader on top of the stack.
    fn push(&self, reader: &'static Reader) {
        let index = reader.index.load(Relaxed);
        let mut head = self.free.load(Relaxed);
        loop {
            reader.next_free.store(head as u32, Relaxed);
            // Release: partner is the Acquire in `pop`.
            match self.free.compare_exchange(head, retag(head, index + 1), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// A reader that did not exist before.
    #[cold]
    fn grow(&self) -> Result<&'static Reader, OutOfMemory> {
        loop {
            let len = self.len();
            let (chunk, _) = Self::place(len);
            let slot = self.chunks.get(chunk).ok_or(OutOfMemory)?;
            if slot.load(Relaxed).is_null() {
                let fresh = Chunk::<A>::new(FIRST << chunk)?;
                // Release: the readers are initialized; partner: the Acquire in `reader`.
                if slot.compare_exchange(ptr::null_mut(), fresh.readers.as_ptr(), Release, Relaxed).is_err() {
                    fresh.free();
                }
            }
            // Release: who sees the new length finds the chunk; partner: the Acquire in `len`. (The chunk may be another
            // thread's, whose store this thread saw fail: the exchange or load above reads it, so it comes before.)
            if self.len.compare_exchange(len as u64, len as u64 + 1, Release, Relaxed).is_ok() {
                let reader = self.reader(len);
                reader.index.store(len as u32, Relaxed);
                return Ok(reader);
            }
        }
    }
}

/// The stack's head with another top and the next tag.
fn retag(head: u64, top: u32) -> u64 {
    let tag = ((head >> 32) as u32).wrapping_add(1);
    u64::from(tag) << 32 | u64::from(top)
}

/// Readers, and what is attached to them, that no other thread has seen yet.
struct Chunk<A> {
    memory: Block,
    readers: NonNull<Reader>,
    attached: NonNull<A>,
    len: usize,
}

impl<A: Attached> Chunk<A> {
    fn new(len: usize) -> Result<Self, OutOfMemory> {
        const { assert!(align_of::<A>() <= align_of::<Reader>(), "it follows the readers at once") };
        let (layout, offset) = Layout::array::<Reader>(len)
            .and_then(|readers| readers.extend(Layout::array::<A>(len)?))
            .map_err(|_| OutOfMemory)?;
        // A global allocator that reads comes back to `Registry::claim` from here, and gets a reader of another chunk.
        let memory = Block::zeroed(layout).ok_or(OutOfMemory)?;
        let readers = memory.start::<Reader>();
        // SAFETY: by the layout, the block has room for as many readers, and for as many of `A` from the offset on.
        let attached = unsafe {
            let attached = memory.start::<u8>().add(offset).cast::<A>();
            for place in 0..len {
                attached.add(place).write(A::new());
                readers.add(place).write(Reader::new());
            }
            attached
        };
        Ok(Self { memory, readers, attached, len })
    }

    fn free(self) {
        // SAFETY: `new` made them, and they lost the race to be seen by other threads.
        unsafe {
            NonNull::slice_from_raw_parts(self.readers, self.len).drop_in_place();
            NonNull::slice_from_raw_parts(self.attached, self.len).drop_in_place();
            self.memory.free();
        }
    }
}
