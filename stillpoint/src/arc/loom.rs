//! What `thread.rs` has, for models: the domain of all loads, its worker and the slots belong to the model.

use core::cell::Cell;

use crate::grace_period::engine::Engine;
use crate::readers::sections::protocol::ReaderProtocol;
use crate::readers::sections::reader::{ExitPath, Reader};
use crate::readers::sections::scan::ThreadReaders;
use crate::slots::scan::GuardSlots;
use crate::slots::slot::Slot;
use crate::slots::thread::{SlotTable, ThreadSlots};
use crate::sync::Mutex;

struct Loads {
    engine: Engine<ThreadReaders<()>>,
    table: &'static SlotTable,
    guards: GuardSlots,
    /// What was retired: a value, and what to call with it.
    retired: Mutex<Vec<(*mut (), unsafe fn(*mut ()))>>,
}

// SAFETY: what was retired may be released by any thread.
unsafe impl Sync for Loads {}

loom::lazy_static! {
    static ref LOADS: Loads = {
        let table = Box::leak(Box::new(SlotTable::new()));
        Loads {
            engine: Engine::new(ThreadReaders::new(ReaderProtocol::Sections), || "Loads"),
            table,
            guards: GuardSlots::new(table.records()),
            retired: Mutex::new(Vec::new()),
        }
    };
}

loom::thread_local! {
    static READER: Cell<Option<&'static Reader>> = Cell::new(None);
    static SLOTS: ThreadSlots = ThreadSlots::new();
}

fn own_reader() -> Option<&'static Reader> {
    READER.with(Cell::get)
}

/// Registers the calling thread, which loads.
pub fn register() {
    READER.with(|reader| reader.set(Some(LOADS.engine.readers().registry().claim().expect("memory"))));
    take_slot().expect("memory").give_back();
}

/// Returns `true` if no slot is in use.
pub fn has_no_guards() -> bool {
    LOADS.table.records().slots().all(Slot::is_free)
}

struct Section(&'static Reader);

impl Drop for Section {
    fn drop(&mut self) {
        if self.0.leave() == ExitPath::Slow {
            LOADS.engine.readers().exit_slow(self.0);
        }
    }
}

pub fn enter() -> impl Sized {
    let reader = own_reader().expect("a thread that loads");
    assert!(reader.try_enter(LOADS.engine.readers().counter()));
    Section(reader)
}

pub fn take_slot() -> Option<&'static Slot> {
    SLOTS.with(|slots| slots.take(LOADS.table))
}

pub fn wait_for_loads(_what: &'static str) {
    LOADS.engine.synchronize(own_reader());
}

pub fn may_have_guards(address: *mut ()) -> bool {
    LOADS.guards.may_have(address, LOADS.engine.completed())
}

pub fn pay_guards(address: *mut (), increment: impl Fn()) -> usize {
    LOADS.guards.pay(address, increment)
}

/// # Safety
///
/// As in `thread.rs`.
pub unsafe fn retire(value: *mut (), _bytes: usize, release: unsafe fn(*mut ())) {
    LOADS.retired.lock().unwrap().push((value, release));
}

/// Does what the worker does with what was retired.
pub fn run_retired() {
    let retired = core::mem::take(&mut *LOADS.retired.lock().unwrap());
    LOADS.engine.synchronize(None);
    for (value, release) in retired {
        // SAFETY: a grace period has ended.
        unsafe { release(value) };
    }
}
