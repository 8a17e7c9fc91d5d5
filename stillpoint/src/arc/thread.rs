//! The protection slots of threads, and the domain of all loads.
//!
//! A thread that gets no slot, as there is no memory for one, increments the count instead.

use std::sync::Mutex;

use crate::domain::static_domain::StaticDomain as _;
use crate::rcu::published_ptr::PublishedPtr;
use crate::reclaim::domain::reader_outside;
use crate::slots::protected::LastCollection;
use crate::slots::scan;
use crate::slots::thread::slot_table;
use crate::sync::ForkSafe;

crate::static_domain! { rcu
    /// The domain of the loads of all cells. Its sections are the loads: none is longer.
    pub struct Loads = "stillpoint::arc";
}

slot_table!(5, reset_in_child);

/// What the slots have, for threads that release what was replaced: after a grace period of [`Loads`].
static GUARDED: LastCollection = LastCollection::new(TABLE.records());

/// Held by a thread that pays guards.
static PAYING: ForkSafe<Mutex<()>> = ForkSafe::new(Mutex::new(()));

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

/// Returns `false` if no guard has `address`, which was taken out of a cell before a grace period that has ended. Threads
/// that ask after the same grace periods share a look at the slots.
pub fn may_have_guards(address: *mut ()) -> bool {
    GUARDED.protected(Loads::shared().core.engine.completed()).contains(address.addr())
}

/// [`scan::pay_guards`] of all threads.
pub fn pay_guards(address: *mut (), increment: impl Fn()) -> usize {
    scan::pay_guards(TABLE.records(), PAYING.get(), address, increment)
}

/// # Safety
///
/// The calling thread is the only one in the process, as after a fork, and not inside a function of the library.
unsafe fn reset_in_child() {
    // SAFETY: the caller's contract.
    unsafe {
        PAYING.overwrite(Mutex::new(()));
        GUARDED.reset_in_child();
    }
}
