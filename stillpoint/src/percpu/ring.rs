//! Per-CPU ring buffers of event records, with one reader.
//!
//! # Layout
//!
//! Each CPU has two tracks: one that sections write to, and a fallback behind a try-lock, for threads that cannot run sections. A track
//! is a circular array of slots. Its *head* counts the records written so far, its *tail* the records read so far.
//!
//! # Invariants
//!
//! 1. A record is complete before the head counts it. Until then its slot is not read: it is behind the tail under
//!    [`OverflowPolicy::Refuse`], and otherwise the slot that the reader leaves out (3).
//! 2. Only the reader moves the tail. Under `Refuse`, slots between tail and head are not written.
//! 3. Under [`OverflowPolicy::Overwrite`] the reader loads the head again after it has read a record. If the writer can have reached that
//!    slot by then, the reader discards the record and counts it as lost. A track has one slot more than unread records, so the slot
//!    that is being written is never one of theirs.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::counters::CpuCounters;
use super::owner::{Acquired, OwnerLock};
use super::rseq::registration;
use super::rseq::{self, AreaRef, CpuArea, Pushed, boxed, tries};

/// Words of a track's area. See [`super::rseq`].
const HEAD: usize = 1;
const UNREAD: usize = 2;
const SLOTS: usize = 3;
const MASK: usize = 4;
/// An atomic word.
const TAIL: usize = 0;

/// What a [`Ring`] does with a record if the current CPU's ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverflowPolicy {
    /// The record replaces the oldest one of its CPU.
    Overwrite,
    /// The record is refused.
    Refuse,
}

/// Per-CPU rings of event records, `WORDS` words each: threads on all CPUs write, one reader takes.
///
/// [`push`](Self::push) copies a record into the ring of the current CPU, without a locked instruction, and never blocks. The reader
/// gets the records of a CPU in the order in which they were written. (Threads that cannot run critical sections use separate rings:
/// their records are not ordered with others of the same CPU.) Each record that was pushed is either read or counted as
/// [`lost`](Self::lost).
///
/// ```
/// use stillpoint::percpu::{Ring, OverflowPolicy};
///
/// let events: Ring<2> = Ring::new(1000, OverflowPolicy::Overwrite);
/// std::thread::scope(|scope| {
///     for thread in 0..3 {
///         let events = &events;
///         scope.spawn(move || (0..100).for_each(|number| assert!(events.push(&[thread, number]))));
///     }
/// });
/// let mut read = 0;
/// events.reader().expect("there is no other reader").drain(|event| {
///     assert!(event.words[0] < 3);
///     read += 1;
/// });
/// assert_eq!(read + events.lost(), 300);
/// ```
pub struct Ring<const WORDS: usize> {
    /// Of the rseq areas that the C library registers; 0 if it registers none.
    fast: isize,
    policy: OverflowPolicy,
    /// Written by sections.
    areas: Box<[CpuArea]>,
    /// Written under their locks.
    fallback: Box<[Fallback]>,
    /// Those of all areas, then those of all fallbacks.
    slots: Box<[AtomicU64]>,
    /// Records of each track, a power of two.
    len: usize,
    lost: CpuCounters<1>,
    reader_lock: OwnerLock,
}

#[derive(Debug)]
struct Fallback {
    lock: OwnerLock,
    area: CpuArea,
}

