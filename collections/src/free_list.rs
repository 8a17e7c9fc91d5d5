//! Memory of removed entries: a thread retires it in batches, and uses batches of free memory for its insertions.
//!
//! A thread collects the entries that it removes, by their size, and *seals* a batch when it is full: it retires the
//! batch by one call. After the grace period the values of the batch are dropped, and it is a batch of free memory,
//! which serves as many insertions: those of the thread that runs the callback, or of one that takes the batch from
//! the *depot*, which all threads share. So an entry costs neither a callback nor the allocator, also where one
//! thread inserts what another removes, or where the worker of the domain runs what it has found. (Bonwick and Adams,
//! Magazines and Vmem, 2001.)
//!
//! Neighbours in time stay neighbours in memory, so where entries are removed in the order of their insertion, the
//! processor fetches the next entry to remove before it is asked for.
//!
//! Only entries are collected whose destructor does nothing but free memory, by the library's
//! [list](stillpoint::rcu::known_heap_bytes) of types. So no code of the program waits for a batch to be full, and
//! none runs, or panics, where a batch is dropped. Entries of a domain that is made at run time, or has hazard
//! pointers, are not collected: they are retired one by one, and freed.
//!
//! A thread that removes entries of one size in several domains collects those of one domain, and retires the others
//! one by one. It changes to another domain when it has removed more in others than in that one since the batch began
//! (Boyer and Moore's majority vote), so few batches are sealed with few entries, whatever the order.
//!
//! # Bounds
//!
//! - A thread has at most one batch of each size that is not sealed. Those of all sizes have less than
//!   [`OPEN_BYTES`] of memory, what the entries own included, besides the batches themselves. It seals them when it
//!   exits.
//! - It has at most one batch of free memory of each size, and only of sizes that it has allocated: not so the worker
//!   of a domain. They go to the depot when it exits.
//! - The depot has at most [`DEPOT_BYTES`](depot::DEPOT_BYTES), and [`LEAST_BYTES`](depot::LEAST_BYTES) if threads
//!   give more than they take. Where other memory of the program lay between entries, each piece may be all that
//!   keeps a page from being freed. If that is too little, it frees batches of the size of which it has most: so a
//!   size that the program does not use any more leaves room to others.
//! - Batches that are sealed count towards the limits of the domain, with their bytes and the number of their
//!   entries.
//!
//! The child of a fork has the batches of its only thread, and the depot, unless a thread of the parent had locked
//! that: no thread waits for the lock, so the child then has none.
//!
//! # Invariants
//!
//! 1. The memory of a batch of `index` was allocated as `Box`es of `(index + 1) * WORD` bytes, aligned to [`WORD`].
//!    In a batch of free memory it has no values.
//! 2. Only its thread accesses a list, and calls nothing while it does.
//! 3. A batch belongs to one list, the queue of a domain, or the depot, or to the code that takes it from one to the
//!    other.
//!
//! An entry is unlinked before it comes into a batch, and the batch is sealed later, by the same thread. So the grace
//! period of the batch begins after all of its entries are unlinked. Batches go from one thread to the next through
//! the queue and the lock of the depot, which order what the threads do; nothing here needs an ordering of its own.

mod depot;

use core::any::TypeId;
use core::cell::Cell;
use core::mem::{MaybeUninit, needs_drop};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stillpoint::rcu::DeferOptions;

use self::depot::{Batch, Depot, ENTRIES, Piece, SIZES, STOCKED, WORD};
use crate::sync::Domain;

/// Bytes above which a thread seals its batches before they are full.
const OPEN_BYTES: usize = 16 << 10;

/// The batches of a size, each of which may be null.
struct List {
    /// What is removed and not sealed.
    open: Cell<*mut Batch>,
    free: Cell<*mut Batch>,
    /// Whether the thread has allocated memory of the size.
    is_used: Cell<bool>,
}

struct Lists {
    lists: [List; SIZES],
    /// An empty batch, or null.
    spare: Cell<*mut Batch>,
    /// The bytes of all that is not sealed.
    open_bytes: Cell<usize>,
}

thread_local! {
    static LISTS: Lists = const {
        Lists {
            lists: [const {
                List {
                    open: Cell::new(ptr::null_mut()),
                    free: Cell::new(ptr::null_mut()),
                    is_used: Cell::new(false),
                }
            }; SIZES],
            spare: Cell::new(ptr::null_mut()),
            open_bytes: Cell::new(0),
        }
    };
}

