//! Memory of removed entries that a thread has freed, for its next insertions.
//!
//! A thread frees what it has removed after a grace period, a few entries at a time, in the order of their removal.
//! The memory then goes to a list of the thread, and insertions take it from there in the same order. So where
//! entries are removed in the order of their insertion, as in a cache or a table of sessions, neighbours in time stay
//! neighbours in memory, and the processor fetches the next entry to remove before it is asked for. An allocator
//! returns last what was freed first, or does not keep the order at all: then each removal of a large table waits for
//! memory.
//!
//! # Invariants
//!
//! 1. The memory in the list of `index` was allocated as a `Box` of `(index + 1) * WORD` bytes, aligned to [`WORD`],
//!    and has no value.
//! 2. Only its thread accesses a list, and calls nothing while it does.
//! 3. A list has at most [`MOST`] pieces, and no more than insertions of the thread have allocated. So a thread that
//!    only removes, such as the worker of a domain, keeps none.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use std::alloc::{Layout, dealloc};

/// Bytes by which sizes differ.
const WORD: usize = 8;
/// Sizes that have a list.
const SIZES: usize = 16;
/// Pieces of a list.
const MOST: u32 = 256;

/// A free piece.
struct Piece {
    /// The piece that was freed next.
    next: *mut Piece,
}

/// The free pieces of a size.
struct List {
    first: Cell<*mut Piece>,
    last: Cell<*mut Piece>,
    /// How many more may be added.
    room: Cell<u32>,
    /// What `room` is when the list is empty.
    most: Cell<u32>,
}

struct Lists([List; SIZES]);

thread_local! {
    static LISTS: Lists = const {
        Lists(
            [const {
                List {
                    first: Cell::new(ptr::null_mut()),
                    last: Cell::new(ptr::null_mut()),
                    room: Cell::new(0),
                    most: Cell::new(0),
                }
            }; SIZES],
        )
    };
}

/// Returns the list of the memory of values of a type.
const fn index_of<T>() -> Option<usize> {
    let words = size_of::<T>() / WORD;
    if align_of::<T>() == WORD && words >= 1 && words <= SIZES { Some(words - 1) } else { None }
}

/// Allocates a value, in the memory of an earlier one if the thread has some.
#[inline(always)]
pub fn new<T>(value: T) -> Box<T> {
    match take() {
        Some(mut memory) => {
            memory.write(value);
            // SAFETY: it has just been written.
            unsafe { memory.assume_init() }
        }
        None => Box::new(value),
    }
}

#[inline(always)]
fn take<T>() -> Option<Box<MaybeUninit<T>>> {
    let index = const { index_of::<T>() }?;
    // An error: the thread is exiting.
    let piece = LISTS.try_with(|lists| lists.0[index].take()).ok()??;
    // SAFETY: (1)
    Some(unsafe { Box::from_raw(piece.as_ptr().cast()) })
}

/// Drops a value, and keeps or frees its memory, also if the drop panics.
///
/// # Safety
///
/// `value` comes from a `Box<T>`, and is not used again.
pub unsafe fn drop<T>(value: *mut ()) {
    const { assert!(size_of::<T>() != 0, "a `Box` of it has no memory") };
    let memory = Memory(value.cast::<T>());
    // SAFETY: the caller's contract.
    unsafe { memory.0.drop_in_place() };
}

/// The memory of a value that has been dropped.
struct Memory<T>(*mut T);

impl<T> Drop for Memory<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let is_kept = const { index_of::<T>() }.is_some_and(|index| {
            // SAFETY: (1), as the caller of `drop` gives up the memory.
            LISTS.try_with(|lists| unsafe { lists.0[index].add(self.0.cast()) }).unwrap_or(false)
        });
        if !is_kept {
            // SAFETY: as above.
            unsafe { dealloc(self.0.cast(), Layout::new::<T>()) };
        }
    }
}

impl List {
    #[inline(always)]
    fn take(&self) -> Option<NonNull<Piece>> {
        let Some(piece) = NonNull::new(self.first.get()) else {
            self.will_allocate();
            return None;
        };
        // SAFETY: (2)
        self.first.set(unsafe { piece.as_ref() }.next);
        self.room.set(self.room.get() + 1);
        Some(piece)
    }

