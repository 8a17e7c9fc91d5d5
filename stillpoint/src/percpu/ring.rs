//! Records of events, which one reader takes.
//!
//! # Layout
//!
//! Each CPU has two tracks: one that critical sections write to, and one under a lock that is tried and never waited for, for
//! threads that cannot run sections. A track is an array of slots, used again and again in order. Its *head* counts the
//! records ever written, its *tail* those ever read.
//!
//! # Invariants
//!
//! 1. A record is complete before the head says that it is there. Until then its slot is one that nobody reads: behind the
//!    tail where records may not be overwritten, and otherwise the slot that the reader leaves out (3).
//! 2. The tail is moved by the one reader. Where nothing may be overwritten, nobody writes to a slot between tail and head.
//! 3. Where records may be overwritten, the reader looks at the head again after it has read a record. If the writer can have
//!    come to that slot by then, he discards what he read and counts it as lost. With one slot more than records wait, the
//!    slot that is being written is never one of them.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::holder::{Lock, Taken};
use super::rows::{Row, Words, boxed};
use super::runtime;
use super::section::{self, Place, Pushed, tries};

/// Words of a track's row. See [`super::section`].
const HEAD: usize = 1;
const WAITING: usize = 2;
const SLOTS: usize = 3;
const MASK: usize = 4;
/// Among the atomic ones.
const TAIL: usize = 0;

/// What a [`Ring`] does with a record for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// It replaces the oldest record of its CPU.
    Overwrite,
    /// It is refused.
    Refuse,
}

/// Records of events, `WORDS` words each, which threads on all CPUs write and one reader takes.
///
/// [`push`](Self::push) copies a record into a ring of the current CPU, without a locked instruction, and never waits. The
/// reader gets the records of a CPU in the order in which they were written. (Threads that cannot run critical sections have
/// rings of their own: between their records and others of the same CPU there is no order.) Records that were overwritten or
/// refused are counted: what was pushed is either read or [`lost`](Self::lost).
///
/// ```
/// use stillpoint::percpu::{Ring, WhenFull};
///
/// let events: Ring<2> = Ring::new(1000, WhenFull::Overwrite);
/// std::thread::scope(|scope| {
///     for thread in 0..3 {
///         let events = &events;
///         scope.spawn(move || (0..100).for_each(|number| assert!(events.push(&[thread, number]))));
///     }
/// });
/// let mut read = 0;
/// events.reader().expect("nobody else reads").drain(|event| {
///     assert!(event.words[0] < 3);
///     read += 1;
/// });
/// assert_eq!(read + events.lost(), 300);
/// ```
pub struct Ring<const WORDS: usize> {
    /// Of the area that the C library registers; 0 if it does not.
    fast: isize,
    when_full: WhenFull,
    /// Written by sections.
    rows: Box<[Row]>,
    /// Written under their locks.
    sides: Box<[Side]>,
    /// Of all rows, then of all sides.
    slots: Box<[AtomicU64]>,
    /// Records of each track, a power of two.
    len: usize,
    lost: Words<1>,
    reading: Lock,
}

#[derive(Debug)]
struct Side {
    lock: Lock,
    row: Row,
}

/// A record, and where it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<const WORDS: usize> {
    /// The CPU.
    pub cpu: usize,
    /// What was written.
    pub words: [u64; WORDS],
}

impl<const WORDS: usize> Ring<WORDS> {
    /// An empty ring, for at least `capacity` records for each CPU that this machine may ever have.
    ///
    /// # Panics
    ///
    /// If there is no memory for it, or records have no words.
    pub fn new(capacity: usize, when_full: WhenFull) -> Self {
        const { assert!(WORDS > 0, "a record has a word at least") };
        let rows = Row::for_each_cpu();
        // One more: see (3).
        let len =
            capacity.saturating_add(1).checked_next_power_of_two().expect("a capacity that memory can have");
        let all = len.saturating_mul(WORDS).saturating_mul(2 * rows.len());
        let slots = boxed(all, |_| AtomicU64::new(0));
        let sides = boxed(rows.len(), |_| Side { lock: Lock::new(), row: Row::default() });
        let tracks = rows.iter().chain(sides.iter().map(|side| &side.row));
        for (row, slots) in tracks.zip(slots.chunks(len * WORDS)) {
            // How many may wait before one is refused: without end, where the oldest is overwritten.
            let waiting = if when_full == WhenFull::Refuse { len as u64 } else { u64::MAX };
            // Relaxed: the ring is handed to other threads after that.
            row.plain[WAITING].store(waiting, Relaxed);
            row.plain[SLOTS].store(slots.as_ptr().expose_provenance() as u64, Relaxed);
            row.plain[MASK].store(len as u64 - 1, Relaxed);
        }
        let fast = runtime::report().library_offset();
        Self { fast, when_full, rows, sides, slots, len, lost: Words::new(), reading: Lock::new() }
    }

