//! Any value, one a CPU.
//!
//! # Layout
//!
//! Each CPU has an *own* cell, held by who has put his number into the holder word of its row: by a critical section, if the
//! word is 0. Threads that cannot run sections, or find the own cell held (its holder was preempted, or interrupted by a
//! signal), use a *shared* cell, whose lock is an ordinary one that is tried. There is one for each CPU, and if all are held
//! another one is made. So nobody ever waits for a cell, except a visitor, who wants each.
//!
//! # Invariants
//!
//! 1. A value is used by who holds its cell. The holder word of an own cell is written by a section that finds it 0, and by
//!    its holder, wherever he runs then.
//! 2. A visitor stops a row ([`Stopped`]), waits until its cell is not held, and holds it himself, before the row is open
//!    again. One visitor at a time (`visiting`).
//! 3. Cells are freed with their owner only.
//! 4. A cell whose holder a fork left behind is emptied, without a look at what was in it.

use core::cell::UnsafeCell;
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use crate::fence;
use crate::sync::step;

use super::awaited::Awaited;
use super::holder::{Lock, Taken, is_gone, me};
use super::remote::{self, Stopped};
use super::rows::{Row, boxed};
use super::runtime::{self, Mode};
use super::section::{self, FAILED, NOTHING, Place, tries};

/// The word of a row that says who holds its cell. See [`super::section`].
const HOLDER: usize = 1;

/// A value for each CPU, which one thread at a time uses: caches, arenas, batches of work.
///
/// [`with`](Self::with) lends the calling thread the value of its CPU, and costs two plain stores: no locked instruction, and
/// no waiting, as there are other values for the case that it is in use. Thus any thread may find any value, and there can be
/// more values than CPUs: they are for what can be put together in the end, in [`for_each`](Self::for_each), which visits
/// all.
///
/// Values are made when they are first needed.
///
/// ```
/// use stillpoint::percpu::PerCpu;
///
/// let words: PerCpu<Vec<String>> = PerCpu::new(Vec::new);
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let words = &words;
///         scope.spawn(move || words.with(|mine| mine.push(format!("thread {thread}"))));
///     }
/// });
/// let mut all = Vec::new();
/// words.for_each(|mine| all.append(mine));
/// assert_eq!(all.len(), 4);
/// ```
pub struct PerCpu<T> {
    make: fn() -> T,
    /// Of the area that the C library registers; 0 if it does not, or sections are not used.
    fast: isize,
    /// Whether threads run sections at all.
    sections: bool,
    rows: Box<[Row]>,
    own: Box<[Own<T>]>,
    shared: Box<[Shared<T>]>,
    /// More shared cells: a list that only grows.
    more: AtomicPtr<Shared<T>>,
    visiting: Lock,
}

#[repr(align(128))]
struct Own<T> {
    awaited: Awaited,
    value: UnsafeCell<Option<T>>,
}

#[repr(align(128))]
struct Shared<T> {
    lock: Lock,
    value: UnsafeCell<Option<T>>,
    next: *mut Shared<T>,
}

// SAFETY: values are used by one thread at a time (1), and freed by whichever drops them.
unsafe impl<T: Send> Send for PerCpu<T> {}
// SAFETY: as above; nobody gets a reference to a value that another has one to.
unsafe impl<T: Send> Sync for PerCpu<T> {}

impl<T> Shared<T> {
    const fn new() -> Self {
        Self { lock: Lock::new(), value: UnsafeCell::new(None), next: ptr::null_mut() }
    }
}

impl<T> PerCpu<T> {
    /// Without values. Those that are needed will be made by `make`.
    ///
    /// # Panics
    ///
    /// If there is no memory for the cells.
    pub fn new(make: fn() -> T) -> Self {
        // Those who give a cell back pass a light fence.
        fence::init();
        let report = runtime::report();
        // Without it a visitor could not get at the own cells.
        let sections = report.mode() == Mode::Rseq && remote::is_available();
        let rows = Row::for_each_cpu();
        Self {
            make,
            fast: if sections { report.library_offset() } else { 0 },
            sections,
            own: boxed(rows.len(), |_| Own { awaited: Awaited::new(), value: UnsafeCell::new(None) }),
            shared: boxed(rows.len(), |_| Shared::new()),
            rows,
            more: AtomicPtr::new(ptr::null_mut()),
            visiting: Lock::new(),
        }
    }

