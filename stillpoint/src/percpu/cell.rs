//! A value of any type for each CPU.
//!
//! # Layout
//!
//! Each CPU has an *own* cell. A thread owns it after a critical section has replaced a 0 in the owner word of the CPU's area by the
//! thread's number. Threads that cannot run sections, or find the own cell taken (its owner was preempted, or interrupted by a
//! signal), use a *shared* cell behind a try-lock. There is one for each CPU; if all are taken, another one is allocated. So `with`
//! never waits for a cell. Only `for_each`, which visits all of them, does.
//!
//! # Invariants
//!
//! 1. Only the owner of a cell uses its value. The owner word of an own cell is written by a section that finds it 0, and by the owner,
//!    on whatever CPU it then runs.
//! 2. A `for_each` caller stops an area ([`Stopped`]), waits until its cell has no owner, and owns it before it reopens the area.
//!    There is one such caller at a time (`for_each_lock`).
//! 3. Cells are freed with the `PerCpu` only.
//! 4. A cell whose owner died in a fork is emptied, without a look at its contents.

use core::cell::UnsafeCell;
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use crate::fence;
use crate::sync::step;

use super::owner::{Acquired, OwnerLock, current_owner, died_in_fork};
use super::owner_event::OwnerEvent;
use super::remote::{self, Stopped};
use super::rseq::cpu_number::cpu;
use super::rseq::registration::{self, Mode};
use super::rseq::{self, AreaRef, CpuArea, FAILED, NOTHING, boxed, tries};

/// The owner word of an area. See [`super::rseq`].
const OWNER: usize = 1;

/// A value for each CPU, used by one thread at a time: caches, arenas, batches of work.
///
/// [`with`](Self::with) lends the calling thread the value of its CPU. It takes two plain stores, and no locked instruction. It does
/// not wait: if the value is in use, the thread gets another one. So any thread may get any value, and there may be more values than
/// CPUs. [`for_each`](Self::for_each) visits all of them, to combine their contents.
///
/// Values are created when they are first needed.
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
    /// Of the rseq areas that the C library registers; 0 if it registers none, or sections are not used.
    fast: isize,
    /// Whether sections are used at all.
    sections: bool,
    areas: Box<[CpuArea]>,
    own: Box<[Own<T>]>,
    shared: Box<[Shared<T>]>,
    /// More shared cells: a list that only grows.
    more: AtomicPtr<Shared<T>>,
    for_each_lock: OwnerLock,
}

#[repr(align(128))]
struct Own<T> {
    released: OwnerEvent,
    value: UnsafeCell<Option<T>>,
}

#[repr(align(128))]
struct Shared<T> {
    lock: OwnerLock,
    value: UnsafeCell<Option<T>>,
    next: *mut Shared<T>,
}

// SAFETY: values are used by one thread at a time (1), and dropped by any.
unsafe impl<T: Send> Send for PerCpu<T> {}
// SAFETY: as above; no two threads have references to one value.
unsafe impl<T: Send> Sync for PerCpu<T> {}

impl<T> Shared<T> {
    const fn new() -> Self {
        Self { lock: OwnerLock::new(), value: UnsafeCell::new(None), next: ptr::null_mut() }
    }
}