    /// Makes room for a piece that the thread allocates.
    fn will_allocate(&self) {
        if self.most.get() < MOST {
            self.most.set(self.most.get() + 1);
            self.room.set(self.room.get() + 1);
        }
    }

    /// Adds a piece, or returns `false` if there is no room.
    ///
    /// # Safety
    ///
    /// It is memory of the size of this list (1), and its owner gives it up.
    #[inline(always)]
    unsafe fn add(&self, piece: *mut Piece) -> bool {
        let room = self.room.get();
        if room == 0 {
            return false;
        }
        self.room.set(room - 1);
        // SAFETY: the caller's contract; and (2).
        unsafe {
            piece.write(Piece { next: ptr::null_mut() });
            if self.first.get().is_null() {
                self.first.set(piece);
            } else {
                (*self.last.get()).next = piece;
            }
        }
        self.last.set(piece);
        true
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        for (index, list) in self.0.iter().enumerate() {
            while let Some(piece) = NonNull::new(list.first.get()) {
                // SAFETY: (1), (2); the alignment is a power of two.
                unsafe {
                    list.first.set(piece.as_ref().next);
                    let layout = Layout::from_size_align_unchecked((index + 1) * WORD, WORD);
                    dealloc(piece.as_ptr().cast(), layout);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Of a size that no other test of this thread uses.
    type Value = [u64; 5];

    fn give_up(value: Box<Value>) -> usize {
        let value = Box::into_raw(value);
        // SAFETY: it comes from a `Box`.
        unsafe { drop::<Value>(value.cast()) };
        value.addr()
    }

    #[test]
    fn memory_is_used_again_in_the_order_of_frees() {
        thread::spawn(|| {
            let freed = [new([1; 5]), new([2; 5]), new([3; 5])].map(give_up);
            let again: [Box<Value>; 3] = [new([4; 5]), new([5; 5]), new([6; 5])];
            assert_eq!(again.each_ref().map(|value| (&raw const **value).addr()), freed);
            assert_eq!(again.map(|value| value[4]), [4, 5, 6]);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn thread_keeps_no_more_than_it_has_allocated_and_no_more_than_the_most() {
        thread::spawn(|| {
            let kept = || {
                LISTS.with(|lists| {
                    let list = &lists.0[index_of::<Value>().expect("small")];
                    list.most.get() - list.room.get()
                })
            };
            give_up(Box::new([0; 5]));
            assert_eq!(kept(), 0);
            let many: Vec<_> = (0..2 * MOST).map(|_| new([0; 5])).collect();
            assert_eq!(kept(), 0);
            for value in many {
                give_up(value);
            }
            assert_eq!(kept(), MOST);
            let taken = new([0; 5]);
            assert_eq!(kept(), MOST - 1);
            give_up(taken);
            assert_eq!(kept(), MOST);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn memory_of_a_value_whose_drop_panics_is_kept() {
        struct Panics(#[expect(dead_code, reason = "a size of its own")] [u64; 6]);
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("expected");
            }
        }
        let value = Box::into_raw(new(Panics([0; 6])));
        // SAFETY: it comes from a `Box`.
        let dropped = std::panic::catch_unwind(|| unsafe { drop::<Panics>(value.cast()) });
        assert!(dropped.is_err());
        assert_eq!((&raw const *new([0_u64; 6])).addr(), value.addr());
    }

    #[test]
    fn sizes_without_a_list_are_freed_at_once() {
        assert_eq!(index_of::<[u64; SIZES]>(), Some(SIZES - 1));
        assert_eq!(index_of::<[u64; SIZES + 1]>(), None);
        assert_eq!(index_of::<u32>(), None);
        let large = Box::into_raw(Box::new([const { String::new() }; 2 * SIZES]));
        // SAFETY: it comes from a `Box`.
        unsafe { drop::<[String; 2 * SIZES]>(large.cast()) };
        let small = Box::into_raw(new(7_u32));
        // SAFETY: as above.
        unsafe { drop::<u32>(small.cast()) };
    }
}
