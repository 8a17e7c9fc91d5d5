//! A thread's slots: how it gets its [`Record`] of a table, and finds free slots there.
//!
//! A thread gets its record when it first needs a slot, and gives it back when it exits. It has none after that, and while
//! it searches: a signal handler that interrupts the search must do without.
//!
//! # Invariants
//!
//! 1. `reader` is the reader to which the record is attached, from its claim to the thread's exit. It belongs to this
//!    thread alone.
//! 2. `slot` is a slot of that record, or the sentinel.
//! 3. While `is_searching`, no other code of the thread uses `reader` and `place`: a handler sees the flag.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::record::{Place, Record};
use super::slot::Slot;
#[cfg(stillpoint_portable)]
use crate::readers::sections::freed_state::armed_reader;
#[cfg(stillpoint_portable)]
use crate::readers::sections::reader::Owner;
use crate::readers::sections::reader::Reader;
use crate::readers::sections::registry::Registry;
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::tls_destructor::AtThreadExit;

/// The records of all threads.
#[derive(Debug)]
pub struct SlotTable {
    records: Registry<Record>,
    at_exit: AtThreadExit,
    fork: &'static ForkHook,
}

/// The slot of threads that have none.
static SENTINEL: Slot = Slot::sentinel();

/// What a thread knows of its record: a thread-local variable.
#[derive(Debug)]
pub struct ThreadSlots {
    /// The slot that the thread filled last: a static reference, as a pointer, because constants of Rust 1.85 contain no
    /// references to atomics.
    slot: Cell<*const Slot>,
    place: Cell<Place>,
    reader: Cell<Option<&'static Reader>>,
    is_searching: Cell<bool>,
    has_ended: Cell<bool>,
}

impl ThreadSlots {
    pub const fn new() -> Self {
        Self {
            slot: Cell::new(&raw const SENTINEL),
            place: Cell::new(Place::FIRST),
            reader: Cell::new(None),
            is_searching: Cell::new(false),
            has_ended: Cell::new(false),
        }
    }

