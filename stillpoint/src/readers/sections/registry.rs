//! The readers of a domain: one [`Reader`] for each registered thread, reused when the thread ends.
//!
//! Readers lie in chunks of doubling size that never move and are never freed: a scan needs no lock, and references
//! to readers are `'static`. Free readers form a [stack](FreeStack). The registry grows only when the stack is empty,
//! so it is never larger than the peak number of threads.
//!
//! # Invariants
//!
//! 1. `chunks[c]` is null or points to `32 << c` readers, for ever.
//! 2. Every index below `len` lies in a chunk that is not null.
//! 3. A reader belongs to at most one thread, from a successful `claim` to its `release`. That of a thread that exits
//!    inside a section is not released: see [`super::registration`].
//! 4. `gp_seen` of a free reader is 0, and it is not active. It may have a request for a wake-up, which its next
//!    owner answers, or the leader takes back.
//!
//! # Active readers
//!
//! Each chunk has a bit for each of its readers: the *active* ones, which a scan visits. The reader of a registered
//! thread is active, unless the thread has called `hint_idle` and has not entered a section since. So a scan does not
//! load the cache lines of threads that have exited, or are idle: see [`super::registration`].
//!
//! # Orderings
//!
//! - A scan that follows a heavy fence sees every reader whose thread entered a section before that fence: the thread
//!   registered before, and the fence orders all that it did. Later sections see what was unpublished before the
//!   fence.
//! - A reader changes hands by *release* (Release) and *claim* (Acquire): the new owner's stores to `gp_seen` come
//!   after the old owner's, and a scan that reads one also comes after the old owner's sections.
//! - A scan that finds a reader inactive comes after all sections in which the reader was active before:
//!   `clear_active` is a Release and `Group::active` an Acquire. All changes of the bits are read-modify-writes,
//!   which continue earlier release sequences.
//! - `registered` is accessed by read-modify-writes only. So a grace period happens before the registration of the
//!   threads that it does not count, and after the threads that it counts. This orders grace periods without a
//!   heavy fence: if no thread is registered, and in [`crate::readers::qsbr`].

use core::alloc::Layout;
use core::iter;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::slice;

use super::reader::Reader;
use super::used::Used;
use crate::sync::{AtomicPtr, AtomicU64, FreeStack, Memory, Ordering::*};

/// Readers in the first chunk.
const FIRST: usize = if cfg!(loom) { 2 } else { 32 };
/// Together the chunks have more readers than Linux has thread ids (2^22).
const CHUNKS: usize = if cfg!(loom) { 2 } else { 18 };
/// Readers in a group.
const GROUP: usize = if cfg!(loom) { 2 } else { 64 };
const _: () = assert!(FIRST <= GROUP, "the first chunk has one group");

/// Readers of a chunk that follow one another, a bit for each. Their owners write it when they exit, become idle, and
/// read again.
#[derive(Debug)]
#[repr(align(64))]
pub struct Group {
    active: AtomicU64,
    /// The readers from which the leader has requested a wake-up. Only leaders store it, one after another.
    awaited: AtomicU64,
    used: Used,
}

impl Group {
    fn new() -> Self {
        Self { active: AtomicU64::new(0), awaited: AtomicU64::new(0), used: Used::new() }
    }

    /// Returns the bits of the active readers.
    pub fn active(&self) -> u64 {
        // Acquire: sections of readers that are no longer active come before; pairs with the Release in
        // `clear_active`.
        self.active.load(Acquire)
    }

    /// Returns what the last [`set_awaited`](Self::set_awaited) has set.
    pub fn awaited(&self) -> u64 {
        // Relaxed, here and below: grace periods follow one another.
        self.awaited.load(Relaxed)
    }

    pub fn set_awaited(&self, bits: u64) {
        // Most groups stay as they are, and their cache lines clean.
        if self.awaited() != bits {
            self.awaited.store(bits, Relaxed);
        }
    }
}