    /// Calls `f` with a value that nobody else uses meanwhile: that of the current CPU, unless it is in use. Never waits.
    ///
    /// `f` may call `with` again, and then gets another value.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if self.fast != 0 {
            // SAFETY: every thread has an area at the offset; the rows are ours.
            let row = unsafe { section::compare_and_store(Place::of(&self.rows, self.fast), 0, me()) };
            if row != NOTHING && row != FAILED {
                return self.in_own(self.cpu_of(row), f);
            }
        }
        self.with_slow(f)
    }

    /// Calls `f` with every value there is, of which nobody uses any meanwhile: waits for those who do.
    ///
    /// Interrupts each CPU that runs this process, once: for rare occasions. While a value is visited, others on its CPU use
    /// another one.
    ///
    /// # Panics
    ///
    /// If called from within `f`, or from the `f` of [`with`](Self::with), for which it would wait for ever. If the kernel
    /// denies `membarrier` now though it was allowed when this was made.
    pub fn for_each(&self, mut f: impl FnMut(&mut T)) {
        // Who held something while he waits here might be waited for.
        let holds = self.rows.iter().any(|row| row.plain[HOLDER].load(Relaxed) == me())
            || self.all_shared().any(|cell| cell.lock.is_mine())
            || self.visiting.is_mine();
        assert!(!holds, "PerCpu::for_each is called from within PerCpu::with, or itself");
        self.visiting.lock();
        let _visit = Unlock(&self.visiting);
        for cpu in 0..if self.sections { self.own.len() } else { 0 } {
            let _stopped = Stopped::new(&self.rows, cpu).unwrap_or_else(|error| {
                panic!("membarrier, which worked when this PerCpu was made, fails now: {error}")
            });
            let (holder, Own { awaited, value }) = (&self.rows[cpu].plain[HOLDER], &self.own[cpu]);
            let mut gone = false;
            awaited.wait_until(|| {
                // Acquire: what the holder did with the value; partner: the Release in `Awaited::release`.
                let holder = holder.load(Acquire);
                gone = is_gone(holder);
                holder == 0 || gone
            });
            if gone {
                // SAFETY: nobody uses the value: its holder is not in this process, and the row is stopped (2, 4).
                unsafe { value.get().write(None) };
            }
            // The visitor is a holder too, for the child of a fork in the middle of `f`. Relaxed: the row is stopped.
            step!("visitor-without-holder", holder.store(me(), Relaxed));
            let _release = Release { holder, awaited };
            // SAFETY: nobody else holds the cell, and nobody can (2).
            if let Some(value) = unsafe { &mut *value.get() } {
                f(value);
            }
        }
        for cell in self.all_shared() {
            let taken = cell.lock.lock();
            let _unlock = Unlock(&cell.lock);
            // SAFETY: we hold the cell.
            if let Some(value) = unsafe { cell.value_after(taken) } {
                f(value);
            }
        }
    }

    fn cpu_of(&self, row: u64) -> usize {
        (row as usize - self.rows.as_ptr().addr()) / size_of::<Row>()
    }

    /// With the own cell of a CPU, which is held.
    #[inline(always)]
    fn in_own<R>(&self, cpu: usize, f: impl FnOnce(&mut T) -> R) -> R {
        let _release = Release { holder: &self.rows[cpu].plain[HOLDER], awaited: &self.own[cpu].awaited };
        // SAFETY: the cell is ours (1).
        let value = unsafe { &mut *self.own[cpu].value.get() };
        f(value.get_or_insert_with(self.make))
    }

    #[cold]
    #[inline(never)]
    fn with_slow<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if let Some(cpu) = self.claim_own() {
            return self.in_own(cpu, f);
        }
        let near = runtime::nearest(self.shared.len());
        let cells = self.shared[near..].iter().chain(&self.shared[..near]).chain(self.more());
        let held = cells.map(|cell| (cell, cell.lock.try_lock())).find(|(_, taken)| *taken != Taken::No);
        let (cell, taken) = held.unwrap_or_else(|| (self.another(), Taken::Yes));
        let _unlock = Unlock(&cell.lock);
        // SAFETY: we hold the cell.
        f(unsafe { cell.value_after(taken) }.get_or_insert_with(self.make))
    }

    /// The own cell of the current CPU, if a section can get it.
    fn claim_own(&self) -> Option<usize> {
        let offset = if self.sections { runtime::offset()? } else { return None };
        let place = Place::of(&self.rows, offset);
        let mut left_behind = 0;
        for _ in tries() {
            // SAFETY: the thread has an area at the offset; the rows are ours.
            match unsafe { section::compare_and_store(place, left_behind, me()) } {
                NOTHING if left_behind == 0 => {
                    // Held. By nobody, after a fork?
                    let cpu = super::cpu().min(self.rows.len() - 1);
                    left_behind = self.rows[cpu].plain[HOLDER].load(Relaxed);
                    if !is_gone(left_behind) {
                        return None;
                    }
                }
                NOTHING => left_behind = 0,
                FAILED => step!("claim-does-not-reopen", remote::reopen(&self.rows)),
                row => {
                    let cpu = self.cpu_of(row);
                    if left_behind != 0 {
                        // SAFETY: the cell is ours now, and nobody uses what is in it (4).
                        unsafe { self.own[cpu].value.get().write(None) };
                    }
                    return Some(cpu);
                }
            }
        }
        None
    }

    fn more(&self) -> impl Iterator<Item = &Shared<T>> {
        // Acquire: the cell is complete, as are those behind it; partner: the Release in `another`.
        let mut next = self.more.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: cells of the list live as long as `self` (3), and their links never change.
            let cell = unsafe { next.as_ref() }?;
            next = cell.next;
            Some(cell)
        })
    }

    fn all_shared(&self) -> impl Iterator<Item = &Shared<T>> {
        self.shared.iter().chain(self.more())
    }

    /// A new shared cell, held by the caller.
    #[cold]
    fn another(&self) -> &Shared<T> {
        let fresh = Shared::new();
        let _ = fresh.lock.try_lock();
        let fresh = Box::into_raw(Box::new(fresh));
        let mut first = self.more.load(Relaxed);
        loop {
            // SAFETY: ours alone until it is published.
            unsafe { (*fresh).next = first };
            // Release: partner is the Acquire in `more`, of whoever comes by this cell, whatever has been put before it.
            match self.more.compare_exchange_weak(first, fresh, Release, Relaxed) {
                // SAFETY: published, and never freed before `self` (3).
                Ok(_) => return unsafe { &*fresh },
                Err(now) => first = now,
            }
        }
    }
}

