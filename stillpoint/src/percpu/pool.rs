//! Boxes kept for those who need one next.
//!
//! # Layout
//!
//! Each CPU has two places. Its *stack* is an array whose length is changed by critical sections only: a push writes the slot
//! above and commits the length, a pop reads the slot below and commits. As slots are not linked, no section follows a
//! pointer that another thread may have freed meanwhile. Its *shelf* is an array under a lock that is tried and never waited
//! for: for threads that cannot run sections, for what overflows a stack, and from where empty stacks are filled.
//!
//! # Invariants
//!
//! 1. A value is in one place: whoever moves one takes it away first and puts it elsewhere then. (A thread that a fork
//!    interrupts in between takes it with it; the child lacks the value, and has none twice.)
//! 2. A stack's length is changed by sections of its CPU, or by whoever has stopped the row ([`Stopped`]).
//! 3. The lock of a shelf is held for a bounded time, in which no code of the user runs and nothing is allocated.
//! 4. A CPU is in `used` before its stack or its shelf holds a value ([`UsedCpus`]). Others are not looked at.

use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::holder::{Lock, Taken};
use super::remote::{self, Stopped};
use super::rows::{Row, boxed};
use super::runtime::{self, Mode};
use super::section::{self, FAILED, NOTHING, Place, Pushed, tries};
use super::shelf::{Held, Shelf};
use super::used::UsedCpus;
use crate::sync::step;

/// Words of a stack's row. See [`super::section`].
const LEN: usize = 1;
const CAPACITY: usize = 2;
const SLOTS: usize = 3;

/// Values moved at once, at most.
const BATCH: usize = 32;

/// Boxes that were given back, for those who need one: buffers, nodes, connections.
///
/// [`push`](Self::push) and [`pop`](Self::pop) change a stack of the current CPU, without locked instructions, so a thread
/// mostly gets what was used last on its CPU and is still in its cache. The pool is bounded: it refuses values when the CPU's
/// places are full and there is no room elsewhere. A thread that finds nothing on its CPU takes what others have.
///
/// Neither call ever waits. `pop` may return nothing though another thread has just pushed something, and `push` may refuse
/// though another has just made room: if somebody else is at work in the same place.
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
    /// Of the area that the C library registers; 0 if it does not, or sections are not used.
    fast: isize,
    /// Whether threads run sections at all.
    sections: bool,
    capacity: usize,
    rows: Box<[Row]>,
    /// `capacity` for each CPU.
    slots: Box<[AtomicU64]>,
    shelves: Box<[Shelf]>,
    used: UsedCpus,
    /// Of the thread that stops rows.
    stealing: Lock,
    /// Boxes go in and come out through `&self`: so a pool of longer lives is not one of shorter lives.
    exchanges: PhantomData<fn(T) -> T>,
}