/// See the [module](self). A value of `A` is attached to each reader, and lies apart, so that a scan touches readers
/// only.
#[derive(Debug)]
pub struct Registry<A> {
    chunks: [AtomicPtr<Reader>; CHUNKS],
    /// The number of readers.
    len: AtomicU64,
    /// The free readers: their indices + 1.
    free: FreeStack,
    /// The number of readers that belong to a thread.
    registered: AtomicU64,
    /// Chunks take only the pages that are written to: see [`sparse`](Self::sparse).
    is_sparse: bool,
    _attached: PhantomData<fn() -> A>,
}

/// There is no memory for another reader.
#[derive(Debug)]
pub struct OutOfMemory;

impl<A> Registry<A> {
    crate::sync::const_unless_loom! {
        /// What is attached may own memory: a leak checker looks for pointers in the chunks.
        pub fn new() -> Self {
            Self::of(false)
        }
    }

    crate::sync::const_unless_loom! {
        /// Chunks take only the pages that are written to.
        ///
        /// # Safety
        ///
        /// Zeroed memory is the default value of `A`, but in models.
        pub unsafe fn sparse() -> Self {
            Self::of(true)
        }
    }

    #[cfg(not(loom))]
    const fn of(is_sparse: bool) -> Self {
        Self::with([const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS], is_sparse)
    }

