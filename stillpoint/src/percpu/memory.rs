//! The allocator of per-CPU memory: objects of some words, which are there once for each CPU.
//!
//! An object is an offset: its words on CPU `c` are [`STRIDE`] · `c` bytes behind those on CPU 0. Objects of one size
//! lie side by side in *blocks*, so that one of a word takes eight bytes for each CPU whose area has been written to.
//! The idea is that of the kernel's `alloc_percpu`.
//!
//! ```text
//!  STRIDE bytes                                     STRIDE bytes
//! | header | object | object | ... of CPU 0        | unused | object | object | ... of CPU 1     | ...
//! ```
//!
//! A block has an area for each possible CPU. The kernel provides memory for the pages that are written to, so areas
//! of CPUs that do not exist, or that the process never runs on, are addresses without memory.
//!
//! # Invariants
//!
//! 1. The words of an object that has no owner are zero on each CPU, but for the link to the next free one, in the
//!    first word of CPU 0. The owner makes them zero before it gives the object back.
//! 2. An owner gives an object back when no section reads or writes it any more, and none will ([`super::words`]). So
//!    a block whose objects are all free can be unmapped.
//! 3. A block is in the list of its size if it has free objects and owned ones. Only its owners have the address of
//!    a full block, and only `spare` that of one without owned objects.
//! 4. All is changed under one lock. A thread that has it calls nothing but `publish`, so only a signal handler can
//!    find that its own thread has it. The handler goes without: it gets no object, and loses one that it gives back.
//! 5. A thread that forks holds the lock meanwhile, so that the child finds it free, and the lists complete.

use core::alloc::Layout;
use core::cell::{Cell, UnsafeCell};
use core::hint::spin_loop;
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering::*, compiler_fence};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;

use super::rseq::{MOST_CPUS, STRIDE};
use crate::sync::{Memory, step};
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;
use crate::sys::rseq::possible_cpus;

/// The words of an area.
const WORDS: usize = STRIDE / size_of::<u64>();

/// The words that the header takes on CPU 0. On other CPUs no object has them.
const HEADER: usize = 16;

const _: () = assert!(size_of::<Block>() <= HEADER * size_of::<u64>());

/// The most words that an object may have: those of a histogram.
pub const MOST_WORDS: usize = (WORDS - HEADER) / 4;

/// The words of an object. 18 are those of a histogram with bounds.
const SIZES: [usize; 6] = [1, 2, 4, 18, 64, MOST_WORDS];

/// The header of a block, at a multiple of [`STRIDE`].
#[derive(Debug)]
struct Block {
    memory: Memory,
    /// The neighbours in the list.
    next: *mut Block,
    previous: *mut Block,
    class: usize,
    /// How many objects have owners.
    owned: usize,
    /// The first word of the free object that was given back last, or 0.
    free: usize,
    /// The first of the words that no object has had.
    fresh: usize,
}

/// The lists of each size.
#[derive(Debug)]
struct Lists {
    partial: [*mut Block; SIZES.len()],
    /// A block without owned objects, so that one that comes and goes maps no memory each time.
    spare: [*mut Block; SIZES.len()],
}

// SAFETY: blocks belong to the lists, and their objects to any thread.
unsafe impl Send for Lists {}

static LISTS: Mutex<Lists> = Mutex::new(Lists::new());

/// How the calling thread holds the lock.
#[derive(Debug, Clone, Copy)]
enum Lock {
    Free,
    /// It changes the lists.
    Changes,
    /// It forks. The number counts forks that are nested, as the handler of a signal that interrupts one may fork.
    Forks(usize),
}

thread_local! {
    static LOCK: Cell<Lock> = const { Cell::new(Lock::Free) };
}