    /// Writes a record. False if it was refused: the ring of the CPU is full ([`WhenFull::Refuse`]), or, in a thread that
    /// cannot run critical sections, others write to all rings at the moment. It then counts as [lost](Self::lost).
    #[inline]
    pub fn push(&self, words: &[u64; WORDS]) -> bool {
        // SAFETY: every thread has an area at the offset; rows and slots are those of the ring, and records have this length.
        let done = self.fast != 0
            && unsafe { section::record(self.place(self.fast), words.as_ptr(), WORDS) } == Pushed::Done;
        done || self.push_slow(words)
    }

    /// The right to read. Nothing if somebody else has it.
    pub fn reader(&self) -> Option<Reader<'_, WORDS>> {
        // `then`, not `then_some`: dropping a reader gives the right back.
        (self.reading.try_lock() != Taken::No).then(|| Reader { ring: self })
    }

    /// Records that were refused, or that the reader found to be overwritten.
    pub fn lost(&self) -> u64 {
        self.lost.sum(0)
    }

    #[inline(always)]
    fn place(&self, offset: isize) -> Place {
        Place::of(&self.rows, offset)
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

    /// Nothing if the thread cannot run sections.
    fn by_section(&self, words: &[u64; WORDS]) -> Option<bool> {
        let offset = runtime::offset()?;
        tries().find_map(|_| {
            // SAFETY: as in `push`.
            match unsafe { section::record(self.place(offset), words.as_ptr(), WORDS) } {
                Pushed::Done => Some(true),
                Pushed::Full => Some(false),
                Pushed::Failed => None,
            }
        })
    }

    /// The same as the section does, on the first track that nobody is at.
    fn by_lock(&self, words: &[u64; WORDS]) -> bool {
        let near = runtime::nearest(self.sides.len());
        let mut sides = (near..self.sides.len()).chain(0..near);
        let Some(index) = sides.find(|&side| self.sides[side].lock.try_lock() != Taken::No) else {
            return false;
        };
        let Side { lock, row } = &self.sides[index];
        // Relaxed: under the lock.
        let head = row.plain[HEAD].load(Relaxed);
        // Acquire: the reader has read the slot; partner: the Release in `Reader::drain`.
        let waiting = head.wrapping_sub(row.atomic[TAIL].load(Acquire));
        let room = waiting < row.plain[WAITING].load(Relaxed);
        if room {
            // The head of the record before, which the reader may take for his proof (3), comes before these. Partner: the
            // fence in `Reader::drain`.
            fence(Release);
            for (slot, &word) in self.slots(self.rows.len() + index, head).iter().zip(words) {
                slot.store(word, Relaxed);
            }
            // Release: the record (1); partner: the Acquire in `Reader::drain`.
            row.plain[HEAD].store(head.wrapping_add(1), Release);
        }
        lock.unlock();
        room
    }

    /// The slot of a record.
    fn slots(&self, track: usize, record: u64) -> &[AtomicU64] {
        let slot = track * self.len + (record as usize & (self.len - 1));
        &self.slots[slot * WORDS..][..WORDS]
    }
}

impl<const WORDS: usize> fmt::Debug for Ring<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("records", &self.len)
            .field("when_full", &self.when_full)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

/// Who may read a [`Ring`], until it is dropped.
#[derive(Debug)]
pub struct Reader<'a, const WORDS: usize> {
    ring: &'a Ring<WORDS>,
}

impl<const WORDS: usize> Reader<'_, WORDS> {
    /// Takes what is there, CPU by CPU, and gives each record to `f`; of each CPU, up to what was written when its turn
    /// came. If `f` panics, the others stay.
    pub fn drain(&mut self, mut f: impl FnMut(Event<WORDS>)) {
        let Ring { rows, sides, len, .. } = self.ring;
        for (track, row) in rows.iter().chain(sides.iter().map(|side| &side.row)).enumerate() {
            let cpu = track % rows.len();
            // Relaxed: ours.
            let mut next = row.atomic[TAIL].load(Relaxed);
            // Acquire: the records (1); partners: the commit of the section, and the Release in `by_lock`.
            let head = row.plain[HEAD].load(Acquire);
            while next < head {
                let mut words = [0; WORDS];
                for (word, slot) in words.iter_mut().zip(self.ring.slots(track, next)) {
                    *word = slot.load(Relaxed);
                }
                // If any of these belongs to a later record, the head that came before that is seen now. Partners: the
                // stores of a section, which keep their order, and the fence in `by_lock`.
                fence(Acquire);
                let now = row.plain[HEAD].load(Relaxed);
                let overwritten = self.ring.when_full == WhenFull::Overwrite && now - next >= *len as u64;
                let resume = if overwritten { now - *len as u64 + 1 } else { next + 1 };
                // Release: the slot may be written to; partners: the section, and the Acquire in `by_lock`.
                row.atomic[TAIL].store(resume, Release);
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
        self.ring.reading.unlock();
    }
}