    #[cfg(loom)]
    fn of(is_sparse: bool) -> Self {
        Self::with(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())), is_sparse)
    }

    crate::sync::const_unless_loom! {
        fn with(chunks: [AtomicPtr<Reader>; CHUNKS], is_sparse: bool) -> Self {
            let (len, free, registered) = (AtomicU64::new(0), FreeStack::new(), AtomicU64::new(0));
            Self { chunks, len, free, registered, is_sparse, _attached: PhantomData }
        }
    }

    /// Returns the chunk of a reader, and the place in it.
    fn place(index: usize) -> (usize, usize) {
        let chunk = (index / FIRST + 1).ilog2() as usize;
        (chunk, index - FIRST * ((1 << chunk) - 1))
    }

    /// Returns the reader with this index, which is below some `len`.
    pub fn reader(&self, index: usize) -> &'static Reader {
        let (chunk, place) = Self::place(index);
        // SAFETY: the chunk has this place.
        unsafe { &*self.chunk(chunk).add(place) }
    }

    /// Returns what is attached to the reader with this index.
    #[inline]
    pub fn attached(&self, index: usize) -> &'static A
    where
        A: 'static,
    {
        let (chunk, place) = Self::place(index);
        // SAFETY: in a chunk this follows the groups: see `new_chunk`.
        unsafe { &*self.chunk(chunk).byte_add(attached_offset::<A>(FIRST << chunk)).cast::<A>().add(place) }
    }

    /// Returns the readers of a chunk.
    fn readers_of(&self, chunk: usize) -> &'static [Reader] {
        // SAFETY: a chunk begins with them: see `new_chunk`.
        unsafe { slice::from_raw_parts(self.chunk(chunk), FIRST << chunk) }
    }

    /// Returns the groups of a chunk.
    fn groups_of(&self, chunk: usize) -> &'static [Group] {
        let readers = FIRST << chunk;
        // SAFETY: in a chunk the groups follow the readers: see `new_chunk`.
        unsafe { slice::from_raw_parts(self.chunk(chunk).add(readers).cast(), readers.div_ceil(GROUP)) }
    }

    /// Returns the groups that contain readers from `first`, the first of a group, to below `end`, which is a value
    /// of [`len`](Self::len); each with the index of its first reader.
    pub fn groups(&self, first: usize, end: usize) -> impl Iterator<Item = (usize, &'static Group)> {
        let mut next = first;
        let mut rest = <&[Group]>::default();
        iter::from_fn(move || {
            let index = next;
            if index >= end {
                return None;
            }
            if rest.is_empty() {
                let (chunk, place) = Self::place(index);
                rest = &self.groups_of(chunk)[place / GROUP..];
            }
            let (group, others) = rest.split_first()?;
            rest = others;
            // The first chunk has one group, which is not full.
            next += if index == 0 { FIRST } else { GROUP };
            Some((index, group))
        })
    }

    /// Returns the readers that have a bit in `bits`, of the group whose first reader has the index `first`; each
    /// with its bit.
    pub fn members(&self, first: usize, mut bits: u64) -> impl Iterator<Item = (u64, &'static Reader)> {
        let (chunk, place) = Self::place(first);
        let group = &self.readers_of(chunk)[place..];
        iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some((1 << bit, &group[bit as usize]))
        })
    }

    /// A thread has the reader.
    fn set_used(&self, reader: &Reader) {
        let (group, bit) = self.bit(reader);
        group.used.claim(bit);
    }

    /// Makes the owner's `reader` active. Before a section: then the light fence must follow.
    pub fn set_active(&self, reader: &Reader) {
        let (group, bit) = self.bit(reader);
        // Relaxed: as for `gp_seen`, a heavy fence orders it. Threads that registered before a grace period without a
        // fence are ordered by `registered`.
        group.active.fetch_or(bit, Relaxed);
    }

    /// Makes the owner's `reader`, which is outside any section, inactive.
    pub fn clear_active(&self, reader: &Reader) {
        let (group, bit) = self.bit(reader);
        // Release: publishes the sections; pairs with the Acquire in `Group::active`.
        group.active.fetch_and(!bit, Release);
    }

    /// Returns `true` if the owner's `reader` is active.
    #[cfg(not(loom))]
    pub fn is_active(&self, reader: &Reader) -> bool {
        let (group, bit) = self.bit(reader);
        group.active() & bit != 0
    }

    fn bit(&self, reader: &Reader) -> (&'static Group, u64) {
        // Relaxed: stored before the reader had its first owner.
        let (chunk, place) = Self::place(reader.index.load(Relaxed) as usize);
        (&self.groups_of(chunk)[place / GROUP], 1 << (place % GROUP))
    }

    /// Returns what is attached to `reader`.
    pub fn attached_to(&self, reader: &Reader) -> &'static A
    where
        A: 'static,
    {
        // Relaxed: stored before the reader had its first owner.
        self.attached(reader.index.load(Relaxed) as usize)
    }

    /// Returns the first reader of a chunk that is not null.
    fn chunk(&self, chunk: usize) -> *const Reader {
        // Acquire: sees the initialized readers; pairs with the first Release in `grow`.
        let chunk = self.chunks[chunk].load(Acquire);
        #[cfg(loom)]
        assert!(!chunk.is_null(), "a chunk that was not seen");
        chunk
    }

    /// Returns the number of readers, in use or not.
    pub fn len(&self) -> usize {
        // Acquire: sees the chunks of all these (invariant 2); pairs with the second Release in `grow`.
        self.len.load(Acquire) as usize
    }

    /// Returns the index of the first [used](super::used) reader from `index` on.
    pub fn next_used(&self, index: usize) -> Option<usize> {
        let (_, place) = Self::place(index);
        self.groups(index - place % GROUP, self.len()).find_map(|(first, group)| {
            let used = group.used.bits() & (u64::MAX << index.saturating_sub(first));
            (used != 0).then(|| first + used.trailing_zeros() as usize)
        })
    }

    /// [`Used::forget_unless`], of the readers whose threads have ended; `has_work` gets their index.
    pub fn forget_unless(&self, has_work: impl Fn(usize) -> bool) {
        for (first, group) in self.groups(0, self.len()) {
            for (bit, _) in self.members(first, group.used.left()) {
                group.used.forget_unless(bit, || has_work(first + bit.trailing_zeros() as usize));
            }
        }
    }

    /// Returns the number of readers that have been claimed and not released. A statistic.
    pub fn claimed(&self) -> u64 {
        self.registered.load(Relaxed)
    }

    /// Returns the number of readers that belong to another thread than the one with the reader `own`.
    pub fn other_readers(&self, own: Option<&Reader>) -> u64 {
        // A read-modify-write: see the module's orderings. Release: publishes what the caller did before to later
        // registrations, so that they need no heavy fence; pairs with the Acquire in `claim`. Acquire: the scan sees
        // the sections of threads that have exited; pairs with the Release in `release`, and that in `claim`.
        self.registered.fetch_add(0, AcqRel) - u64::from(own.is_some())
    }
}

