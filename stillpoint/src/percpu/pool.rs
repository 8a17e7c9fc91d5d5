//! A bounded per-CPU object pool. Each CPU has a local stack (rseq, no atomic read-modify-write) and an overflow array
//! behind a try-lock.
//!
//! # Layout
//!
//! A *local stack* is an array whose length only critical sections change: a push writes the slot above and commits the
//! length, a pop reads the slot below and commits. The slots are not linked, so no section follows a pointer that
//! another thread may have freed since. An *overflow array* serves threads that cannot run sections. Full local
//! stacks spill into it, and empty ones are refilled from it.
//!
//! # Invariants
//!
//! 1. A value is in one place: a thread that moves it removes it first and then stores it elsewhere. (If another thread
//!    forks in between, the child lacks the value, and has none twice.)
//! 2. The length of a local stack is changed by sections of its CPU, or by the thread that has stopped the area
//!    ([`Stopped`]).
//! 3. The lock of an overflow array is held for a bounded time, in which no user code runs and nothing is allocated.
//! 4. A CPU is in `used` before its local stack or its overflow array holds a value ([`UsedCpus`]). Pops skip other
//!    CPUs.

use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::overflow::{LockedOverflow, Overflow};
use super::owner::OwnerLock;
use super::remote::{self, Stopped};
use super::rseq::cpu_number::cpu;
use super::rseq::registration::{self, Mode};
use super::rseq::{self, AreaRef, CpuArea, FAILED, NOTHING, Pushed, boxed, tries, zeroed};
use super::used::UsedCpus;
use crate::sync::step;

/// Words of a local stack's area. See [`super::rseq`].
const LEN: usize = 1;
const CAPACITY: usize = 2;
const SLOTS: usize = 3;

/// The most values that are moved at once.
const BATCH: usize = 32;

/// A bounded pool of boxes for reuse: buffers, nodes, connections.
///
/// [`push`](Self::push) and [`pop`](Self::pop) change a stack of the current CPU, without locked instructions. So a
/// thread usually gets the object that was used last on its CPU, and is still in its cache. If that stack is full or
/// empty, they use the overflow arrays, and `pop` the stacks of other CPUs.
///
/// Neither call blocks. While another thread is working in the same place, `pop` may return `None` though an object has
/// just been pushed, and `push` may refuse an object though there is room again.
///
/// # Memory
///
/// Room for `2 * capacity` pointers for each CPU that the machine may ever have.
///
/// ```
/// use stillpoint::percpu::Pool;
///
/// let buffers: Pool<[u8; 4096]> = Pool::new(16);
/// let buffer = buffers.pop().unwrap_or_else(|| Box::new([0; 4096]));
/// // ... use it ...
/// drop(buffers.push(buffer)); // freed, should the pool be full
/// assert!(buffers.pop().is_some());
/// ```
pub struct Pool<T> {
    /// The offset of the rseq areas that the C library registers; 0 if it registers none, or sections are not used.
    fast: isize,
    /// `true` if sections are used.
    sections: bool,
    capacity: usize,
    areas: Box<[CpuArea]>,
    /// The slots of the local stacks: `capacity` for each CPU.
    slots: Box<[AtomicU64]>,
    overflow: Box<[Overflow]>,
    /// The words of the overflow arrays: `capacity` for each CPU.
    words: Box<[AtomicU64]>,
    used: UsedCpus,
    /// Held by a thread that stops areas.
    drain_lock: OwnerLock,
    /// Boxes go in and come out through `&self`, so a pool is invariant in `T`.
    exchanges: PhantomData<fn(T) -> T>,
}

