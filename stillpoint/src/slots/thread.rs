//! A thread's slots: how it gets its [`Record`] of a table, and finds free slots there, or elsewhere.
//!
//! A thread gets its record when it first needs a slot, and gives it up when it exits. It takes slots of shared
//! records if all slots of its own are in use, after its exit, and in a signal handler that interrupts the search.
//!
//! # Invariants
//!
//! 1. `reader` is the reader to which the record is attached, from its claim to the thread's exit. It belongs to this
//!    thread alone.
//! 2. `slot` is a slot of that record, or the sentinel.
//! 3. While `is_searching`, no other code of the thread sets `reader` or `slot`: a handler sees the flag.
//! 4. Once the record is given up, `slot` is the sentinel for ever.

use core::cell::Cell;
#[cfg(not(loom))]
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::record::{Record, Records};
use super::slot::Slot;
use crate::readers::sections::reader::Reader;
use crate::sync::step;
#[cfg(not(loom))]
use crate::sys::fork::{ForkHook, register_for_fork};
#[cfg(not(loom))]
use crate::sys::tls_destructor::AtThreadExit;

/// The records of all threads.
#[derive(Debug)]
pub struct SlotTable {
    records: Records,
    #[cfg(not(loom))]
    at_exit: AtThreadExit,
    #[cfg(not(loom))]
    fork: &'static ForkHook,
}

/// The slot of threads that have none. Models have no such statics.
#[cfg(not(loom))]
static SENTINEL: Slot = Slot::sentinel();
#[cfg(not(loom))]
const NO_SLOT: *const Slot = &raw const SENTINEL;
#[cfg(loom)]
const NO_SLOT: *const Slot = ptr::null();

/// What a thread knows of its record: a thread-local variable.
#[derive(Debug)]
pub struct ThreadSlots {
    /// The slot that the thread filled last: a static reference, as a pointer, because constants of Rust 1.85 contain
    /// no references to atomics.
    slot: Cell<*const Slot>,
    reader: Cell<Option<&'static Reader>>,
    /// The record of `reader`.
    record: Cell<Option<&'static Record>>,
    /// Where the thread took its last slot of a shared record.
    shared: Cell<Option<&'static Record>>,
    is_searching: Cell<bool>,
    has_ended: Cell<bool>,
}

impl ThreadSlots {
    pub const fn new() -> Self {
        Self {
            slot: Cell::new(NO_SLOT),
            reader: Cell::new(None),
            record: Cell::new(None),
            shared: Cell::new(None),
            is_searching: Cell::new(false),
            has_ended: Cell::new(false),
        }
    }

    /// Returns the slots of a thread whose destructors run: those of shared records.
    #[cfg(stillpoint_portable)]
    pub const fn ended() -> Self {
        Self { has_ended: Cell::new(true), ..Self::new() }
    }

