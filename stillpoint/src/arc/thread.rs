//! The protection slots of threads, and the domain of all loads. Models have their own: see `loom.rs`.
//!
//! A thread that gets no slot, as there is no memory for one, or as too many guards are held, increments the count
//! instead.

use crate::Domain;
use crate::domain::options::DeferOptions;
use crate::domain::static_domain::StaticDomain as _;
use crate::reclaim::domain::reader_outside;
use crate::slots::scan::GuardSlots;
use crate::slots::thread::slot_table;

crate::static_domain! { rcu
    /// The domain of the loads of all cells. Its sections are the loads: none is longer.
    struct Loads = "stillpoint::arc";
}

/// Stores look at so many records beside those of threads, at most: 448 guards. Others count.
const MOST_SHARED: u64 = 64;

slot_table!(5, MOST_SHARED, reset_in_child);

static GUARDS: GuardSlots = GuardSlots::new(TABLE.records());

/// Begins a section, for a load.
#[inline(always)]
pub fn enter() -> impl Sized {
    Loads::enter()
}

/// Blocks until every load that is in progress has filled its slot, or counted. `what` is for the message of a panic.
#[track_caller]
pub fn wait_for_loads(what: &'static str) {
    let own = reader_outside(&Loads, what);
    Loads::shared().core.engine.synchronize(own);
}

/// [`GuardSlots::may_have`], after a grace period that has ended.
pub fn may_have_guards(address: *mut ()) -> bool {
    GUARDS.may_have(address, Loads::shared().core.engine.completed())
}

/// [`GuardSlots::pay`].
pub fn pay_guards(address: *mut (), increment: impl Fn()) -> usize {
    GUARDS.pay(address, increment)
}

/// Has `release` called with `value`, of so many bytes, after a grace period of the loads.
///
/// # Safety
///
/// `release` may be called then, once, in any thread.
#[inline]
pub unsafe fn retire(value: *mut (), bytes: usize, release: unsafe fn(*mut ())) {
    let options = DeferOptions::new().unknown_heap_bytes();
    // SAFETY: the caller's contract.
    unsafe { Loads.retire_raw_with(value, bytes, release, options) };
}

/// Blocks until the cells with the strategy [`Deferred`](super::Deferred) have released what was replaced before.
///
/// # Panics
///
/// In a destructor that the worker of these cells runs, where it would wait for itself.
pub fn barrier() {
    Loads.barrier();
}

/// Returns the domain of all loads: its grace periods are those of stores with [`Exact`](super::Exact), unless stores
/// share one, and those of the worker for [`Deferred`](super::Deferred), whose stores its limits concern.
///
/// ```
/// use stillpoint::{Domain as _, arc, rcu::Limits};
///
/// // A store never blocks.
/// arc::domain().set_limits(Limits { blocks: false, ..Limits::default() });
/// assert_eq!(arc::domain().stats().limit_overruns, 0);
/// ```
pub fn domain() -> impl Domain {
    Loads
}

/// # Safety
///
/// The calling thread is the only one in the process, as after a fork, and not inside a function of the library.
unsafe fn reset_in_child() {
    // SAFETY: the caller's contract.
    unsafe { GUARDS.reset_in_child() };
}