    /// Returns a free slot of the calling thread, or `None` if it has none.
    #[inline(always)]
    pub fn free(&self, table: &'static SlotTable) -> Option<&'static Slot> {
        // SAFETY: what is stored there comes from static references.
        let last: &'static Slot = unsafe { &*self.slot.get() };
        if last.is_free() { Some(last) } else { self.find(table) }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, table: &'static SlotTable) -> Option<&'static Slot> {
        if self.is_searching.replace(true) {
            return None;
        }
        compiler_fence(SeqCst);
        let found = self.reader.get().or_else(|| self.register(table)).and_then(|reader| {
            let (place, slot) = table.records.attached_to(reader).find_free(self.place.get())?;
            self.place.set(place);
            self.slot.set(ptr::from_ref(slot));
            Some(slot)
        });
        compiler_fence(SeqCst);
        self.is_searching.set(false);
        found
    }

    /// Gives the thread a record.
    fn register(&self, table: &'static SlotTable) -> Option<&'static Reader> {
        if self.has_ended.get() || AtThreadExit::is_over() {
            return None;
        }
        // Only `exit` releases it.
        #[cfg(stillpoint_portable)]
        if let Some(reader) = armed_reader(table.at_exit.armed()) {
            self.reader.set(Some(reader));
            return Some(reader);
        }
        let reader = table.claim()?;
        #[cfg(stillpoint_portable)]
        reader.set_owner(Owner {
            thread: crate::sys::thread::tid().unsigned_abs(),
            site: core::panic::Location::caller(),
        });
        // SAFETY: the functions of all tables want a reader.
        if !unsafe { table.at_exit.arm(ptr::from_ref(reader).cast_mut().cast()) } {
            table.release(reader);
            return None;
        }
        self.place.set(Place::FIRST);
        self.reader.set(Some(reader));
        Some(reader)
    }

    /// The destructor of a thread with the record of `reader`. Slots that are in use may outlive it: they stay in use.
    pub fn exit(&self, table: &'static SlotTable, reader: *mut c_void) {
        // In the child of a fork, glibc may give a new thread what was armed for one that is gone.
        let own = self.reader.get();
        #[cfg(stillpoint_portable)]
        let own = own.or_else(|| armed_reader(reader));
        let Some(own) = own.filter(|own| ptr::eq(*own, reader.cast())) else { return };
        self.has_ended.set(true);
        self.slot.set(&raw const SENTINEL);
        self.reader.set(None);
        compiler_fence(SeqCst);
        table.release(own);
    }

    /// Frees the records of threads that the child of a fork does not have. Their slots that are in use stay in use: the
    /// forking thread may have the guards.
    ///
    /// # Safety
    ///
    /// See [`ForkHook::child`].
    pub unsafe fn reset_in_child(&self, table: &SlotTable) {
        table.records.reset_in_child(self.reader.get());
    }
}

impl SlotTable {
    /// `at_exit` calls [`ThreadSlots::exit`], and `fork` [`ThreadSlots::reset_in_child`].
    pub const fn new(at_exit: unsafe extern "C" fn(*mut c_void), fork: &'static ForkHook) -> Self {
        Self { records: Registry::new(), at_exit: AtThreadExit::new(at_exit), fork }
    }

    pub const fn records(&self) -> &Registry<Record> {
        &self.records
    }

    /// Returns the reader of a record that no thread has. Returns `None` if there is no memory.
    pub fn claim(&self) -> Option<&'static Reader> {
        if !register_for_fork(self.fork) {
            return None;
        }
        // The light fences of this thread are chosen from now on.
        crate::fence::init();
        self.records.claim().ok()
    }

    /// Gives the record of `reader` back. Its slots that are in use stay in use.
    pub fn release(&self, reader: &'static Reader) {
        self.records.release(reader);
    }
}

/// Defines a table of slots: `TABLE`, and `free_slot`, which returns a free slot of the calling thread, or `None` if it has
/// none. In the child of a fork, in the order `$order`, the table is reset, and then `$in_child` is called.
macro_rules! slot_table {
    ($order:literal $(, $in_child:path)?) => {
        use $crate::sys::fork::register_for_fork;

        pub static TABLE: $crate::slots::thread::SlotTable =
            $crate::slots::thread::SlotTable::new(exit, &FORK);

        std::thread_local! {
            static THREAD: $crate::slots::thread::ThreadSlots =
                const { $crate::slots::thread::ThreadSlots::new() };
        }

        /// Calls `f` with the calling thread's variables.
        #[inline(always)]
        fn with_thread<R>(f: impl FnOnce(&$crate::slots::thread::ThreadSlots) -> R) -> R {
            match THREAD.try_with(f) {
                Ok(result) => result,
                // There is no destructor.
                Err(_) => unreachable!(),
            }
        }

        /// Returns a free slot of the calling thread, or `None` if it has none.
        #[inline(always)]
        pub fn free_slot() -> Option<&'static $crate::slots::slot::Slot> {
            with_thread(|thread| thread.free(&TABLE))
        }

        /// The destructor of a thread with a record.
        ///
        /// # Safety
        ///
        /// `reader` was armed by the table.
        unsafe extern "C" fn exit(reader: *mut core::ffi::c_void) {
            with_thread(|thread| thread.exit(&TABLE, reader));
        }

        static FORK: $crate::sys::fork::ForkHook = $crate::sys::fork::ForkHook::in_child($order, in_child);

        $crate::sys::init_array!(register_for_fork(&FORK));

        /// # Safety
        ///
        /// See [`ForkHook::child`](crate::sys::fork::ForkHook).
        unsafe fn in_child() {
            // SAFETY: the caller's contract.
            with_thread(|thread| unsafe { thread.reset_in_child(&TABLE) });
            // SAFETY: as above.
            $(unsafe { $in_child() };)?
        }
    };
}
pub(crate) use slot_table;
