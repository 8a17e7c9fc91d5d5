//! The words of inlined readers, and the lists of readers.

use core::cell::Cell;
use core::ptr;

use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Futex32, Ordering::*, const_unless_loom};

/// [`Gp::futex`] while the leader sleeps: -1.
pub const ARMED: u32 = u32::MAX;

/// A request of the leader: to count down.
pub(super) const WAKE: u32 = 1;
/// A request of the leader: to yield the CPU, as it sleeps and readers outnumber CPUs.
pub(super) const YIELD: u32 = 2;

/// The number of the grace period in `Gp::ctr` and `InlinedReader::ctr`.
pub const NUMBER_SHIFT: u32 = 32;

/// What all threads share: `struct urcu_gp`.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Gp {
    /// The number of the grace period, and 1.
    pub ctr: AtomicU64,
    /// -1 while the leader sleeps.
    pub futex: Futex32,
}

impl Gp {
    const_unless_loom! {
        /// Creates it after the grace period of this number.
        pub fn new(number: u32) -> Self {
            Self { ctr: AtomicU64::new((number as u64) << NUMBER_SHIFT | 1), futex: Futex32::new(0) }
        }
    }
}

/// A thread's reader: `struct urcu_reader`, `struct urcu_qsbr_reader` and `struct urcu_bp_reader`.
///
/// Inlined code uses `ctr`, and `waiting` in qsbr. The rest is private to the library. A reader of zeros is valid.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct InlinedReader {
    /// The copy of [`Gp::ctr`], with the number of open sections in the low half; for qsbr 0 if the thread is
    /// offline.
    pub ctr: AtomicU64,
    need_mb: u64,
    /// The leader's requests: [`WAKE`] and [`YIELD`].
    pub(super) requests: AtomicU32,
    /// The owner's id, for reports; 0 until the owner registers.
    pub(super) thread: AtomicU32,
    /// For the caller.
    pub private: [AtomicPtr<u8>; 2],
    /// The reader is in a list. The owner's.
    pub(super) registered: AtomicU32,
    _padding: [u64; 10],
    links: Links,
    /// For qsbr: the leader waits for this reader.
    pub waiting: AtomicU32,
    /// For the caller: the words after `waiting`.
    pub tail: [AtomicU64; 2],
}

/// The place of a reader in a list. The lock protects it.
#[repr(C)]
#[derive(Debug)]
struct Links {
    next: Cell<*const InlinedReader>,
    /// What points to this reader.
    link: Cell<*const Cell<*const InlinedReader>>,
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Gp>() == 128 && offset_of!(Gp, futex) == 8 && size_of::<Futex32>() == 4);
    assert!(size_of::<InlinedReader>() == 256 && offset_of!(InlinedReader, links) == 128);
    assert!(offset_of!(InlinedReader, waiting) == 144 && offset_of!(InlinedReader, tail) == 152);
};

// SAFETY: the links are accessed under the lock of the readers only; the rest is atomic or never accessed.
unsafe impl Sync for InlinedReader {}
// SAFETY: as above; a reader in a list does not move, by the contract of `register`.
unsafe impl Send for InlinedReader {}