/// The guard of the thread that forks.
struct Held(UnsafeCell<Option<MutexGuard<'static, Lists>>>);

// SAFETY: used by the thread that has the lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

static FORK: ForkHook = ForkHook { order: 7, prepare: hold, parent: release, child: release };
init_array!(register_for_fork(&FORK));

/// Takes the lock, if the thread has nothing of it. Returns what it had. A thread that waits has nothing: a handler
/// that interrupts it may take the lock, and fork.
fn acquire() -> (Lock, Option<MutexGuard<'static, Lists>>) {
    let mut attempts = 0_u32;
    loop {
        let before = LOCK.replace(Lock::Changes);
        // For signal handlers.
        compiler_fence(SeqCst);
        if !matches!(before, Lock::Free) {
            return (before, None);
        }
        match LISTS.try_lock() {
            Ok(guard) => return (before, Some(guard)),
            // Nothing panics under the lock.
            Err(TryLockError::Poisoned(guard)) => return (before, Some(guard.into_inner())),
            Err(TryLockError::WouldBlock) => LOCK.set(before),
        }
        attempts = attempts.saturating_add(1);
        match attempts {
            ..=32 => spin_loop(),
            33..=48 => thread::yield_now(),
            // Its holder may have a lower priority.
            _ => thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// Calls `f` with the lists. Returns `None` in a signal handler that has interrupted this (4).
fn with<R>(f: impl FnOnce(&mut Lists) -> R) -> Option<R> {
    let (before, mut guard) = acquire();
    let lists = match before {
        Lock::Free => guard.as_mut(),
        // SAFETY: this thread has the lock, and is in no other `f`.
        Lock::Forks(_) => unsafe { (*HELD.0.get()).as_mut() },
        Lock::Changes => None,
    };
    let result = f(lists?);
    drop(guard);
    compiler_fence(SeqCst);
    LOCK.set(before);
    Some(result)
}

/// Takes the lock before a fork, unless a signal handler forks in the middle of a change.
fn hold() {
    let (before, guard) = acquire();
    LOCK.set(match before {
        Lock::Free => {
            // SAFETY: under the lock.
            unsafe { *HELD.0.get() = guard };
            Lock::Forks(1)
        }
        Lock::Forks(forks) => Lock::Forks(forks + 1),
        Lock::Changes => Lock::Changes,
    });
}

/// Releases the lock after a fork, in the parent and in the child.
fn release() {
    match LOCK.get() {
        Lock::Forks(1) => {
            LOCK.set(Lock::Changes);
            // SAFETY: this thread has the lock.
            drop(unsafe { (*HELD.0.get()).take() });
            LOCK.set(Lock::Free);
        }
        Lock::Forks(forks) => LOCK.set(Lock::Forks(forks - 1)),
        Lock::Free | Lock::Changes => {}
    }
}

/// Takes an object of at least `words` words, all zero, and calls `publish` with its first word on CPU 0, under the
/// lock. If that returns `false`, the object is free again. Returns `false` if there is no memory.
pub fn take(words: usize, publish: &dyn Fn(NonNull<u64>) -> bool) -> bool {
    let class = SIZES.partition_point(|size| *size < words);
    let take = |lists: &mut Lists| {
        let word = lists.take(class)?;
        // SAFETY: as it was taken.
        Some(if publish(word) { None } else { unsafe { lists.give_back(word) } })
    };
    let taken = match with(take) {
        Some(None) => {
            register_for_fork(&FORK);
            let Some(block) = Block::map(class) else { return false };
            with(|lists| {
                // SAFETY: a new block, whose objects are all free.
                unsafe { lists.push(block) };
                take(lists)
            })
        }
        taken => taken,
    };
    taken.flatten().inspect(|empty| free(*empty)).is_some()
}

/// Calls `f` under the lock under which [`take`] publishes objects. Returns `None` in a handler that has interrupted
/// such a call (4).
pub fn locked<R>(f: impl FnOnce() -> R) -> Option<R> {
    with(|_| f())
}

/// Gives an object back.
///
/// # Safety
///
/// It comes from [`take`], the caller owns it, its words are zero, and no section uses it (1, 2).
pub unsafe fn give_back(word: NonNull<u64>) {
    // SAFETY: the caller's contract.
    free(with(|lists| unsafe { lists.give_back(word) }).flatten());
}

/// Frees a block that the lists gave up.
fn free(block: Option<NonNull<Block>>) {
    if let Some(block) = block {
        // SAFETY: in no list, and without owned objects.
        step!("blocks-kept", unsafe { block.read().memory.free() });
    }
}

impl Block {
    /// Maps a block, all of whose objects are free.
    #[cold]
    fn map(class: usize) -> Option<NonNull<Self>> {
        let cpus = possible_cpus();
        if cpus > MOST_CPUS {
            return None;
        }
        // One more, to align it.
        let bytes = STRIDE * (cpus + 1);
        let memory = Memory::sparse(Layout::from_size_align(bytes, align_of::<Self>()).ok()?)?;
        let start = memory.start::<u8>().as_ptr();
        let block = NonNull::new(start.map_addr(|address| address.next_multiple_of(STRIDE)).cast::<Self>())?;
        let [next, previous] = [ptr::null_mut(); 2];
        // SAFETY: fresh memory, large and aligned enough, whose words are zero.
        unsafe { block.write(Self { memory, next, previous, class, owned: 0, free: 0, fresh: HEADER }) };
        Some(block)
    }

    /// Returns the block of an object.
    fn of(word: NonNull<u64>) -> *mut Self {
        word.as_ptr().map_addr(|address| address & !(STRIDE - 1)).cast()
    }

    fn is_full(&self) -> bool {
        self.free == 0 && self.fresh + SIZES[self.class] > WORDS
    }
}

impl Lists {
    const fn new() -> Self {
        Self { partial: [ptr::null_mut(); SIZES.len()], spare: [ptr::null_mut(); SIZES.len()] }
    }

    /// Takes a free object, if there is one. Its words are zero.
    fn take(&mut self, class: usize) -> Option<NonNull<u64>> {
        if self.partial[class].is_null() {
            let spare = NonNull::new(mem::replace(&mut self.spare[class], ptr::null_mut()))?;
            // SAFETY: it was in no list.
            unsafe { self.push(spare) };
        }
        let block = self.partial[class];
        // SAFETY: blocks of the list are there, and their headers are used here only (4).
        let this = unsafe { &mut *block };
        let index = if this.free != 0 { this.free } else { this.fresh };
        // SAFETY: within the area of CPU 0.
        let word = unsafe { NonNull::new(block.cast::<u64>().add(index))? };
        if this.free != 0 {
            // SAFETY: the link of a free object, which no other thread uses. Atomic, as all accesses of words.
            this.free = unsafe { word.cast::<AtomicU64>().as_ref() }.swap(0, Relaxed) as usize;
        } else {
            this.fresh += SIZES[class];
        }
        this.owned += 1;
        if this.is_full() {
            // SAFETY: in the list.
            unsafe { self.remove(block) };
        }
        Some(word)
    }

    /// Gives an object back. Returns its block if that is to be freed.
    ///
    /// # Safety
    ///
    /// As for the [function](give_back).
    unsafe fn give_back(&mut self, word: NonNull<u64>) -> Option<NonNull<Block>> {
        let block = NonNull::new(Block::of(word))?;
        // SAFETY: there while it has owned objects; as in `take`.
        unsafe {
            let this = &mut *block.as_ptr();
            let was_full = this.is_full();
            word.cast::<AtomicU64>().as_ref().store(this.free as u64, Relaxed);
            this.free = word.as_ptr().addr() % STRIDE / size_of::<u64>();
            this.owned -= 1;
            let (class, owned) = (this.class, this.owned);
            if was_full {
                self.push(block);
            }
            if owned > 0 {
                return None;
            }
            self.remove(block.as_ptr());
            if self.spare[class].is_null() {
                self.spare[class] = block.as_ptr();
                return None;
            }
        }
        Some(block)
    }

    /// Adds a block to the list of its size.
    ///
    /// # Safety
    ///
    /// It is in no list, and has free objects.
    unsafe fn push(&mut self, block: NonNull<Block>) {
        // SAFETY: there, as are those in the list.
        unsafe {
            let this = &mut *block.as_ptr();
            let first = &mut self.partial[this.class];
            (this.next, this.previous) = (*first, ptr::null_mut());
            if let Some(next) = first.as_mut() {
                next.previous = block.as_ptr();
            }
            *first = block.as_ptr();
        }
    }

    /// Removes a block from the list.
    ///
    /// # Safety
    ///
    /// It is in the list of its size.
    unsafe fn remove(&mut self, block: *mut Block) {
        // SAFETY: there, as are those in the list.
        unsafe {
            let Block { next, previous, class, .. } = *block;
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => self.partial[class] = next,
            }
        }
    }
}

#[cfg(all(test, not(stillpoint_portable)))]
mod tests {
    use std::thread;

    use support::until::until;

    use super::*;

    /// Takes objects of a size, of which it gives some back, in an order that `random` chooses. Then gives the rest
    /// back. Returns the most blocks that there were, and those that are left.
    fn churn(
        lists: &mut Lists,
        class: usize,
        objects: usize,
        mut random: impl FnMut() -> usize,
    ) -> [usize; 2] {
        let (mut owned, mut most, mut blocks) = (Vec::new(), 0, 0);
        let give_back = |lists: &mut Lists, word: NonNull<u64>, blocks: &mut usize| {
            // SAFETY: the owner's; no section uses it, and its words are zero again.
            let empty = unsafe {
                (0..SIZES[class]).for_each(|word_of| {
                    assert_eq!(word.add(word_of).replace(0), word.as_ptr().addr() as u64, "two owners")
                });
                lists.give_back(word)
            };
            if let Some(block) = empty {
                *blocks -= 1;
                // SAFETY: in no list.
                unsafe { block.read().memory.free() };
            }
        };
        while owned.len() < objects {
            let word = lists.take(class).unwrap_or_else(|| {
                blocks += 1;
                most = most.max(blocks);
                // SAFETY: a new block.
                unsafe { lists.push(Block::map(class).expect("there is memory")) };
                lists.take(class).expect("it is free")
            });
            // SAFETY: the owner's.
            unsafe {
                (0..SIZES[class]).for_each(|word_of| {
                    assert_eq!(word.add(word_of).replace(word.as_ptr().addr() as u64), 0, "not as it was")
                });
            }
            owned.push(word);
            if random() % 4 == 0 {
                let word = owned.swap_remove(random() % owned.len());
                give_back(lists, word, &mut blocks);
            }
        }
        while !owned.is_empty() {
            let word = owned.swap_remove(random() % owned.len());
            give_back(lists, word, &mut blocks);
        }
        [most, blocks]
    }

    #[test]
    fn objects_are_disjoint_and_free_blocks_are_freed() {
        let mut state = 1_usize;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for (class, size) in SIZES.into_iter().enumerate() {
            let in_a_block = (WORDS - HEADER) / size;
            let mut lists = Lists::new();
            // Blocks are large for an interpreter.
            for round in 0..if cfg!(miri) { 1 } else { 3 } {
                let [most, left] = churn(&mut lists, class, 3 * in_a_block, &mut random);
                // From the second round on, one was there.
                assert_eq!([most, left], if round == 0 { [3, 1] } else { [2, 0] }, "{class}");
            }
            let spare = NonNull::new(lists.spare[class]).expect("one is kept");
            assert!(lists.partial[class].is_null());
            // SAFETY: not used any more.
            unsafe { spare.read().memory.free() };
        }
    }

    #[test]
    fn handler_that_interrupts_a_change_goes_without() {
        let took = with(|_| {
            hold();
            let took = take(1, &|_| true);
            release();
            took
        });
        assert_eq!(took, Some(false));
        assert!(take(1, &|_| false), "the change is over");
    }

    #[test]
    fn lock_is_held_until_the_outermost_of_nested_forks_is_over() {
        let is_free =
            || thread::scope(|scope| scope.spawn(|| LISTS.try_lock().is_ok()).join().expect("no panic"));
        for _ in 0..2 {
            hold();
            hold();
            assert!(take(1, &|_| false), "this thread has the lock");
            release();
            assert!(!is_free(), "the outer fork still holds it");
            assert!(take(1, &|_| false), "this thread has the lock");
            release();
            until(is_free);
        }
    }
}