impl<T> Shared<T> {
    /// Empties the cell, when only a thread that was left behind could hold it.
    fn leave_if_held(&mut self) {
        if self.lock.is_held() {
            // SAFETY: nobody uses the value.
            unsafe { self.value.get().write(None) };
        }
    }

    /// The value, for who has just `taken` the lock.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for as long as he uses the value.
    #[allow(clippy::mut_from_ref, reason = "the lock is the caller's")]
    unsafe fn value_after(&self, taken: Taken) -> &mut Option<T> {
        // SAFETY: the caller's contract; nobody uses what a thread left behind that is not here (4).
        unsafe {
            if taken == Taken::FromGone {
                self.value.get().write(None);
            }
            &mut *self.value.get()
        }
    }
}

/// Gives an own cell back.
struct Release<'a> {
    holder: &'a AtomicU64,
    awaited: &'a Awaited,
}

impl Drop for Release<'_> {
    #[inline]
    fn drop(&mut self) {
        self.awaited.release(self.holder);
    }
}

/// Gives a shared cell back.
struct Unlock<'a>(&'a Lock);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // Nobody is in `with` or a visit: who still holds something was left behind by a fork (4).
        for (row, cell) in self.rows.iter_mut().zip(&mut self.own) {
            if *row.plain[HOLDER].get_mut() != 0 {
                // SAFETY: nobody uses the value.
                unsafe { cell.value.get().write(None) };
            }
        }
        self.shared.iter_mut().for_each(Shared::leave_if_held);
        let mut next = *self.more.get_mut();
        while !next.is_null() {
            // SAFETY: of `another`, and nobody else has a reference to `self` any more.
            let mut cell = unsafe { Box::from_raw(next) };
            cell.leave_if_held();
            next = cell.next;
        }
    }
}

impl<T> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu").field("cpus", &self.own.len()).finish_non_exhaustive()
    }
}