/// Returns the list of the memory of values of a type.
const fn index_of<T>() -> Option<usize> {
    let words = size_of::<T>() / WORD;
    if align_of::<T>() == WORD && words >= 1 && words <= SIZES { Some(words - 1) } else { None }
}

/// Allocates a value, in the memory of an earlier one if there is some.
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
    let memory = LISTS.try_with(|lists| lists.take(index)).ok()?.or_else(|| take_slow(index))?;
    // SAFETY: (1)
    Some(unsafe { Box::from_raw(memory.cast()) })
}

#[cold]
fn take_slow(index: usize) -> Option<*mut ()> {
    LISTS.try_with(|lists| lists.take_of_depot(index)).ok()?
}

/// Has a domain dispose of an entry that owns `heap` bytes and has no destructor of the program: it is dropped, and
/// its memory kept or freed.
///
/// # Safety
///
/// As for `Domain::retire_shared`; `entry` comes from a `Box<T>`, and any thread may drop it.
#[inline(always)]
pub unsafe fn retire<T, D: Domain>(domain: &D, entry: *mut T, heap: usize) {
    let drop_fn: unsafe fn(*mut ()) = drop_value::<T>;
    let piece = Piece { memory: entry.cast(), drop: needs_drop::<T>().then_some(drop_fn) };
    if let (Some(index), true) = const { (index_of::<T>(), size_of::<(D, D::Hazards)>() == 0) } {
        // Not inside `try_with`, which would not be inlined. An error: the thread is exiting.
        if let Ok(lists) = LISTS.try_with(ptr::from_ref) {
            // SAFETY: the lists of this thread; and the caller's contract.
            if unsafe { (*lists).add_removed::<D>(index, piece, size_of::<T>() + heap) } {
                return;
            }
        }
    }
    let options = DeferOptions::new().heap_bytes(heap).run_on_retiring_thread();
    // SAFETY: the caller's contract.
    unsafe { domain.retire_raw_with(piece.memory, size_of::<T>(), drop::<T>, options) };
}

/// Drops a value, and frees its memory, also if the drop panics.
///
/// # Safety
///
/// `value` comes from a `Box<T>`, and is not used again.
pub unsafe fn drop<T>(value: *mut ()) {
    // SAFETY: the caller's contract.
    _ = unsafe { Box::from_raw(value.cast::<T>()) };
}

/// # Safety
///
/// `value` is a `T`, which is not used again.
unsafe fn drop_value<T>(value: *mut ()) {
    // SAFETY: the caller's contract.
    unsafe { value.cast::<T>().drop_in_place() };
}

/// Retires a batch of removed entries.
///
/// # Safety
///
/// The caller has the batch (3), which is not empty, and of the domain `D`. `D` is a type without size, and a
/// value of it exists.
#[cold]
unsafe fn seal<D: Domain>(batch: *mut Batch, options: DeferOptions) {
    // SAFETY: the caller's contract.
    let (domain, count, bytes) =
        unsafe { (NonNull::<D>::dangling().as_ref(), (*batch).len as u8, (*batch).bytes) };
    let options = options.run_on_retiring_thread().count(count);
    // SAFETY: `retire` was called for each of the entries.
    unsafe { domain.retire_raw_with(batch.cast(), size_of::<Batch>() + bytes, drop_batch, options) };
}

/// Drops the values of a batch, and keeps or frees its memory.
///
/// # Safety
///
/// `batch` is a [`Batch`] that was sealed, which the caller has (3). Its grace period has ended.
unsafe fn drop_batch(batch: *mut ()) {
    let batch = batch.cast::<Batch>();
    // SAFETY: the caller's contract. The drop functions are of types that own memory and nothing else, so they do not
    // panic, and use no list.
    let index = unsafe {
        for piece in &(&(*batch).pieces)[..(*batch).len as usize] {
            let Piece { memory, drop } = piece.assume_init();
            if let Some(drop) = drop {
                drop(memory);
            }
        }
        (*batch).bytes = 0;
        (*batch).index as usize
    };
    // SAFETY: it is a batch of free memory now.
    unsafe {
        if !LISTS.try_with(|lists| lists.keep(index, batch)).unwrap_or(false) {
            Depot::give(index, batch);
        }
    }
}

impl Lists {
    /// Takes free memory of this thread.
    #[inline(always)]
    fn take(&self, index: usize) -> Option<*mut ()> {
        // SAFETY: (2), (3); null or a batch.
        let piece = unsafe { self.lists[index].free.get().as_mut() }?.pop()?;
        Some(piece.memory)
    }