    /// Returns a slot for the calling thread, free or reserved, which it fills or gives back. Returns `None` if there
    /// is no memory, or if there are too many shared records.
    #[inline(always)]
    pub fn take(&self, table: &'static SlotTable) -> Option<&'static Slot> {
        // SAFETY: what is stored there comes from static references, or is null in a model.
        let last: Option<&'static Slot> =
            unsafe { if cfg!(loom) { self.slot.get().as_ref() } else { Some(&*self.slot.get()) } };
        last.filter(|slot| slot.is_free()).or_else(|| self.take_slow(table))
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&self, table: &'static SlotTable) -> Option<&'static Slot> {
        let mut found = None;
        if !self.is_searching.replace(true) {
            compiler_fence(SeqCst);
            let record = self.record.get().or_else(|| self.register(table));
            found = record.and_then(Record::find_free).inspect(|slot| self.slot.set(ptr::from_ref(*slot)));
            compiler_fence(SeqCst);
            self.is_searching.set(false);
        }
        found.or_else(|| table.records.take_shared(&self.shared, || table.claim()))
    }

    /// Gives the thread a record.
    #[cold]
    #[inline(never)]
    fn register(&self, table: &'static SlotTable) -> Option<&'static Record> {
        if self.has_ended.get() {
            return None;
        }
        let reader = table.claim()?;
        #[cfg(not(loom))]
        // SAFETY: the functions of all tables want a reader.
        if !unsafe { table.at_exit.arm(ptr::from_ref(reader).cast_mut().cast()) } {
            table.records.give_up(reader);
            return None;
        }
        let record = table.records.of(reader);
        self.reader.set(Some(reader));
        self.record.set(Some(record));
        Some(record)
    }

    /// Gives the thread's record up: its slots that are in use outlive it.
    pub fn end(&self, table: &'static SlotTable) {
        step!("end-not-noted", self.has_ended.set(true));
        compiler_fence(SeqCst);
        // Before `slot`, which a signal handler sets while it finds the record.
        self.record.set(None);
        compiler_fence(SeqCst);
        step!("slot-kept-at-exit", self.slot.set(NO_SLOT));
        let own = self.reader.take();
        compiler_fence(SeqCst);
        step!("record-kept-at-exit", own.into_iter().for_each(|own| table.records.give_up(own)));
    }

    /// The destructor of a thread with the record of `reader`.
    #[cfg(not(loom))]
    pub fn exit(&self, table: &'static SlotTable, reader: *mut c_void) {
        // In the child of a fork, glibc may give a new thread what was armed for one that is gone.
        if self.reader.get().is_some_and(|own| ptr::eq(own, reader.cast())) {
            self.end(table);
        }
    }

    /// [`Records::reset_in_child`].
    ///
    /// # Safety
    ///
    /// See [`ForkHook::child`].
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self, table: &SlotTable) {
        table.records.reset_in_child(self.reader.get());
    }
}

impl SlotTable {
    /// Returns a table with at most `most_shared` shared records. `at_exit` calls [`ThreadSlots::exit`], and `fork`
    /// [`ThreadSlots::reset_in_child`].
    #[cfg(not(loom))]
    pub const fn new(
        most_shared: u64,
        at_exit: unsafe extern "C" fn(*mut c_void),
        fork: &'static ForkHook,
    ) -> Self {
        Self { records: Records::new(most_shared), at_exit: AtThreadExit::new(at_exit), fork }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Self { records: Records::new(u64::MAX) }
    }

    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// [`Records::claim`].
    fn claim(&self) -> Option<&'static Reader> {
        #[cfg(not(loom))]
        {
            if !register_for_fork(self.fork) {
                return None;
            }
            // The light fences of this thread are chosen from now on.
            crate::fence::report();
        }
        self.records.claim()
    }
}

/// Defines a table of slots, with at most `$most_shared` shared records: `TABLE`, and `take_slot`, which is
/// [`ThreadSlots::take`] of the calling thread. In the child of a fork, in the order `$order`, the table is reset, and
/// then `$in_child` is called.
#[cfg(not(loom))]
macro_rules! slot_table {
    ($order:literal, $most_shared:expr $(, $in_child:path)?) => {
        use $crate::sys::fork::register_for_fork;

        pub static TABLE: $crate::slots::thread::SlotTable =
            $crate::slots::thread::SlotTable::new($most_shared, exit, &FORK);

        /// Calls `f` with the calling thread's variables.
        #[inline(always)]
        pub(super) fn with_thread<R>(f: impl FnOnce(&$crate::slots::thread::ThreadSlots) -> R) -> R {
            use $crate::slots::thread::ThreadSlots;

            $crate::with_thread_variable!(
                ThreadSlots = ThreadSlots::new(),
                late = ThreadSlots::ended(),
                end = |slots: &ThreadSlots| slots.end(&TABLE),
                f
            )
        }

        /// [`ThreadSlots::take`](crate::slots::thread::ThreadSlots::take) of the calling thread.
        #[inline(always)]
        pub fn take_slot() -> Option<&'static $crate::slots::slot::Slot> {
            with_thread(|thread| thread.take(&TABLE))
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
#[cfg(not(loom))]
pub(crate) use slot_table;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slots::pointers::{TABLE, with_thread};

    #[test]
    fn handler_that_interrupts_the_search_takes_a_shared_slot() {
        let slots = ThreadSlots::new();
        slots.is_searching.set(true);
        let slot = slots.take(&TABLE).expect("memory");
        assert!(slots.reader.get().is_none() && slots.shared.get().is_some());
        slot.give_back();
    }

    /// Refutes: record-forgotten-last
    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, stillpoint_portable))))]
    fn handlers_may_take_a_slot_while_a_thread_ends() {
        use support::traps::{begin, interrupted};

        fn take_and_give_back() {
            with_thread(|slots| slots.take(&TABLE)).expect("memory").give_back();
        }

        let _one = begin();
        // A build without optimizations has thousands of instructions there.
        for at in (0..).step_by(if cfg!(debug_assertions) { 7 } else { 1 }) {
            let is_interrupted = move || {
                take_and_give_back();
                let end = || with_thread(|slots| slots.end(&TABLE));
                let is_interrupted = interrupted(at, 0, take_and_give_back, end);
                let late = with_thread(|slots| slots.take(&TABLE)).expect("memory");
                late.reserve();
                let is_seen = TABLE.records().slots().any(|slot| ptr::eq(slot, late));
                assert!(is_seen, "at instruction {at}: a slot of a record that was given up");
                late.give_back();
                is_interrupted
            };
            if !std::thread::spawn(is_interrupted).join().expect("no panic") {
                assert_ne!(at, 0);
                break;
            }
        }
    }

    #[test]
    fn ended_threads_give_their_records_back() {
        let before = TABLE.records().claimed();
        for _ in 0..100 {
            let thread = || with_thread(|slots| slots.take(&TABLE)).expect("memory").give_back();
            std::thread::spawn(thread).join().unwrap();
        }
        // Threads of other tests have some.
        assert!(TABLE.records().claimed() < before + 50);
    }
}