impl<T> PerCpu<T> {
    /// Creates a `PerCpu` without values. `make` creates each when it is first needed.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn new(make: fn() -> T) -> Self {
        // The owner of a cell executes a light fence when it releases the cell.
        fence::init();
        let report = registration::report();
        // Without interrupts `for_each` could not take the own cells.
        let sections = report.mode() == Mode::Rseq && remote::is_available();
        let areas = CpuArea::for_each_cpu();
        Self {
            make,
            fast: if sections { report.library_offset() } else { 0 },
            sections,
            own: boxed(areas.len(), |_| Own { released: OwnerEvent::new(), value: UnsafeCell::new(None) }),
            shared: boxed(areas.len(), |_| Shared::new()),
            areas,
            more: AtomicPtr::new(ptr::null_mut()),
            for_each_lock: OwnerLock::new(),
        }
    }

    /// Calls `f` with exclusive access to a value: that of the current CPU, unless it is in use. Never blocks.
    ///
    /// If `f` calls `with` again, it gets another value.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if self.fast != 0 {
            let target = AreaRef::of(&self.areas, self.fast);
            // SAFETY: every thread has an rseq area at the offset; the areas are ours.
            let area = unsafe { rseq::compare_and_store(target, 0, current_owner()) };
            if area != NOTHING && area != FAILED {
                return self.in_own(self.cpu_of(area), f);
            }
        }
        self.with_slow(f)
    }

    /// Calls `f` with exclusive access to each value in turn. Blocks while another thread uses a value.
    ///
    /// It interrupts each CPU that runs this process once, so it is for rare use. Meanwhile threads on the CPU of the visited value use
    /// another one.
    ///
    /// # Panics
    ///
    /// If called from `f`, or from the `f` of [`with`](Self::with), since it would deadlock. If the kernel denies `membarrier`, which
    /// it allowed when this was created.
    pub fn for_each(&self, mut f: impl FnMut(&mut T)) {
        let me = current_owner();
        let owns = self.areas.iter().any(|area| area.plain[OWNER].load(Relaxed) == me)
            || self.all_shared().any(|cell| cell.lock.is_mine())
            || self.for_each_lock.is_mine();
        assert!(!owns, "PerCpu::for_each is called from within PerCpu::with, or itself");
        self.for_each_lock.lock();
        let _unlock = Unlock(&self.for_each_lock);
        for cpu in 0..if self.sections { self.own.len() } else { 0 } {
            let _stopped = Stopped::new(&self.areas, cpu).unwrap_or_else(|error| {
                panic!("membarrier, which worked when this PerCpu was created, fails now: {error}")
            });
            let (owner, Own { released, value }) = (&self.areas[cpu].plain[OWNER], &self.own[cpu]);
            let mut owner_dead = false;
            released.wait_until(|| {
                // Acquire: sees what the owner did with the value; pairs with the Release in `OwnerEvent::release`.
                let owner = owner.load(Acquire);
                owner_dead = died_in_fork(owner);
                owner == 0 || owner_dead
            });
            if owner_dead {
                // SAFETY: the value is not in use: its owner is not in this process, and the area is stopped (2, 4).
                unsafe { value.get().write(None) };
            }
            // The child of a fork during `f` finds an owner that died. Relaxed: the area is stopped.
            step!("for-each-without-owner", owner.store(me, Relaxed));
            let _release = Release { owner, released };
            // SAFETY: the caller owns the cell (2).
            if let Some(value) = unsafe { &mut *value.get() } {
                f(value);
            }
        }
        for cell in self.all_shared() {
            let acquired = cell.lock.lock();
            let _unlock = Unlock(&cell.lock);
            // SAFETY: the caller owns the cell.
            if let Some(value) = unsafe { cell.value_after(acquired) } {
                f(value);
            }
        }
    }

    fn cpu_of(&self, area: u64) -> usize {
        (area as usize - self.areas.as_ptr().addr()) / size_of::<CpuArea>()
    }

    /// Calls `f` with the value of a CPU's own cell, which the caller owns.
    #[inline(always)]
    fn in_own<R>(&self, cpu: usize, f: impl FnOnce(&mut T) -> R) -> R {
        let _release = Release { owner: &self.areas[cpu].plain[OWNER], released: &self.own[cpu].released };
        // SAFETY: the caller owns the cell (1).
        let value = unsafe { &mut *self.own[cpu].value.get() };
        f(value.get_or_insert_with(self.make))
    }

    #[cold]
    #[inline(never)]
    fn with_slow<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if let Some(cpu) = self.claim_own() {
            return self.in_own(cpu, f);
        }
        let near = registration::nearest(self.shared.len());
        let cells = self.shared[near..].iter().chain(&self.shared[..near]).chain(self.more());
        let mut tried = cells.map(|cell| (cell, cell.lock.try_lock()));
        let locked = tried.find(|(_, acquired)| *acquired != Acquired::No);
        let (cell, acquired) = locked.unwrap_or_else(|| (self.add_shared(), Acquired::Yes));
        let _unlock = Unlock(&cell.lock);
        // SAFETY: the caller owns the cell.
        f(unsafe { cell.value_after(acquired) }.get_or_insert_with(self.make))
    }

    /// Takes the own cell of the current CPU. Returns `None` if it has an owner, or sections fail.
    fn claim_own(&self) -> Option<usize> {
        let offset = if self.sections { registration::offset()? } else { return None };
        let target = AreaRef::of(&self.areas, offset);
        let mut dead_owner = 0;
        for _ in tries() {
            // SAFETY: the thread has an rseq area at the offset; the areas are ours.
            match unsafe { rseq::compare_and_store(target, dead_owner, current_owner()) } {
                NOTHING if dead_owner == 0 => {
                    let cpu = cpu().min(self.areas.len() - 1);
                    dead_owner = self.areas[cpu].plain[OWNER].load(Relaxed);
                    if !died_in_fork(dead_owner) {
                        return None;
                    }
                }
                NOTHING => dead_owner = 0,
                FAILED => step!("claim-does-not-reopen", remote::reopen(&self.areas)),
                area => {
                    let cpu = self.cpu_of(area);
                    if dead_owner != 0 {
                        // SAFETY: the caller owns the cell, and its value is not in use (4).
                        unsafe { self.own[cpu].value.get().write(None) };
                    }
                    return Some(cpu);
                }
            }
        }
        None
    }

    fn more(&self) -> impl Iterator<Item = &Shared<T>> {
        // Acquire: sees the initialized cell, and those behind it; pairs with the Release in `add_shared`.
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

    /// Allocates a shared cell, which the caller owns.
    #[cold]
    fn add_shared(&self) -> &Shared<T> {
        let fresh = Shared::new();
        let _ = fresh.lock.try_lock();
        let fresh = Box::into_raw(Box::new(fresh));
        let mut first = self.more.load(Relaxed);
        loop {
            // SAFETY: no other thread has it until it is published.
            unsafe { (*fresh).next = first };
            // Release: publishes the cell; pairs with the Acquire in `more`, also of a thread that finds later cells before it.
            match self.more.compare_exchange_weak(first, fresh, Release, Relaxed) {
                // SAFETY: published, and never freed before `self` (3).
                Ok(_) => return unsafe { &*fresh },
                Err(now) => first = now,
            }
        }
    }
}

