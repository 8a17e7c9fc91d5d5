//! The protection slots of threads, and the domain of all loads.
//!
//! A thread gets its [`Record`] of slots at its first load, and gives it back when it exits. A thread that has none takes
//! no slot: it increments the count instead. So do signal handlers that interrupt the search for one, and destructors
//! that run after the thread has given its record back.
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
use std::sync::Mutex;

#[cfg(stillpoint_portable)]
use crate::domain::freed_state::armed_reader;
use crate::domain::static_domain::StaticDomain as _;
use crate::hazard::record::{Place, Record};
use crate::hazard::scan;
use crate::hazard::slot::Slot;
use crate::rcu::published_ptr::PublishedPtr;
#[cfg(stillpoint_portable)]
use crate::readers::sections::reader::Owner;
use crate::readers::sections::reader::Reader;
use crate::readers::sections::registry::Registry;
use crate::reclaim::domain::reader_outside;
use crate::sync::ForkSafe;
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;
use crate::sys::tls_destructor::AtThreadExit;

crate::static_domain! { rcu
    /// The domain of the loads of all cells. Its sections are the loads: none is longer.
    pub struct Loads = "stillpoint::arc";
}

/// The records of all threads.
static RECORDS: Registry<Record> = Registry::new();

/// Held by a thread that pays guards.
static PAYING: ForkSafe<Mutex<()>> = ForkSafe::new(Mutex::new(()));

/// The slot of threads that have none.
static SENTINEL: Slot = Slot::sentinel();

static AT_EXIT: AtThreadExit = AtThreadExit::new(exit);

/// See the [module](self).
struct Thread {
    /// The slot that the thread filled last: a static reference, as a pointer, because constants of Rust 1.85 contain no
    /// references to atomics.
    slot: Cell<*const Slot>,
    place: Cell<Place>,
    reader: Cell<Option<&'static Reader>>,
    is_searching: Cell<bool>,
    has_ended: Cell<bool>,
}

std::thread_local! {
    static THREAD: Thread = const {
        Thread {
            slot: Cell::new(&raw const SENTINEL),
            place: Cell::new(Place::FIRST),
            reader: Cell::new(None),
            is_searching: Cell::new(false),
            has_ended: Cell::new(false),
        }
    };
}

/// Calls `f` with the calling thread's variables.
#[inline(always)]
fn with_thread<R>(f: impl FnOnce(&Thread) -> R) -> R {
    match THREAD.try_with(f) {
        Ok(result) => result,
        // There is no destructor.
        Err(_) => unreachable!(),
    }
}

/// Returns a free slot of the calling thread, or `None` if it has none.
#[inline(always)]
pub fn free_slot() -> Option<&'static Slot> {
    // SAFETY: what is stored there comes from static references.
    let slot: &'static Slot = unsafe { &*with_thread(|thread| thread.slot.get()) };
    if slot.is_free() { Some(slot) } else { with_thread(find_slot) }
}

#[cold]
#[inline(never)]
fn find_slot(thread: &Thread) -> Option<&'static Slot> {
    if thread.is_searching.replace(true) {
        return None;
    }
    compiler_fence(SeqCst);
    let found = thread.reader.get().or_else(|| register(thread)).and_then(|reader| {
        let (place, slot) = RECORDS.attached_to(reader).find_free(thread.place.get())?;
        thread.place.set(place);
        thread.slot.set(ptr::from_ref(slot));
        Some(slot)
    });
    compiler_fence(SeqCst);
    thread.is_searching.set(false);
    found
}

/// Gives the thread a record.
fn register(thread: &Thread) -> Option<&'static Reader> {
    if thread.has_ended.get() || AtThreadExit::is_over() || !register_for_fork(&FORK) {
        return None;
    }
    // The light fence of `Slot::release` is one from now on.
    crate::fence::register_thread();
    // Only `exit` releases it.
    #[cfg(stillpoint_portable)]
    if let Some(reader) = armed_reader(AT_EXIT.armed()) {
        thread.reader.set(Some(reader));
        return Some(reader);
    }
    let reader = RECORDS.claim().ok()?;
    #[cfg(stillpoint_portable)]
    reader.set_owner(Owner {
        thread: crate::sys::thread::tid().unsigned_abs(),
        site: core::panic::Location::caller(),
    });
    // SAFETY: `exit` wants a reader.
    if !unsafe { AT_EXIT.arm(ptr::from_ref(reader).cast_mut().cast()) } {
        RECORDS.release(reader);
        return None;
    }
    thread.place.set(Place::FIRST);
    thread.reader.set(Some(reader));
    Some(reader)
}

/// The destructor of a thread with a record. Guards that the thread has loaded may outlive it: their slots stay in use.
///
/// # Safety
///
/// `reader` comes from [`register`].
unsafe extern "C" fn exit(reader: *mut c_void) {
    with_thread(|thread| {
        // In the child of a fork, glibc may give a new thread what was armed for one that is gone.
        let own = thread.reader.get();
        #[cfg(stillpoint_portable)]
        let own = own.or_else(|| armed_reader(reader));
        let Some(own) = own.filter(|own| ptr::eq(*own, reader.cast())) else { return };
        thread.has_ended.set(true);
        thread.slot.set(&raw const SENTINEL);
        thread.reader.set(None);
        compiler_fence(SeqCst);
        RECORDS.release(own);
    });
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
    scan::pay_guards(&RECORDS, PAYING.get(), address, increment)
}

static FORK: ForkHook = ForkHook::in_child(5, in_child);

init_array!(register_for_fork(&FORK));

/// Slots of threads that the child does not have stay in use: the forking thread may have their guards.
///
/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    RECORDS.reset_in_child(with_thread(|thread| thread.reader.get()));
    (0..RECORDS.len()).flat_map(|index| RECORDS.attached(index).slots()).for_each(Slot::reset_in_child);
    // SAFETY: the only thread, which is not paying: user code does not run there.
    unsafe { PAYING.overwrite(Mutex::new(())) };
}