impl<A: Default + 'static> Registry<A> {
    /// Returns a reader for the calling thread, which is active.
    pub fn claim(&self) -> Result<&'static Reader, OutOfMemory> {
        let reader = match self.free.pop(|number| &self.reader(number as usize - 1).next_free) {
            Some(number) => self.reader(number as usize - 1),
            None => self.grow()?,
        };
        self.set_used(reader);
        self.set_active(reader);
        // Acquire: sees what was unpublished before a grace period that did not count this thread. Release: a grace
        // period that counts it finds the reader active. Both pair with `other_readers`.
        self.registered.fetch_add(1, AcqRel);
        Ok(reader)
    }

    /// Releases the calling thread's reader, which is outside any section.
    pub fn release(&self, reader: &'static Reader) {
        // Release: publishes this thread's sections to grace periods that no longer count it; pairs with the Acquire
        // in `other_readers`.
        self.registered.fetch_sub(1, Release);
        let (group, bit) = self.bit(reader);
        group.used.release(bit);
        self.clear_active(reader);
        self.push(reader);
    }

    fn push(&self, reader: &Reader) {
        self.free.push(reader.index.load(Relaxed) + 1, &reader.next_free);
    }

    /// Frees all readers but `own`. For the only thread of a process, as after a fork. The caller resets what is
    /// attached.
    #[cfg(not(loom))]
    pub fn reset_in_child(&self, own: Option<&'static Reader>) {
        self.reset_in_child_except(own, |_| false);
    }

    /// The same, and does not free readers for which `keep` returns `true`: these are active.
    #[cfg(not(loom))]
    pub fn reset_in_child_except(&self, own: Option<&'static Reader>, keep: impl Fn(&A) -> bool) {
        self.free.clear();
        self.registered.store(own.is_some().into(), Relaxed);
        let is_active = own.is_some_and(|own| self.is_active(own));
        // Above `len` too: other threads may have been adding readers.
        for chunk in (0..CHUNKS).take_while(|&chunk| !self.chunks[chunk].load(Relaxed).is_null()) {
            for group in self.groups_of(chunk) {
                group.active.store(0, Relaxed);
                group.awaited.store(0, Relaxed);
                group.used.reset();
            }
            let is_own = |reader: &Reader| own.is_some_and(|own| ptr::eq(own, reader));
            self.readers_of(chunk).iter().filter(|reader| !is_own(reader)).for_each(Reader::reset);
        }
        for index in 0..self.len() {
            let reader = self.reader(index);
            // The fork may have interrupted `grow` before this store.
            reader.index.store(index as u32, Relaxed);
            if own.is_some_and(|own| ptr::eq(own, reader)) {
                reader.take_wake_request();
                self.set_used(reader);
                if is_active {
                    self.set_active(reader);
                }
            } else if keep(self.attached(index)) {
                self.set_used(reader);
                self.set_active(reader);
                self.registered.fetch_add(1, Relaxed);
            } else {
                self.push(reader);
            }
        }
    }

    /// Makes a new reader.
    #[cold]
    fn grow(&self) -> Result<&'static Reader, OutOfMemory> {
        loop {
            let len = self.len();
            let (chunk, _) = Self::place(len);
            let slot = self.chunks.get(chunk).ok_or(OutOfMemory)?;
            if slot.load(Relaxed).is_null() {
                let (memory, readers) = new_chunk::<A>(FIRST << chunk, self.is_sparse)?;
                // Release: publishes the readers; pairs with the Acquire in `chunk`.
                if slot.compare_exchange(ptr::null_mut(), readers.as_ptr(), Release, Relaxed).is_err() {
                    // SAFETY: no other thread has seen it. What lies in it needs no destructor.
                    unsafe { memory.free() };
                }
            }
            // Release: publishes the chunk with the length; pairs with the Acquire in `len`. (The chunk may be
            // another thread's: the exchange or load above has read that thread's store, so it comes before.)
            if self.len.compare_exchange(len as u64, len as u64 + 1, Release, Relaxed).is_ok() {
                let reader = self.reader(len);
                reader.index.store(len as u32, Relaxed);
                return Ok(reader);
            }
        }
    }
}

