//! A bounded per-CPU object pool. Each CPU has a local stack (rseq, no atomic read-modify-write) and an overflow
//! array behind a try-lock.
//!
//! # Layout
//!
//! A *local stack* is an object of per-CPU memory ([`super::words`]): an array whose length only critical sections
//! change: a push writes the slot above and commits the length, a pop reads the slot below and commits. The slots are
//! not linked, so no section follows a pointer that another thread may have freed since. An *overflow array* serves
//! threads that cannot run sections. Full local stacks spill into it, and empty ones are refilled from it.
//!
//! # Invariants
//!
//! 1. A value is in one place: a thread that moves it removes it first and then stores it elsewhere. (If another
//!    thread forks in between, the child lacks the value, and has none twice.)
//! 2. The length of a local stack is changed by sections of its CPU, or by the thread that has stopped the stack
//!    ([`Stopped`]).
//! 3. The lock of an overflow array is held for a bounded time, in which no user code runs and nothing is allocated.
//! 4. The limit of the object is above the CPU of each value: a section beyond it fails, and a thread that stores
//!    values in an overflow array has raised it. So a pop that comes after a push finds that limit at least, and
//!    visits the CPUs below it only.

use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::memory::MOST_WORDS;
use super::overflow::{LockedOverflow, Overflow};
use super::owner::OwnerLock;
use super::remote::{self, Stopped};
use super::rseq::cpu_number::cpu;
use super::rseq::registration::{self, Mode};
use super::rseq::{self, FAILED, NOTHING, Place, Pushed, boxed, tries, zeroed};
use super::words::CpuWords;
use crate::sync::step;
use crate::sys::rseq::possible_cpus;

/// Words of a local stack, before its slots. See [`super::rseq`].
const STOP: usize = 0;
const LEN: usize = 1;
const SLOTS: usize = 2;

/// The most values that are moved at once.
const BATCH: usize = 32;