/// A record, and the CPU on which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<const WORDS: usize> {
    /// The CPU.
    pub cpu: usize,
    /// The record.
    pub words: [u64; WORDS],
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Creates an empty ring, for at least `capacity` records for each CPU that this machine may ever have.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn new(capacity: usize, policy: OverflowPolicy) -> Self {
        const { assert!(WORDS > 0, "a record has a word at least") };
        let areas = CpuArea::for_each_cpu();
        // One more: see (3).
        let len =
            capacity.saturating_add(1).checked_next_power_of_two().expect("a capacity that memory can have");
        let all = len.saturating_mul(WORDS).saturating_mul(2 * areas.len());
        let slots = boxed(all, |_| AtomicU64::new(0));
        let fallback = boxed(areas.len(), |_| Fallback { lock: OwnerLock::new(), area: CpuArea::default() });
        let tracks = areas.iter().chain(fallback.iter().map(|fallback| &fallback.area));
        for (area, slots) in tracks.zip(slots.chunks(len * WORDS)) {
            // The most unread records before one is refused: no limit, if the oldest is overwritten.
            let unread = if policy == OverflowPolicy::Refuse { len as u64 } else { u64::MAX };
            // Relaxed: the ring is handed to other threads after that.
            area.plain[UNREAD].store(unread, Relaxed);
            area.plain[SLOTS].store(slots.as_ptr().expose_provenance() as u64, Relaxed);
            area.plain[MASK].store(len as u64 - 1, Relaxed);
        }
        let fast = registration::report().library_offset();
        Self {
            fast,
            policy,
            areas,
            fallback,
            slots,
            len,
            lost: CpuCounters::new(),
            reader_lock: OwnerLock::new(),
        }
    }

    /// Writes a record. Returns `false` if it was refused and counted as [lost](Self::lost): the current CPU's ring is full
    /// ([`OverflowPolicy::Refuse`]), or, in a thread that cannot run critical sections, other threads are writing to all rings.
    #[inline]
    pub fn push(&self, words: &[u64; WORDS]) -> bool {
        // SAFETY: every thread has an rseq area at the offset; areas and slots are those of the ring, for records of this length.
        let done = self.fast != 0
            && unsafe { rseq::record(self.area_ref(self.fast), words.as_ptr(), WORDS) } == Pushed::Done;
        done || self.push_slow(words)
    }

    /// Returns the reader, unless there is one already.
    pub fn reader(&self) -> Option<Reader<'_, WORDS>> {
        // `then`, not `then_some`: dropping a reader unlocks.
        (self.reader_lock.try_lock() != Acquired::No).then(|| Reader { ring: self })
    }

    /// Returns the number of records that were refused, or that the reader found to be overwritten.
    pub fn lost(&self) -> u64 {
        self.lost.sum(0)
    }

    #[inline(always)]
    fn area_ref(&self, offset: isize) -> AreaRef {
        AreaRef::of(&self.areas, offset)
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&self, words: &[u64; WORDS]) -> bool {
        let written = self.by_section(words).unwrap_or_else(|| self.by_lock(words));
        if !written {
            self.lost.add(0, 1);
        }
        written
    }

    /// Returns `None` if the thread cannot run sections.
    fn by_section(&self, words: &[u64; WORDS]) -> Option<bool> {
        let offset = registration::offset()?;
        tries().find_map(|_| {
            // SAFETY: as in `push`.
            match unsafe { rseq::record(self.area_ref(offset), words.as_ptr(), WORDS) } {
                Pushed::Done => Some(true),
                Pushed::Full => Some(false),
                Pushed::Failed => None,
            }
        })
    }

    /// Does what the section does, on the first fallback track whose lock is free.
    fn by_lock(&self, words: &[u64; WORDS]) -> bool {
        let near = registration::nearest(self.fallback.len());
        let mut indices = (near..self.fallback.len()).chain(0..near);
        let Some(index) = indices.find(|&index| self.fallback[index].lock.try_lock() != Acquired::No) else {
            return false;
        };
        let Fallback { lock, area } = &self.fallback[index];
        // Relaxed: under the lock.
        let head = area.plain[HEAD].load(Relaxed);
        // Acquire: the reader has read the slot; pairs with the Release in `Reader::drain`.
        let unread = head.wrapping_sub(area.atomic[TAIL].load(Acquire));
        let room = unread < area.plain[UNREAD].load(Relaxed);
        if room {
            // Release: orders the head of the record before this one before the stores to the slot (3); pairs with the fence in
            // `Reader::drain`.
            fence(Release);
            for (slot, &word) in self.slots(self.areas.len() + index, head).iter().zip(words) {
                slot.store(word, Relaxed);
            }
            // Release: publishes the record (1); pairs with the Acquire in `Reader::drain`.
            area.plain[HEAD].store(head.wrapping_add(1), Release);
        }
        lock.unlock();
        room
    }

    /// Returns the slot of a record.
    fn slots(&self, track: usize, record: u64) -> &[AtomicU64] {
        let slot = track * self.len + (record as usize & (self.len - 1));
        &self.slots[slot * WORDS..][..WORDS]
    }
}

impl<const WORDS: usize> fmt::Debug for Ring<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("records", &self.len)
            .field("policy", &self.policy)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

/// The reader of a [`Ring`]. There is one at a time.
#[derive(Debug)]
pub struct Reader<'a, const WORDS: usize> {
    ring: &'a Ring<WORDS>,
}

impl<const WORDS: usize> Reader<'_, WORDS> {
    /// Takes the records, CPU by CPU, and calls `f` with each; of a CPU those that were written before its first one is read. If
    /// `f` panics, the remaining records stay.
    pub fn drain(&mut self, mut f: impl FnMut(Event<WORDS>)) {
        let Ring { areas, fallback, len, .. } = self.ring;
        let tracks = areas.iter().chain(fallback.iter().map(|fallback| &fallback.area));
        for (track, area) in tracks.enumerate() {
            let cpu = track % areas.len();
            // Relaxed: written by the reader only.
            let mut next = area.atomic[TAIL].load(Relaxed);
            // Acquire: sees the records (1); pairs with the commit of the section, and the Release in `by_lock`.
            let head = area.plain[HEAD].load(Acquire);
            while next < head {
                let mut words = [0; WORDS];
                for (word, slot) in words.iter_mut().zip(self.ring.slots(track, next)) {
                    *word = slot.load(Relaxed);
                }
                // Acquire: if a word belongs to a later record, the load below sees the head that preceded it; pairs with the
                // ordered stores of a section, and the fence in `by_lock`.
                fence(Acquire);
                let now = area.plain[HEAD].load(Relaxed);
                let overwritten = self.ring.policy == OverflowPolicy::Overwrite && now - next >= *len as u64;
                let resume = if overwritten { now - *len as u64 + 1 } else { next + 1 };
                // Release: the slot may be written; pairs with the load in the section, and the Acquire in `by_lock`.
                area.atomic[TAIL].store(resume, Release);
                if overwritten {
                    self.ring.lost.add(0, resume - next);
                } else {
                    f(Event { cpu, words });
                }
                next = resume;
            }
        }
    }
}

impl<const WORDS: usize> Drop for Reader<'_, WORDS> {
    fn drop(&mut self) {
        self.ring.reader_lock.unlock();
    }
}