    /// Takes free memory of the depot.
    fn take_of_depot(&self, index: usize) -> Option<*mut ()> {
        let list = &self.lists[index];
        list.is_used.set(true);
        // Relaxed: a hint.
        if STOCKED.load(Relaxed) & 1 << index == 0 {
            return None;
        }
        self.spare(list.free.replace(Depot::take(index)?));
        self.take(index)
    }

    /// Keeps a batch of free memory, or returns `false` if this thread does not need it.
    ///
    /// # Safety
    ///
    /// The caller has the batch, and gives it up if this returns `true`.
    unsafe fn keep(&self, index: usize, batch: *mut Batch) -> bool {
        let list = &self.lists[index];
        // SAFETY: (2), (3)
        let has_none = unsafe { list.free.get().as_ref() }.is_none_or(|free| free.len == 0);
        let is_kept = has_none && list.is_used.get();
        if is_kept {
            self.spare(list.free.replace(batch));
        }
        is_kept
    }

    /// Adds a removed entry, and seals the batch if it has enough. Returns `false` if that is of another domain.
    ///
    /// # Safety
    ///
    /// As for [`retire`], for the memory of the size of this list. `D` has no size.
    #[inline(always)]
    unsafe fn add_removed<D: Domain>(&self, index: usize, piece: Piece, bytes: usize) -> bool {
        let list = &self.lists[index];
        if list.open.get().is_null() {
            list.open.set(self.open::<D>(index));
        }
        // SAFETY: (2), (3); a batch with `ENTRIES` is sealed.
        let batch = unsafe { &mut *list.open.get() };
        if batch.domain != TypeId::of::<D>() {
            // SAFETY: the caller's contract.
            return unsafe { self.add_of_other::<D>(index, piece, bytes) };
        }
        batch.push(piece);
        batch.bytes += bytes;
        let (is_full, open_bytes) = (batch.len as usize == ENTRIES, self.open_bytes.get() + bytes);
        self.open_bytes.set(open_bytes);
        if open_bytes >= OPEN_BYTES {
            self.lists.iter().for_each(|list| self.seal(list, Some(TypeId::of::<D>())));
        } else if is_full {
            self.seal(list, Some(TypeId::of::<D>()));
        }
        true
    }

    /// [`add_removed`](Self::add_removed), where the batch is of another domain. That is sealed if it is not that of
    /// most entries.
    ///
    /// # Safety
    ///
    /// The same.
    #[cold]
    unsafe fn add_of_other<D: Domain>(&self, index: usize, piece: Piece, bytes: usize) -> bool {
        let list = &self.lists[index];
        // SAFETY: (2), (3)
        let batch = unsafe { &mut *list.open.get() };
        batch.others += 1;
        if u32::from(batch.others) <= batch.len {
            return false;
        }
        self.seal(list, None);
        // SAFETY: the caller's contract.
        unsafe { self.add_removed::<D>(index, piece, bytes) }
    }

    /// Seals the open batch, if there is one. Callbacks run only if it is of `domain`, that of the caller's entry: a
    /// section of the caller would hold up those of another domain, and be held up by them.
    #[cold]
    fn seal(&self, list: &List, domain: Option<TypeId>) {
        let batch = list.open.replace(ptr::null_mut());
        if !batch.is_null() {
            // SAFETY: (3): the list gives it up. An open batch is not empty.
            unsafe {
                self.open_bytes.set(self.open_bytes.get() - (*batch).bytes);
                let options = DeferOptions::new();
                let is_of_caller = domain == Some((*batch).domain);
                ((*batch).seal)(batch, if is_of_caller { options } else { options.push_only() });
            }
        }
    }

    /// Returns an empty batch of a domain.
    #[cold]
    fn open<D: Domain>(&self, index: usize) -> *mut Batch {
        let new = || Batch::new(TypeId::of::<D>(), seal::<D>);
        let batch = NonNull::new(self.spare.replace(ptr::null_mut())).map_or_else(new, NonNull::as_ptr);
        // SAFETY: (2), (3)
        unsafe {
            (*batch).index = index as u16;
            (*batch).others = 0;
            (*batch).domain = TypeId::of::<D>();
            (*batch).seal = seal::<D>;
        }
        batch
    }