/// A bounded pool of boxes for reuse: buffers, nodes, connections.
///
/// [`push`](Self::push) and [`pop`](Self::pop) change a stack of the current CPU, without locked instructions. So a
/// thread usually gets the object that was used last on its CPU, and is still in its cache. If that stack is full or
/// empty, they use the overflow arrays, and `pop` the stacks of other CPUs.
///
/// Neither call blocks. While another thread is working in the same place, `pop` may return `None` though an object
/// has just been pushed, and `push` may refuse an object though there is room again.
///
/// # Memory
///
/// Room for `2 * capacity` pointers: half of them for each CPU that the process runs on, half for each that the
/// machine may ever have.
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
    /// The local stacks: objects of `SLOTS + local` words.
    stacks: CpuWords<SLOTS>,
    /// The slots of a local stack; 0 if sections are not used.
    local: usize,
    capacity: usize,
    overflow: Box<[Overflow]>,
    /// The words of the overflow arrays: `capacity` for each CPU, and what the local stacks lack.
    words: Box<[AtomicU64]>,
    /// Held by a thread that stops stacks.
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
        Self::try_new(capacity).expect("there is memory for per-CPU data")
    }

    /// [`new`](Self::new), which returns `None` if there is no memory: for `stillpoint-capi`.
    #[doc(hidden)]
    pub fn try_new(capacity: usize) -> Option<Self> {
        let report = registration::report();
        let (stacks, slots) = (CpuWords::new(), capacity.min(MOST_WORDS - SLOTS));
        // Without interrupts no thread could take values from the local stack of another CPU.
        let sections = report.mode() == Mode::Rseq && remote::is_available();
        let local = if sections && stacks.take_larger(SLOTS + slots, report, true) { slots } else { 0 };
        let beyond = if local > 0 { capacity - local } else { 0 };
        let cpus = possible_cpus();
        Some(Self {
            stacks,
            local,
            capacity,
            overflow: boxed(cpus, |_| Overflow::new())?,
            words: zeroed(capacity.saturating_add(beyond).saturating_mul(cpus))?,
            drain_lock: OwnerLock::new(),
            exchanges: PhantomData,
        })
    }

    /// Returns the object to the pool.
    ///
    /// # Errors
    ///
    /// Returns the object if the current CPU's stack and all overflow arrays that can be locked are full.
    #[inline]
    pub fn push(&self, object: Box<T>) -> Result<(), Box<T>> {
        let word = into_word(object);
        // SAFETY: every thread has an rseq area at the offset of the stacks, if it is not 0.
        if unsafe { self.push_local(self.stacks.place(), word) } == Pushed::Done {
            return Ok(());
        }
        // SAFETY: it was not stored, so it is still ours.
        if self.push_slow(word) { Ok(()) } else { Err(unsafe { from_word(word) }) }
    }

    /// Takes the object that was pushed last on the current CPU, or an object of another CPU. Returns `None` if there
    /// is none.
    #[inline]
    pub fn pop(&self) -> Option<Box<T>> {
        // SAFETY: as in `push`.
        let word = unsafe { rseq::pop(self.stacks.place()) };
        if word != NOTHING && word != FAILED {
            // SAFETY: the section removed it, so it is ours alone (1).
            return Some(unsafe { from_word(word) });
        }
        // SAFETY: as above.
        self.pop_slow().map(|word| unsafe { from_word(word) })
    }

    /// Returns the number of objects in the pool; a snapshot while other threads use it.
    pub fn len(&self) -> usize {
        let local = |cpu: usize| self.local_word(cpu, LEN).map_or(0, |len| len.load(Relaxed) as usize);
        self.used(0).map(|cpu| local(cpu) + self.overflow[cpu].len()).sum()
    }

    /// Returns `true` if the pool has no objects; a snapshot while other threads use it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset of the calling thread's rseq area, if it may run sections.
    fn offset(&self) -> Option<isize> {
        if self.local > 0 { registration::offset() } else { None }
    }

    /// # Safety
    ///
    /// The place is that of the stacks, for the calling thread.
    #[inline(always)]
    unsafe fn push_local(&self, place: &Place, word: u64) -> Pushed {
        // SAFETY: the caller's contract; the stacks have these slots.
        unsafe { rseq::push(place, self.local, word) }
    }

    /// Returns a word of the local stack of `cpu`, unless that is beyond the limit, or there are none.
    fn local_word(&self, cpu: usize, word: usize) -> Option<&AtomicU64> {
        assert!(word < SLOTS + self.local, "no such word");
        // SAFETY: the stacks have these words.
        unsafe { self.stacks.get(cpu, word) }
    }

    /// Iterates over the CPUs that may have values (4): from `first` on, then those below.
    fn used(&self, first: usize) -> impl Iterator<Item = usize> {
        let limit = self.stacks.limit();
        (first..limit).chain(0..first.min(limit))
    }

    /// Lets sections of the current CPU run, after one has failed.
    fn open_local(&self) {
        self.stacks.raise_limit(cpu());
    }

    /// Reopens the local stack of the current CPU.
    fn reopen(&self) {
        self.local_word(cpu(), STOP).into_iter().for_each(remote::reopen);
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&self, word: u64) -> bool {
        let near = registration::nearest(self.overflow.len());
        if let Some(offset) = self.offset() {
            let mut spilt = false;
            for _ in tries() {
                // SAFETY: the thread has an rseq area at the offset.
                match unsafe { self.push_local(&self.stacks.place().at(offset), word) } {
                    Pushed::Done => return true,
                    Pushed::Full if spilt => break,
                    Pushed::Full => {
                        self.spill(offset, near);
                        spilt = true;
                    }
                    Pushed::Failed => {
                        self.open_local();
                        step!("push-does-not-reopen", self.reopen());
                    }
                }
            }
        }
        let mut cpus = (near..self.overflow.len()).chain(0..near);
        cpus.any(|cpu| self.lock_overflow(cpu).is_some_and(|overflow| overflow.push(&[word]) == 1))
    }

    fn lock_overflow(&self, cpu: usize) -> Option<LockedOverflow<'_>> {
        let room = self.words.len() / self.overflow.len();
        self.overflow[cpu].try_lock(cpu, &self.words[cpu * room..][..room], &self.stacks)
    }

    /// Makes room in the local stack: moves half of it to the overflow array.
    fn spill(&self, offset: isize, near: usize) {
        let Some(overflow) = self.lock_overflow(near) else { return };
        let mut words = [0; BATCH];
        let count = BATCH.min(overflow.room()).min(self.local.div_ceil(2));
        let mut popped = 0;
        for word in &mut words[..count] {
            // SAFETY: as in `push_slow`.
            match unsafe { rseq::pop(&self.stacks.place().at(offset)) } {
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
                match unsafe { rseq::pop(&self.stacks.place().at(offset)) } {
                    FAILED => {
                        self.open_local();
                        step!("pop-does-not-reopen", self.reopen());
                    }
                    NOTHING => break,
                    word => return Some(word),
                }
            }
        }
        self.used(near).find_map(|cpu| self.pop_overflow(cpu, offset)).or_else(|| self.drain_remote(near))
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
            let count = overflow.pop(&mut words[..BATCH.min(self.local / 2)]);
            self.open_local();
            // SAFETY: as in `push_slow`.
            let push = |word: &&u64| unsafe { self.push_local(&self.stacks.place().at(offset), **word) } == Pushed::Done;
            let pushed = words[..count].iter().take_while(push).count();
            overflow.push(&words[pushed..count]);
        }
        Some(word[0])
    }

    /// Drains the local stack of another CPU: returns one word, and moves others to the overflow array `near`.
    #[cold]
    fn drain_remote(&self, near: usize) -> Option<u64> {
        // Acquire: sees the values with the length; pairs with the commit of a section.
        let has_some = |cpu: &usize| self.local_word(*cpu, LEN).is_some_and(|len| len.load(Acquire) > 0);
        if !self.used(near).any(|cpu| has_some(&cpu)) || !self.drain_lock.try_lock() {
            return None;
        }
        let mut victims = self.used(near + 1).filter(has_some);
        let word = victims.find_map(|victim| self.drain(victim, self.lock_overflow(near).as_ref()));
        self.drain_lock.unlock();
        word
    }

    /// Takes half of the local stack of `victim`, or one word if there is no overflow array for the `rest`.
    fn drain(&self, victim: usize, rest: Option<&LockedOverflow<'_>>) -> Option<u64> {
        // If the kernel denies the interrupt now, the words stay there.
        let stopped = Stopped::new(self.local_word(victim, STOP)?, victim)?;
        let len = self.local_word(victim, LEN)?;
        // Relaxed, here and below: the interrupt ordered what sections did before it.
        let found = len.load(Relaxed) as usize;
        let room = rest.map_or(0, LockedOverflow::room);
        let count = found.div_ceil(2).min(room + 1).min(BATCH);
        let mut words = [0; BATCH];
        for (word, slot) in words.iter_mut().zip(SLOTS + found - count..SLOTS + found) {
            *word = self.local_word(victim, slot)?.load(Relaxed);
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
        self.stacks.raise_limit(cpu);
        let stop = self.local_word(cpu, STOP).expect("sections are used");
        let _stopped = Stopped::new(stop, cpu).expect("sections can be interrupted");
        f()
    }

    /// Returns the number of objects in the local stack of `cpu`.
    #[cfg(stillpoint_faults)]
    #[doc(hidden)]
    pub fn local_len(&self, cpu: usize) -> u64 {
        self.local_word(cpu, LEN).map_or(0, |len| len.load(Relaxed))
    }
}