/// Returns where that which is attached to the readers begins in a chunk of `len`: after the readers and their
/// groups.
const fn attached_offset<A>(len: usize) -> usize {
    let groups = len.div_ceil(GROUP) * size_of::<Group>();
    (len * size_of::<Reader>() + groups).next_multiple_of(align_of::<A>())
}

/// Allocates `len` readers, followed by their groups, and by what is attached to them.
fn new_chunk<A: Default>(len: usize, is_sparse: bool) -> Result<(Memory, NonNull<Reader>), OutOfMemory> {
    const { assert!(align_of::<Group>() <= align_of::<Reader>(), "they follow the readers at once") };
    let groups = len.div_ceil(GROUP);
    let (layout, offset) = Layout::array::<Reader>(len)
        .and_then(|readers| {
            readers.extend(Layout::array::<Group>(groups)?)?.0.extend(Layout::array::<A>(len)?)
        })
        .map_err(|_| OutOfMemory)?;
    debug_assert_eq!(offset, attached_offset::<A>(len));
    // A global allocator that reads re-enters `Registry::claim` from here, and gets a reader of another chunk. Large
    // sparse memory is mapped, which a signal handler may do.
    let memory =
        if is_sparse { Memory::sparse(layout) } else { Memory::zeroed(layout) }.ok_or(OutOfMemory)?;
    let readers = memory.start::<Reader>();
    // SAFETY: by the layout, the block has room for `len` readers, then for their groups, and for `len` of `A` from
    // the offset on.
    unsafe {
        // Otherwise new readers and groups are zero.
        if cfg!(loom) {
            (0..len).for_each(|place| readers.add(place).write(Reader::new()));
            (0..groups).for_each(|group| readers.add(len).cast::<Group>().add(group).write(Group::new()));
        }
        if cfg!(loom) || !is_sparse {
            let attached = memory.start::<u8>().add(offset).cast::<A>();
            (0..len).for_each(|place| attached.add(place).write(A::default()));
        }
    }
    Ok((memory, readers))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::zeroed;

    use super::*;
    use crate::slots::record::Record;

    #[test]
    fn zeroed_memory_is_the_initial_state() {
        // SAFETY: they have atomics only, of integers and of pointers.
        let (reader, group, record): (Reader, Group, Record) = unsafe { (zeroed(), zeroed(), zeroed()) };
        let initial = (Reader::new(), Group::new(), Record::default());
        assert_eq!(format!("{:?}", (reader, group, record)), format!("{initial:?}"));
    }

    #[test]
    #[cfg(all(target_os = "linux", not(any(miri, stillpoint_portable))))]
    fn chunk_of_a_sparse_registry_takes_the_pages_that_are_written_to() {
        let faults = || {
            // SAFETY: zero is a value of plain data, which the call then writes.
            unsafe {
                let mut usage: libc::rusage = zeroed();
                assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
                usage.ru_minflt
            }
        };
        // SAFETY: see the other test.
        let registry: Registry<Record> = unsafe { Registry::sparse() };
        let first =
            (0..).find(|&index| Registry::<Record>::place(index) == (8, 0)).expect("there is a ninth chunk");
        (0..first).for_each(|_| _ = registry.claim().expect("memory"));
        let before = faults();
        _ = registry.claim().expect("memory");
        // The chunk has 2 MiB.
        assert!(faults() - before < 20, "{} pages", faults() - before);
    }
}