// SAFETY: values are handed from thread to thread, never shared.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// Creates an empty pool for `2 * capacity` boxes for each CPU, half of them without locks.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn new(capacity: usize) -> Self {
        let report = registration::report();
        // Without interrupts no thread could take values from the local stack of another CPU.
        let sections = report.mode() == Mode::Rseq && remote::is_available();
        let areas = CpuArea::for_each_cpu();
        let cpus = areas.len();
        let stacked = if sections { capacity } else { 0 };
        let slots = zeroed(stacked.saturating_mul(cpus));
        for (cpu, area) in areas.iter().enumerate() {
            let first = slots.as_ptr().wrapping_add(cpu * stacked).expose_provenance();
            // Relaxed: the pool is not shared yet. The first push stores the capacity (4).
            area.plain[SLOTS].store(first as u64, Relaxed);
        }
        Self {
            fast: if sections { report.library_offset() } else { 0 },
            sections,
            capacity,
            overflow: boxed(cpus, |_| Overflow::new()),
            words: zeroed(capacity.saturating_mul(cpus)),
            used: UsedCpus::new(cpus),
            areas,
            slots,
            drain_lock: OwnerLock::new(),
            exchanges: PhantomData,
        }
    }

    /// Returns the object to the pool.
    ///
    /// # Errors
    ///
    /// Returns the object if the current CPU's stack and all overflow arrays that can be locked are full.
    #[inline]
    pub fn push(&self, object: Box<T>) -> Result<(), Box<T>> {
        let word = into_word(object);
        // SAFETY: every thread has an rseq area at the offset; areas and slots are those of the pool.
        if self.fast != 0 && unsafe { rseq::push(self.area_ref(self.fast), word) } == Pushed::Done {
            return Ok(());
        }
        // SAFETY: it was not stored, so it is still ours.
        if self.push_slow(word) { Ok(()) } else { Err(unsafe { from_word(word) }) }
    }

    /// Takes the object that was pushed last on the current CPU, or an object of another CPU. Returns `None` if there
    /// is none.
    #[inline]
    pub fn pop(&self) -> Option<Box<T>> {
        if self.fast != 0 {
            // SAFETY: as in `push`.
            let word = unsafe { rseq::pop(self.area_ref(self.fast)) };
            if word != NOTHING && word != FAILED {
                // SAFETY: the section removed it, so it is ours alone (1).
                return Some(unsafe { from_word(word) });
            }
        }
        // SAFETY: as above.
        self.pop_slow().map(|word| unsafe { from_word(word) })
    }

    /// Returns the number of objects in the pool; a snapshot while other threads use it.
    pub fn len(&self) -> usize {
        let local = |cpu: usize| self.areas[cpu].plain[LEN].load(Relaxed) as usize;
        self.used.from(0).map(|cpu| local(cpu) + self.overflow[cpu].len()).sum()
    }

    /// Returns `true` if the pool has no objects; a snapshot while other threads use it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    fn area_ref(&self, offset: isize) -> AreaRef {
        AreaRef::of(&self.areas, offset)
    }

    /// Returns the offset of the calling thread's rseq area, if it may run sections.
    fn offset(&self) -> Option<isize> {
        if self.sections { registration::offset() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&self, word: u64) -> bool {
        let near = registration::nearest(self.overflow.len());
        if let Some(offset) = self.offset() {
            let mut spilt = false;
            for _ in tries() {
                // SAFETY: the thread has an rseq area at the offset; areas and slots are those of the pool.
                match unsafe { rseq::push(self.area_ref(offset), word) } {
                    Pushed::Done => return true,
                    Pushed::Full if self.open_local() => {}
                    Pushed::Full if spilt => break,
                    Pushed::Full => {
                        self.spill(offset, near);
                        spilt = true;
                    }
                    Pushed::Failed => step!("push-does-not-reopen", remote::reopen(&self.areas)),
                }
            }
        }
        let mut cpus = (near..self.overflow.len()).chain(0..near);
        cpus.any(|cpu| self.lock_overflow(cpu).is_some_and(|overflow| overflow.push(&[word]) == 1))
    }

    /// Gives the local stack of the current CPU its capacity. Returns `false` if it has a capacity already.
    fn open_local(&self) -> bool {
        let cpu = cpu();
        let Some(area) = self.areas.get(cpu) else { return false };
        // Relaxed: every thread that finds none stores the same.
        let is_closed = area.plain[CAPACITY].load(Relaxed) != self.capacity as u64;
        if is_closed {
            self.used.open(cpu, &area.plain[CAPACITY], self.capacity as u64);
        }
        is_closed
    }

    fn lock_overflow(&self, cpu: usize) -> Option<LockedOverflow<'_>> {
        let words = &self.words[cpu * self.capacity..][..self.capacity];
        self.overflow[cpu].try_lock(cpu, words, &self.used)
    }

    /// Makes room in the local stack: moves half of it to the overflow array.
    fn spill(&self, offset: isize, near: usize) {
        let Some(overflow) = self.lock_overflow(near) else { return };
        let mut words = [0; BATCH];
        let count = BATCH.min(overflow.room()).min(self.capacity.div_ceil(2));
        let mut popped = 0;
        for word in &mut words[..count] {
            // SAFETY: as in `push_slow`.
            match unsafe { rseq::pop(self.area_ref(offset)) } {
                FAILED | NOTHING => break,
                found => *word = found,
            }
            popped += 1;
        }
        // Those that were pushed first, first.
        words[..popped].reverse();
        overflow.push(&words[..popped]);
    }

    #[cold]
    #[inline(never)]
    fn pop_slow(&self) -> Option<u64> {
        let near = registration::nearest(self.overflow.len());
        let offset = self.offset();
        if let Some(offset) = offset {
            for _ in tries() {
                // SAFETY: as in `push_slow`.
                match unsafe { rseq::pop(self.area_ref(offset)) } {
                    FAILED => step!("pop-does-not-reopen", remote::reopen(&self.areas)),
                    NOTHING => break,
                    word => return Some(word),
                }
            }
        }
        self.used
            .from(near)
            .find_map(|cpu| self.pop_overflow(cpu, offset))
            .or_else(|| self.drain_remote(near))
    }

    /// Takes a word from the overflow array of a CPU, and refills the current CPU's local stack from there.
    fn pop_overflow(&self, cpu: usize, offset: Option<isize>) -> Option<u64> {
        if self.overflow[cpu].len() == 0 {
            return None;
        }
        let overflow = self.lock_overflow(cpu)?;
        let mut word = [0];
        if overflow.pop(&mut word) == 0 {
            return None;
        }
        if let Some(offset) = offset {
            let mut words = [0; BATCH];
            let count = overflow.pop(&mut words[..BATCH.min(self.capacity / 2)]);
            self.open_local();
            // SAFETY: as in `push_slow`.
            let push = |word: &&u64| unsafe { rseq::push(self.area_ref(offset), **word) } == Pushed::Done;
            let pushed = words[..count].iter().take_while(push).count();
            overflow.push(&words[pushed..count]);
        }
        Some(word[0])
    }

    /// Drains the local stack of another CPU: returns one word, and moves others to the overflow array `near`.
    #[cold]
    fn drain_remote(&self, near: usize) -> Option<u64> {
        // Acquire: sees the values with the length; pairs with the commit of a section.
        let has_some = |cpu: &usize| self.areas[*cpu].plain[LEN].load(Acquire) > 0;
        if !self.sections || !self.used.from(near).any(|cpu| has_some(&cpu)) || !self.drain_lock.try_lock() {
            return None;
        }
        let mut victims = self.used.from((near + 1) % self.areas.len()).filter(has_some);
        let word = victims.find_map(|victim| self.drain(victim, self.lock_overflow(near).as_ref()));
        self.drain_lock.unlock();
        word
    }

    /// Takes half of the local stack of `victim`, or one word if there is no overflow array for the `rest`.
    fn drain(&self, victim: usize, rest: Option<&LockedOverflow<'_>>) -> Option<u64> {
        // If the kernel denies the interrupt now, the words stay there.
        let stopped = Stopped::new(&self.areas, victim).ok()?;
        let len = &self.areas[victim].plain[LEN];
        // Relaxed, here and below: the interrupt ordered what sections did before it.
        let found = len.load(Relaxed) as usize;
        let room = rest.map_or(0, LockedOverflow::room);
        let count = found.div_ceil(2).min(room + 1).min(BATCH);
        let end = victim * self.capacity + found;
        let mut words = [0; BATCH];
        for (word, slot) in words.iter_mut().zip(&self.slots[end - count..end]) {
            *word = slot.load(Relaxed);
        }
        len.store((found - count) as u64, Relaxed);
        drop(stopped);
        let (word, others) = words[..count].split_last()?;
        if let Some(rest) = rest {
            rest.push(others);
        }
        Some(*word)
    }

    /// Runs `f` while the area of `cpu` is stopped, as by a thread that drains it.
    #[cfg(stillpoint_faults)]
    #[doc(hidden)]
    pub fn with_area_stopped<R>(&self, cpu: usize, f: impl FnOnce() -> R) -> R {
        let _stopped = Stopped::new(&self.areas, cpu).expect("sections can be interrupted");
        f()
    }

    /// Returns the number of objects in the local stack of `cpu`.
    #[cfg(stillpoint_faults)]
    #[doc(hidden)]
    pub fn local_len(&self, cpu: usize) -> u64 {
        self.areas[cpu].plain[LEN].load(Relaxed)
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        for (area, slots) in self.areas.iter_mut().zip(self.slots.chunks_mut(self.capacity.max(1))) {
            for slot in &mut slots[..*area.plain[LEN].get_mut() as usize] {
                // SAFETY: in the pool, and so ours alone (1).
                drop(unsafe { from_word::<T>(*slot.get_mut()) });
            }
        }
        for (overflow, words) in self.overflow.iter().zip(self.words.chunks_mut(self.capacity.max(1))) {
            for word in &mut words[..overflow.len()] {
                // SAFETY: as above.
                drop(unsafe { from_word::<T>(*word.get_mut()) });
            }
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

fn into_word<T>(object: Box<T>) -> u64 {
    Box::into_raw(object).expose_provenance() as u64
}

/// # Safety
///
/// A word of [`into_word`] that is used once.
unsafe fn from_word<T>(word: u64) -> Box<T> {
    // SAFETY: the caller's contract.
    unsafe { Box::from_raw(ptr::with_exposed_provenance_mut(word as usize)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_without_an_overflow_array_takes_one_object() {
        let pool = Pool::new(8);
        if !pool.sections {
            return eprintln!("not checked: no sections, or they cannot be interrupted");
        }
        (0..8).for_each(|n| pool.push(Box::new(n)).expect("there is room"));
        let mut left = pool.len();
        for cpu in pool.used.from(0).collect::<Vec<_>>() {
            while let Some(word) =
                (pool.areas[cpu].plain[LEN].load(Relaxed) > 0).then(|| pool.drain(cpu, None))
            {
                // SAFETY: the word was drained, so it is ours alone.
                drop(unsafe { from_word::<i32>(word.expect("there is one")) });
                left -= 1;
                assert_eq!(pool.len(), left);
            }
        }
    }

    #[test]
    fn pops_visit_only_cpus_that_have_pushed() {
        let pool = Pool::new(4);
        assert!(pool.pop().is_none() && pool.used.from(0).count() == 0);
        pool.push(Box::new(1)).expect("there is room");
        // The thread may be migrated in between, so the pop may refill another local stack.
        assert_eq!(pool.pop().as_deref(), Some(&1));
        assert!(pool.used.from(0).count() <= 2);
    }
}
