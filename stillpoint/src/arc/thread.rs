//! The protection slots of threads, and the domain of all loads.
//!
//! A thread that has no slot increments the count instead: see [`crate::slots::thread`].

use core::ffi::c_void;
use std::sync::Mutex;

use crate::domain::static_domain::StaticDomain as _;
use crate::rcu::published_ptr::PublishedPtr;
use crate::reclaim::domain::reader_outside;
use crate::slots::scan;
use crate::slots::slot::Slot;
use crate::slots::thread::{SlotTable, ThreadSlots};
use crate::sync::ForkSafe;
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;

crate::static_domain! { rcu
    /// The domain of the loads of all cells. Its sections are the loads: none is longer.
    pub struct Loads = "stillpoint::arc";
}

static TABLE: SlotTable = SlotTable::new(exit, &FORK);

/// Held by a thread that pays guards.
static PAYING: ForkSafe<Mutex<()>> = ForkSafe::new(Mutex::new(()));

std::thread_local! {
    static THREAD: ThreadSlots = const { ThreadSlots::new() };
}

/// Calls `f` with the calling thread's variables.
#[inline(always)]
fn with_thread<R>(f: impl FnOnce(&ThreadSlots) -> R) -> R {
    match THREAD.try_with(f) {
        Ok(result) => result,
        // There is no destructor.
        Err(_) => unreachable!(),
    }
}

/// Returns a free slot of the calling thread, or `None` if it has none.
#[inline(always)]
pub fn free_slot() -> Option<&'static Slot> {
    with_thread(|thread| thread.free(&TABLE))
}

/// The destructor of a thread with a record.
///
/// # Safety
///
/// `reader` was armed by [`SlotTable`].
unsafe extern "C" fn exit(reader: *mut c_void) {
    with_thread(|thread| thread.exit(&TABLE, reader));
}

/// Loads `source` in a section, and calls `f` with the pointer there.
#[inline(always)]
pub fn in_section<B, R>(source: &PublishedPtr<B>, f: impl FnOnce(*mut B) -> R) -> R {
    let _section = Loads::enter();
    f(source.load())
}

/// Blocks until every load that is in progress has filled its slot. `what` is for the message of a panic.
#[track_caller]
pub fn wait_for_loads(what: &'static str) {
    let own = reader_outside(&Loads, what);
    Loads::shared().core.engine.synchronize(own);
}

/// [`scan::pay_guards`] of all threads.
pub fn pay_guards(address: *mut (), increment: impl Fn()) -> usize {
    scan::pay_guards(TABLE.records(), PAYING.get(), address, increment)
}

static FORK: ForkHook = ForkHook::in_child(5, in_child);

init_array!(register_for_fork(&FORK));

/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: the caller's contract.
    with_thread(|thread| unsafe { thread.reset_in_child(&TABLE) });
    let records = TABLE.records();
    (0..records.len()).flat_map(|index| records.attached(index).slots()).for_each(Slot::reset_in_child);
    // SAFETY: the only thread, which is not paying: user code does not run there.
    unsafe { PAYING.overwrite(Mutex::new(())) };
}