// SAFETY: values are handed from thread to thread, never shared.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// An empty pool for twice `capacity` boxes for each CPU, `capacity` of them without locks.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    pub fn new(capacity: usize) -> Self {
        Self::with_cpus(capacity, runtime::report().cpus())
    }

    fn with_cpus(capacity: usize, cpus: usize) -> Self {
        let report = runtime::report();
        // Without it nobody could take what lies in another CPU's stack.
        let sections = report.mode() == Mode::Rseq && remote::is_available();
        let rows = boxed(cpus, |_| Row::default());
        let stacked = if sections { capacity } else { 0 };
        let slots = boxed(stacked.saturating_mul(rows.len()), |_| AtomicU64::new(0));
        for (cpu, row) in rows.iter().enumerate() {
            // Relaxed: the pool is handed to other threads after that. The capacity comes with the first push (4).
            row.plain[SLOTS]
                .store(slots.as_ptr().wrapping_add(cpu * stacked).expose_provenance() as u64, Relaxed);
        }
        Self {
            fast: if sections { report.library_offset() } else { 0 },
            sections,
            capacity,
            shelves: boxed(rows.len(), |_| Shelf::new(capacity)),
            used: UsedCpus::new(rows.len()),
            rows,
            slots,
            stealing: Lock::new(),
            exchanges: PhantomData,
        }
    }

    /// Keeps `value`.
    ///
    /// # Errors
    ///
    /// Gives it back if there is no room.
    #[inline]
    pub fn push(&self, value: Box<T>) -> Result<(), Box<T>> {
        let value = into_word(value);
        // SAFETY: every thread has an area at the offset; rows and slots are those of the pool.
        if self.fast != 0 && unsafe { section::push(self.place(self.fast), value) } == Pushed::Done {
            return Ok(());
        }
        // SAFETY: it was not kept, so it is still ours.
        if self.push_slow(value) { Ok(()) } else { Err(unsafe { from_word(value) }) }
    }

    /// Takes a value that was kept, if there is one: that which was kept last on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<Box<T>> {
        if self.fast != 0 {
            // SAFETY: as in `push`.
            let value = unsafe { section::pop(self.place(self.fast)) };
            if value != NOTHING && value != FAILED {
                // SAFETY: the section took it away, so it is ours alone (1).
                return Some(unsafe { from_word(value) });
            }
        }
        // SAFETY: as above.
        self.pop_slow().map(|value| unsafe { from_word(value) })
    }

    /// Keeps values of `values`, from the end, until there is no room; the others stay there. Faster than one by one.
    pub fn push_many(&self, values: &mut Vec<Box<T>>) {
        while !values.is_empty() {
            let count = values.len().min(BATCH);
            let first = values.len() - count;
            let mut words = [0; BATCH];
            for (word, value) in words.iter_mut().zip(values.drain(first..)) {
                *word = into_word(value);
            }
            let kept = self.stack_batch(&words[..count]);
            // SAFETY: the batch is kept from its front; these were not, so they are still ours.
            values.extend(words[kept..count].iter().map(|&word| unsafe { from_word(word) }));
            if kept < count
                && let Some(value) = values.pop()
                && let Err(value) = self.push(value)
            {
                return values.push(value);
            }
        }
    }

    /// Takes at most `most` values, and appends them to `values`. Faster than one by one. How many there were.
    pub fn pop_many(&self, values: &mut Vec<Box<T>>, most: usize) -> usize {
        let before = values.len();
        while values.len() - before < most {
            let mut words = [0; BATCH];
            let count = BATCH.min(most - (values.len() - before));
            let taken = self.unstack_batch(&mut words[..count]);
            // SAFETY: taken away, so ours alone (1).
            values.extend(words[..taken].iter().map(|&word| unsafe { from_word(word) }));
            if taken == 0 {
                // From a shelf, or from elsewhere, which fills the stack.
                match self.pop() {
                    Some(value) => values.push(value),
                    None => break,
                }
            }
        }
        values.len() - before
    }

    /// How many values there are, unless others change that.
    pub fn len(&self) -> usize {
        let stacked = |cpu: usize| self.rows[cpu].plain[LEN].load(Relaxed) as usize;
        self.used.from(0).map(|cpu| stacked(cpu) + self.shelves[cpu].len()).sum()
    }

    /// Whether there are no values, unless others change that.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    fn place(&self, offset: isize) -> Place {
        Place::of(&self.rows, offset)
    }

    /// The area of the calling thread, if it may run sections.
    fn offset(&self) -> Option<isize> {
        if self.sections { runtime::offset() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&self, value: u64) -> bool {
        let near = runtime::nearest(self.shelves.len());
        if let Some(offset) = self.offset() {
            let mut spilt = false;
            for _ in tries() {
                // SAFETY: the thread has an area at the offset; rows and slots are those of the pool.
                match unsafe { section::push(self.place(offset), value) } {
                    Pushed::Done => return true,
                    Pushed::Full if self.open_stack() => {}
                    Pushed::Full if spilt => break,
                    Pushed::Full => {
                        self.spill(offset, near);
                        spilt = true;
                    }
                    Pushed::Failed => step!("push-does-not-reopen", remote::reopen(&self.rows)),
                }
            }
        }
        let mut cpus = (near..self.shelves.len()).chain(0..near);
        cpus.any(|cpu| self.hold_shelf(cpu).is_some_and(|shelf| shelf.put(&[value]) == 1))
    }

    /// Gives the stack of the current CPU its capacity. False if it has it.
    fn open_stack(&self) -> bool {
        let cpu = super::cpu();
        let Some(row) = self.rows.get(cpu) else { return false };
        // Relaxed: it is stored once, or again by a thread that does the same.
        let is_closed = row.plain[CAPACITY].load(Relaxed) != self.capacity as u64;
        if is_closed {
            self.used.open(cpu, &row.plain[CAPACITY], self.capacity as u64);
        }
        is_closed
    }

    /// The shelf of a CPU, unless another thread holds it. From a thread that is gone, too: it is whole at every moment.
    fn hold_shelf(&self, cpu: usize) -> Option<Held<'_>> {
        self.shelves[cpu].hold(cpu, &self.used)
    }

    /// Makes room in the stack: half of it goes to the shelf.
    fn spill(&self, offset: isize, near: usize) {
        let Some(shelf) = self.hold_shelf(near) else { return };
        let mut words = [0; BATCH];
        let count = BATCH.min(shelf.room()).min(self.capacity.div_ceil(2));
        // SAFETY: as in `push_slow`; there is room for that many.
        let taken = unsafe { section::pop_batch(self.place(offset), words.as_mut_ptr(), count) };
        if taken != FAILED {
            shelf.put(&words[..taken as usize]);
        }
    }

    #[cold]
    #[inline(never)]
    fn pop_slow(&self) -> Option<u64> {
        let near = runtime::nearest(self.shelves.len());
        let offset = self.offset();
        if let Some(offset) = offset {
            for _ in tries() {
                // SAFETY: as in `push_slow`.
                match unsafe { section::pop(self.place(offset)) } {
                    FAILED => step!("pop-does-not-reopen", remote::reopen(&self.rows)),
                    NOTHING => break,
                    value => return Some(value),
                }
            }
        }
        self.used.from(near).find_map(|cpu| self.take_from(cpu, offset)).or_else(|| self.steal(near))
    }

    /// One value of the shelf of a CPU, and more for the stack.
    fn take_from(&self, cpu: usize, offset: Option<isize>) -> Option<u64> {
        remote::looks();
        if self.shelves[cpu].len() == 0 {
            return None;
        }
        let shelf = self.hold_shelf(cpu)?;
        let mut value = [0];
        if shelf.take(&mut value) == 0 {
            return None;
        }
        if let Some(offset) = offset {
            let mut words = [0; BATCH];
            let count = shelf.take(&mut words[..BATCH.min(self.capacity / 2)]);
            self.open_stack();
            // SAFETY: as in `push_slow`; that many were taken away (1).
            let pushed = unsafe { section::push_batch(self.place(offset), words.as_ptr(), count) };
            let pushed = if pushed == FAILED { 0 } else { pushed as usize };
            shelf.put(&words[pushed..count]);
        }
        Some(value[0])
    }

    /// Half of what another CPU has: one value, and the rest for the shelf.
    #[cold]
    fn steal(&self, near: usize) -> Option<u64> {
        // Acquire: with the length come the values; partner: the commit of a section.
        let has_some = |cpu: &usize| {
            remote::looks();
            self.rows[*cpu].plain[LEN].load(Acquire) > 0
        };
        if !self.sections
            || !self.used.from(near).any(|cpu| has_some(&cpu))
            || self.stealing.try_lock() == Taken::No
        {
            return None;
        }
        let mut victims = self.used.from((near + 1) % self.rows.len()).filter(has_some);
        let stolen = victims.find_map(|victim| self.steal_from(victim, self.hold_shelf(near).as_ref()));
        self.stealing.unlock();
        stolen
    }

    /// Without a shelf for the rest there is room for one.
    fn steal_from(&self, victim: usize, rest: Option<&Held<'_>>) -> Option<u64> {
        // If the interrupt is denied now, what lies there stays there.
        let stopped = Stopped::new(&self.rows, victim).ok()?;
        let len = &self.rows[victim].plain[LEN];
        // Relaxed, here and below: the interrupt ordered what sections did before it.
        let found = len.load(Relaxed) as usize;
        let room = rest.map_or(0, Held::room);
        let count = found.div_ceil(2).min(room + 1).min(BATCH);
        let end = victim * self.capacity + found;
        let mut words = [0; BATCH];
        for (word, slot) in words.iter_mut().zip(&self.slots[end - count..end]) {
            *word = slot.load(Relaxed);
        }
        len.store((found - count) as u64, Relaxed);
        drop(stopped);
        let (value, others) = words[..count].split_last()?;
        if let Some(rest) = rest {
            rest.put(others);
        }
        Some(*value)
    }

    /// Runs `f` while the row of `cpu` is stopped, as by a thread that steals.
    #[cfg(all(stillpoint_faults, target_arch = "x86_64"))]
    #[doc(hidden)]
    pub fn with_row_stopped<R>(&self, cpu: usize, f: impl FnOnce() -> R) -> R {
        let _stopped = Stopped::new(&self.rows, cpu).expect("sections can be interrupted");
        f()
    }

    /// Keeps values in the stack, from the first, as long as there is room: how many.
    fn stack_batch(&self, words: &[u64]) -> usize {
        let Some(offset) = self.offset() else { return 0 };
        let pushed = tries().find_map(|_| {
            // SAFETY: as in `push_slow`.
            let pushed = unsafe { section::push_batch(self.place(offset), words.as_ptr(), words.len()) };
            (pushed != FAILED).then_some(pushed as usize)
        });
        pushed.unwrap_or(0)
    }

    /// Takes values from the stack: how many.
    fn unstack_batch(&self, words: &mut [u64]) -> usize {
        let Some(offset) = self.offset() else { return 0 };
        let popped = tries().find_map(|_| {
            // SAFETY: as in `push_slow`; there is room for that many.
            let popped = unsafe { section::pop_batch(self.place(offset), words.as_mut_ptr(), words.len()) };
            (popped != FAILED).then_some(popped as usize)
        });
        popped.unwrap_or(0)
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        for (row, slots) in self.rows.iter_mut().zip(self.slots.chunks_mut(self.capacity.max(1))) {
            for slot in &mut slots[..*row.plain[LEN].get_mut() as usize] {
                // SAFETY: in the pool, and so ours alone (1).
                drop(unsafe { from_word::<T>(*slot.get_mut()) });
            }
        }
        for shelf in &mut self.shelves {
            for word in shelf.drain() {
                // SAFETY: as above.
                drop(unsafe { from_word::<T>(word) });
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

fn into_word<T>(value: Box<T>) -> u64 {
    Box::into_raw(value).expose_provenance() as u64
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
    use rustix::thread::{CpuSet, sched_setaffinity};
    use std::thread;

    use super::super::remote::tests::LOOKS;
    use super::*;

    /// More than a machine has on which tests run, and more than a word has bits.
    const CPUS: usize = 512;

    /// At how many rows and shelves `f` looks outside of sections.
    fn looks_of<R>(f: impl FnOnce() -> R) -> (usize, R) {
        LOOKS.set(0);
        let result = f();
        (LOOKS.get(), result)
    }

    #[test]
    fn pop_looks_only_at_cpus_that_have_held_values() {
        let pool = Pool::with_cpus(4, CPUS);
        assert_eq!(looks_of(|| pool.pop()), (0, None));
        pool.push(Box::new(1)).expect("there is room");
        thread::scope(|scope| {
            scope.spawn(|| {
                // Stacks and shelves of the CPU that the push was on, and of those that these pops are on.
                let (looks, found) = looks_of(|| pool.pop());
                assert!(looks < 16 && found.as_deref() == Some(&1), "{looks} looks, {found:?}");
                let (looks, found) = looks_of(|| pool.pop());
                assert!(looks < 16 && found.is_none(), "{looks} looks, {found:?}");
            });
        });
    }

    #[test]
    fn push_to_a_stopped_row_looks_at_no_other_row() {
        thread::spawn(|| {
            let (cpu, mut cpus) = (super::super::cpu(), CpuSet::new());
            cpus.set(cpu);
            sched_setaffinity(None, &cpus).expect("the thread may run where it runs");
            let pool = Pool::with_cpus(4, CPUS);
            if !pool.sections {
                return eprintln!("not checked without sections");
            }
            let _stopped = Stopped::new(&pool.rows, cpu).expect("sections can be interrupted");
            let (looks, kept) = looks_of(|| pool.push(Box::new(1)).is_ok());
            assert!(kept && looks < CPUS, "{looks} looks");
        })
        .join()
        .expect("it has not panicked");
    }
}