    /// Keeps an empty batch, if `batch` is not null.
    fn spare(&self, batch: *mut Batch) {
        let unused = if self.spare.get().is_null() { self.spare.replace(batch) } else { batch };
        if !unused.is_null() {
            // SAFETY: the caller gives it up.
            unsafe { Batch::free(unused) };
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        for (index, list) in self.lists.iter().enumerate() {
            // A panic, if there is no memory to register the thread again, leaks the batch.
            _ = catch_unwind(AssertUnwindSafe(|| self.seal(list, None)));
            let free = list.free.replace(ptr::null_mut());
            if !free.is_null() {
                // SAFETY: (3): the list gives it up.
                unsafe { Depot::give(index, free) };
            }
        }
        let spare = self.spare.replace(ptr::null_mut());
        if !spare.is_null() {
            // SAFETY: as above; it is empty.
            unsafe { Batch::free(spare) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use stillpoint::rcu::Global;

    #[test]
    fn values_are_dropped_once_and_their_memory_is_used_again() {
        static DROPS: AtomicUsize = AtomicUsize::new(0);
        /// Of a size that no other test uses.
        struct Counted(#[expect(dead_code, reason = "its size")] [u64; 13]);
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPS.fetch_add(1, Relaxed);
            }
        }
        let run = || {
            let values = [1, 2, 3].map(|at| Box::into_raw(new(Counted([at; 13]))));
            // SAFETY: they come from boxes.
            values.iter().for_each(|&value| unsafe { retire(&Global, value, 0) });
            let batch = LISTS.with(|lists| lists.lists[12].open.replace(ptr::null_mut()));
            assert_eq!(DROPS.load(Relaxed), 0);
            // SAFETY: the batch is this thread's, and no other reads its values.
            unsafe { drop_batch(batch.cast()) };
            assert_eq!(DROPS.load(Relaxed), 3);
            let again = [4, 5, 6].map(|at| new(Counted([at; 13])));
            assert_eq!(
                again.each_ref().map(|value| (&raw const **value).addr()),
                [2, 1, 0].map(|at| values[at].addr())
            );
        };
        thread::spawn(run).join().expect("no panic");
        assert_eq!(DROPS.load(Relaxed), 6);
    }

    stillpoint::domain! { struct Other; }

    /// Removes an entry of `N` words that has a heap of `heap` bytes, in `domain`.
    fn remove<const N: usize>(domain: &impl Domain, heap: usize) {
        // SAFETY: it comes from a box, and no other thread has it.
        unsafe { retire(domain, Box::into_raw(new([0_u64; N])), heap) };
    }

    /// Runs `test` in a thread of its own, with the open batch of each size.
    fn with_open<const N: usize>(test: impl FnOnce(&dyn Fn() -> Option<&'static Batch>) + Send) {
        let run = || {
            // SAFETY: the batch is this thread's, which does not change it meanwhile.
            test(&|| LISTS.with(|lists| unsafe { lists.lists[N - 1].open.get().as_ref() }));
        };
        thread::scope(|scope| scope.spawn(run).join().expect("no panic"));
    }

    #[test]
    fn batch_gives_way_to_a_domain_of_more_entries() {
        with_open::<14>(|open| {
            let _guard = Other::enter();
            let before = Other.stats();
            remove::<14>(&Other, 0);
            remove::<14>(&Global, 0);
            assert!(open().is_some_and(|batch| batch.domain == TypeId::of::<Other>() && batch.len == 1));
            (0..ENTRIES / 2).for_each(|_| remove::<14>(&Global, 0));
            assert!(open().is_some_and(|batch| batch.domain == TypeId::of::<Global>()));
            // What was sealed counts, with the batch itself.
            let after = Other.stats();
            assert_eq!(after.queued - before.queued, 1);
            assert_eq!(after.queued_bytes - before.queued_bytes, (size_of::<Batch>() + 14 * WORD) as u64);
            // A few others do not hurt.
            for _ in 0..ENTRIES / 3 {
                remove::<14>(&Other, 0);
                remove::<14>(&Global, 0);
                assert!(open().is_none_or(|batch| batch.domain == TypeId::of::<Global>()));
            }
        });
    }

    #[test]
    fn batches_of_all_sizes_share_a_bound() {
        with_open::<15>(|open| {
            remove::<15>(&Global, OPEN_BYTES / 2);
            assert!(open().is_some());
            remove::<16>(&Global, OPEN_BYTES / 2);
            assert!(open().is_none());
            LISTS.with(|lists| {
                assert!(lists.lists.iter().all(|list| list.open.get().is_null()));
                assert_eq!(lists.open_bytes.get(), 0);
            });
        });
    }
}