impl<T> Pool<T> {
    /// Drops all objects that have not been dropped. The caller has the pool alone.
    fn drop_all(&self) {
        for cpu in self.used(0) {
            let Some(len) = self.local_word(cpu, LEN) else { break };
            let len = len.load(Relaxed) as usize;
            for slot in 0..self.local {
                // The object of the stacks goes back with words of zero.
                let word = self.local_word(cpu, SLOTS + slot).map_or(0, |word| word.swap(0, Relaxed));
                if slot < len && word != 0 {
                    // SAFETY: in the pool, and so ours alone (1).
                    drop(unsafe { from_word::<T>(word) });
                }
            }
        }
        for cpu in 0..self.overflow.len() {
            let mut word = [0];
            while self.lock_overflow(cpu).is_some_and(|overflow| overflow.pop(&mut word) == 1) {
                // SAFETY: as above.
                drop(unsafe { from_word::<T>(word[0]) });
            }
        }
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        /// Drops the rest after a destructor that panics, as a `Vec` does.
        struct Rest<'a, T>(&'a Pool<T>);
        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                step!("slots-not-cleared", self.0.drop_all());
            }
        }
        let rest = Rest(self);
        self.drop_all();
        mem::forget(rest);
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
        if pool.local == 0 {
            return eprintln!("not checked: no sections, or they cannot be interrupted");
        }
        (0..8).for_each(|n| pool.push(Box::new(n)).expect("there is room"));
        let mut left = pool.len();
        for cpu in pool.used(0) {
            while let Some(word) = pool
                .local_word(cpu, LEN)
                .is_some_and(|len| len.load(Relaxed) > 0)
                .then(|| pool.drain(cpu, None))
            {
                // SAFETY: the word was drained, so it is ours alone.
                drop(unsafe { from_word::<i32>(word.expect("there is one")) });
                left -= 1;
                assert_eq!(pool.len(), left);
            }
        }
    }

    #[test]
    fn pool_has_the_room_that_it_says_beyond_the_largest_stack() {
        for capacity in [0, 1, 14, 62, 506, 507, 2000] {
            let pool = Pool::new(capacity);
            let cpus = pool.overflow.len();
            let room = if pool.local > 0 { 2 * capacity } else { capacity };
            let kept = (0..).take_while(|n| pool.push(Box::new(*n)).is_ok()).count();
            // It may have used the local stacks of some CPUs.
            assert!(
                (cpus * (room - pool.local) + pool.local..=cpus * room).contains(&kept),
                "{capacity}: {kept}"
            );
            assert_eq!(pool.len(), kept);
            let mut found: Vec<usize> = core::iter::from_fn(|| pool.pop()).map(|n| *n).collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(0..kept), "{capacity}");
        }
    }
}