impl<T> Shared<T> {
    /// Empties the cell if its owner died in a fork.
    fn forget_if_owned(&mut self) {
        if self.lock.is_locked() {
            // SAFETY: no thread uses the value.
            unsafe { self.value.get().write(None) };
        }
    }

    /// Returns the value, after the caller has `acquired` the lock. If the last owner died in a fork, there is no value.
    ///
    /// # Safety
    ///
    /// The caller holds the lock for as long as it uses the value.
    #[allow(clippy::mut_from_ref, reason = "the lock is the caller's")]
    unsafe fn value_after(&self, acquired: Acquired) -> &mut Option<T> {
        // SAFETY: the caller's contract; the value of an owner that died in a fork is not in use (4).
        unsafe {
            if acquired == Acquired::OwnerDead {
                self.value.get().write(None);
            }
            &mut *self.value.get()
        }
    }
}

/// Releases an own cell when dropped.
struct Release<'a> {
    owner: &'a AtomicU64,
    released: &'a OwnerEvent,
}

impl Drop for Release<'_> {
    #[inline]
    fn drop(&mut self) {
        self.released.release(self.owner);
    }
}

/// Unlocks when dropped.
struct Unlock<'a>(&'a OwnerLock);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // No thread is in `with` or `for_each`: a remaining owner died in a fork (4).
        for (area, cell) in self.areas.iter_mut().zip(&mut self.own) {
            if *area.plain[OWNER].get_mut() != 0 {
                // SAFETY: no thread uses the value.
                unsafe { cell.value.get().write(None) };
            }
        }
        self.shared.iter_mut().for_each(Shared::forget_if_owned);
        let mut next = *self.more.get_mut();
        while !next.is_null() {
            // SAFETY: from `add_shared`, and no other thread has a reference to `self` any more.
            let mut cell = unsafe { Box::from_raw(next) };
            cell.forget_if_owned();
            next = cell.next;
        }
    }
}

impl<T> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu").field("cpus", &self.own.len()).finish_non_exhaustive()
    }
}