impl InlinedReader {
    const_unless_loom! {
        /// Creates a reader outside a section, in no list.
        pub fn unregistered() -> Self {
            Self {
                ctr: AtomicU64::new(0),
                need_mb: 0,
                requests: AtomicU32::new(0),
                thread: AtomicU32::new(0),
                private: [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())],
                registered: AtomicU32::new(0),
                _padding: [0; 10],
                links: Links { next: Cell::new(ptr::null()), link: Cell::new(ptr::null()) },
                waiting: AtomicU32::new(0),
                tail: [AtomicU64::new(0), AtomicU64::new(0)],
            }
        }
    }

    /// Makes it a reader without an owner: that has ended, or the child of a fork has lost it and the lists.
    #[cfg(not(loom))]
    pub fn forget_owner(&self) {
        self.ctr.store(0, Relaxed);
        self.registered.store(0, Relaxed);
        self.thread.store(0, Relaxed);
        self.private.iter().for_each(|word| word.store(ptr::null_mut(), Relaxed));
    }

    /// Returns `true` inside a section. For the owner.
    #[inline(always)]
    pub fn in_section(&self) -> bool {
        // Relaxed: the owner's word.
        self.ctr.load(Relaxed) as u32 != 0
    }

    /// Returns the requests of the leader.
    #[inline(always)]
    pub fn requests(&self) -> u32 {
        // Relaxed: `take_requests` orders.
        self.requests.load(Relaxed)
    }

    /// Takes these requests, and returns those that the leader has made.
    pub(super) fn take_requests(&self, which: u32) -> u32 {
        if self.requests() & which == 0 {
            return 0;
        }
        // Acquire: the reader's next section follows fence A (4); pairs with the Release in `request`. A
        // read-modify-write, so that the leader and the reader do not both take one (1).
        self.requests.fetch_and(!which, Acquire) & which
    }

    /// Makes a request, unless it is there.
    pub(super) fn request(&self, request: u32) {
        if self.requests() & request == 0 {
            // Release: publishes the count that includes this request; pairs with the Acquire in `take_requests`.
            self.requests.fetch_or(request, Release);
        }
    }
}

/// The readers that are registered. A lock protects them.
#[derive(Debug)]
pub struct Lists {
    heads: [Cell<*const InlinedReader>; 2],
    /// The list that a pass empties. Empty between passes, unless the engine has abandoned one.
    pub scanned: usize,
    /// All numbers have been used.
    pub used_up: bool,
    pub len: usize,
}

// SAFETY: the pointers are to readers, which are `Sync`.
unsafe impl Send for Lists {}

impl Lists {
    pub const fn new(used_up: bool) -> Self {
        let heads = [Cell::new(ptr::null()), Cell::new(ptr::null())];
        Self { heads, scanned: 0, used_up, len: 0 }
    }

    /// Appends a reader to the list that is not scanned.
    pub fn push(&self, reader: &InlinedReader) {
        let head = &self.heads[1 - self.scanned];
        let first = head.get();
        reader.links.next.set(first);
        reader.links.link.set(head);
        // SAFETY: readers in a list are valid.
        if let Some(first) = unsafe { first.as_ref() } {
            first.links.link.set(&reader.links.next);
        }
        head.set(reader);
    }

    /// Removes a reader from the list that it is in.
    pub fn remove(&self, reader: &InlinedReader) {
        let (link, next) = (reader.links.link.get(), reader.links.next.get());
        // SAFETY: the reader is in a list, so what points to it is a head or a reader in the list.
        unsafe { (*link).set(next) };
        // SAFETY: readers in a list are valid.
        if let Some(next) = unsafe { next.as_ref() } {
            next.links.link.set(link);
        }
    }

    /// Calls `f` with each reader of the list that is scanned. Those for which it returns `true` have passed.
    pub fn pass_if(&self, mut f: impl FnMut(&InlinedReader) -> bool) {
        let mut next = self.heads[self.scanned].get();
        // SAFETY: readers in a list are valid.
        while let Some(reader) = unsafe { next.as_ref() } {
            next = reader.links.next.get();
            if f(reader) {
                self.remove(reader);
                self.push(reader);
            }
        }
    }

    /// Calls `f` with each reader.
    pub fn for_each(&self, f: impl Fn(&InlinedReader)) {
        for head in &self.heads {
            let mut next = head.get();
            // SAFETY: readers in a list are valid.
            while let Some(reader) = unsafe { next.as_ref() } {
                next = reader.links.next.get();
                f(reader);
            }
        }
    }

    pub fn all_passed(&self) -> bool {
        self.heads[self.scanned].get().is_null()
    }
}
