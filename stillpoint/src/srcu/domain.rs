//! Domains as values: handles, and the state that they share.
//!
//! A [`Domain`] is a counted handle. The program has them in its variables, and in pointers, cookies, retired values
//! and owned guards; the library has one in each task that works for the domain. Guards borrow a handle and are not
//! counted.
//!
//! After the last handle no thread can read or defer, and no thread works for the domain, so its memory is freed. Its
//! callbacks have run by then: a task that is to run them has a handle until the queues are empty. Only if no thread
//! could be started are callbacks left: the thread that drops the last handle runs them. (If a guard was leaked, no
//! grace period can end. They are leaked with it, and so is the domain. A callback that owns a handle of its own
//! domain keeps that: without threads, `barrier` runs it.)

use core::alloc::Layout;
use core::fmt;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use super::fork;
use super::guard::{Guard, Section};
use super::state::SrcuState;
use crate::EnterSection;
use crate::grace_period::engine::ReaderSet as _;
use crate::readers::any::AnyEngine;
use crate::readers::sections::reader::Reader;
#[cfg(feature = "_capi")]
use crate::readers::srcu::Idx;
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{RawDomain, Work, parked_at, try_synchronize};
use crate::reclaim::pool;
use crate::reclaim::pool::state::Submitted;
use crate::reclaim::queue::Queue;
use crate::sync::Memory;

/// A domain: readers, and grace periods that wait for these readers only.
///
/// It is a value, for a `static` or for the structure that it protects. A clone is another handle of the same domain,
/// which lasts until the last handle is dropped and all deferred callbacks have run. See the [module](super) for what
/// readers may do.
///
/// ```
/// use stillpoint::rcu::Rcu;
/// use stillpoint::srcu::Domain;
///
/// let domain = Domain::new();
/// let limit = Rcu::new_in(10, domain.clone());
///
/// let guard = domain.enter();
/// assert_eq!(*limit.load(&guard), 10);
/// drop(guard);
///
/// assert_eq!(limit.replace(20).wait(), 10);
/// ```
///
/// [`Rcu::load`](crate::rcu::Rcu::load) panics if the guard is of another domain than the pointer.
///
/// Handles are equal if they are of the same domain.
#[doc(alias = "srcu_struct")]
pub struct Domain {
    /// Null before the first use.
    shared: AtomicPtr<SrcuState>,
    site: &'static Location<'static>,
}

impl Domain {
    /// Creates a domain. Does not allocate; the first use does.
    #[track_caller]
    pub const fn new() -> Self {
        Self { shared: AtomicPtr::new(ptr::null_mut()), site: Location::caller() }
    }

    /// Begins a read-side critical section, which ends when the guard is dropped, in any thread.
    ///
    /// Takes a few nanoseconds and never blocks, except for the first use of the domain, which allocates: see
    /// [`prepare`](Self::prepare). A global allocator may call this, from its first call on.
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[doc(alias = "srcu_read_lock")]
    #[inline]
    #[track_caller]
    pub fn enter(&self) -> Guard<'_> {
        Guard::enter(self.shared())
    }

    /// Allocates now, instead of at the first use: for sections in signal handlers.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    pub fn prepare(&self) {
        self.shared();
    }

    /// [`prepare`](Self::prepare), also for barriers, limits and cookies. Returns `false` if there is no memory.
    #[cfg(feature = "_capi")]
    #[doc(hidden)]
    pub fn try_prepare(&self) -> bool {
        // Acquire: as in `shared`.
        (!self.shared.load(Acquire).is_null() || self.try_make().is_some())
            && self.shared().work.make_slow(Work::new).is_some()
    }

    /// [`enter`](Self::enter) for interfaces to other languages: returns the number that
    /// [`exit_raw`](Self::exit_raw) takes.
    #[cfg(feature = "_capi")]
    #[doc(hidden)]
    #[inline]
    #[track_caller]
    pub fn enter_raw(&self) -> u64 {
        self.shared().readers().read_lock() as u64
    }

    /// Ends a section, in any thread.
    ///
    /// # Safety
    ///
    /// `enter_raw` of this domain returned `section`, which has not been ended.
    #[cfg(feature = "_capi")]
    #[doc(hidden)]
    #[inline]
    pub unsafe fn exit_raw(&self, section: u64) {
        self.shared().readers().read_unlock(Idx::of(section));
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn shared(&self) -> &SrcuState {
        // Acquire: the state is initialized; pairs with the Release in `try_make`.
        let shared = self.shared.load(Acquire);
        // SAFETY: not freed while there is a handle.
        if let Some(shared) = unsafe { shared.as_ref() } { shared } else { self.make_slow() }
    }

    /// Returns a handle of each domain in use.
    #[cfg(feature = "statistics-page")]
    pub(crate) fn used() -> Vec<Self> {
        let mut count = 0;
        fork::for_each(|_| count += 1);
        // Those that are made now are found next time.
        let mut domains = Vec::with_capacity(count);
        fork::for_each(|shared| {
            // SAFETY: not freed before this closure returns, nor later if the handle has been counted.
            if domains.len() < domains.capacity() && unsafe { (*shared).handles.try_add() } {
                // SAFETY: as above.
                let site = unsafe { (*shared).readers().site() };
                domains.push(Self { shared: AtomicPtr::new(shared.cast_mut()), site });
            }
        });
        domains
    }

    fn has_callbacks(&self) -> bool {
        (self as &dyn RawDomain).queues().any(Queue::has_pending)
    }

    /// The last handle has been dropped, and callbacks are left. Returns `true` if the domain can be freed, `false`
    /// if there are handles, or the callbacks cannot run.
    #[cold]
    fn run_left(&self) -> bool {
        let shared = self.shared();
        if shared.readers().is_any_inside() {
            return false;
        }
        // Tasks get theirs from this one.
        shared.handles.add();
        self.work().callbacks.run_left(self);
        shared.handles.drop_one() && !self.has_callbacks()
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn make_slow(&self) -> &SrcuState {
        self.try_make()
            .unwrap_or_else(|| panic!("no memory for the srcu::Domain that was made at {}", self.site))
    }

    /// Makes the state, unless another thread is faster. Returns `None` if there is no memory.
    fn try_make(&self) -> Option<&SrcuState> {
        let readers = SrcuReaders::new(self.site);
        // A global allocator that enters recurses from either allocation, and then wins the race below. `prepare`
        // chooses the backend of the fence.
        let memory = if readers.prepare() { Memory::zeroed(Layout::new::<SrcuState>()) } else { None }?;
        let fresh = memory.start::<SrcuState>();
        // SAFETY: the block belongs to this thread and has this layout.
        let ours = unsafe {
            fresh.write(SrcuState::new(readers, memory.source()));
            fresh.as_ref()
        };
        // Before other threads see it: a fork must find it.
        // SAFETY: `free` unlists it. Not a pointer that is derived from a reference, as in `clone`.
        unsafe { fork::enlist(fresh.as_ptr()) };
        // Release: publishes the state; pairs with the Acquire in `shared`. Acquire: the state of a faster thread.
        match self.shared.compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
            Ok(_) => Some(ours),
            Err(faster) => {
                // Another thread may have found it in the list.
                if ours.handles.drop_one() {
                    // SAFETY: this was the last handle.
                    unsafe { free(fresh.as_ptr()) };
                }
                // SAFETY: as in `shared`.
                Some(unsafe { &*faster })
            }
        }
    }
}

/// # Safety
///
/// `shared` is the pointer from `try_make`. There is no handle any more, and the caller does not use it again.
#[cold]
unsafe fn free(shared: *mut SrcuState) {
    // SAFETY: the caller's contract.
    unsafe {
        fork::unlist(&*shared);
        let memory = (*shared).memory;
        shared.drop_in_place();
        memory.free(shared.cast(), Layout::new::<SrcuState>());
    }
}

impl Clone for Domain {
    /// Returns another handle of the same domain.
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[track_caller]
    fn clone(&self) -> Self {
        self.shared().handles.add();
        // Relaxed: `shared` has been called. Not a pointer that is derived from a reference, as `free` could not use
        // that.
        Self { shared: AtomicPtr::new(self.shared.load(Relaxed)), site: self.site }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let shared = *self.shared.get_mut();
        // SAFETY: this handle keeps it.
        let Some(SrcuState { handles, .. }) = (unsafe { shared.as_ref() }) else { return };
        if handles.drop_one() && (!self.has_callbacks() || self.run_left()) {
            // SAFETY: there is no handle any more.
            unsafe { free(shared) };
        }
    }
}

impl PartialEq for Domain {
    fn eq(&self, other: &Self) -> bool {
        // Relaxed, both: only the addresses matter. A clone shows that its original has been used.
        let (shared, others) = (self.shared.load(Relaxed), other.shared.load(Relaxed));
        if shared.is_null() { ptr::eq(self, other) } else { shared == others }
    }
}

impl Eq for Domain {}

impl Default for Domain {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("made_at", &self.site).finish_non_exhaustive()
    }
}

// A section that passes `check_section` is one of this domain, and it is open while it is borrowed; see
// `readers::srcu`.
impl crate::Domain for Domain {
    type Section = Section;
    type Hazards = ();

    fn with_section<T>(&self, f: impl FnOnce(Option<&Section>) -> T) -> T {
        f(Some(&self.enter()))
    }

    #[inline(always)]
    #[track_caller]
    fn check_section(&self, section: &Section) {
        // Relaxed: only the address matters.
        if !section.is_of(self.shared.load(Relaxed)) {
            refuse();
        }
    }

    fn flush(&self) -> bool {
        let queues = &self.shared().queues;
        queues.report(&self.work().callbacks.backlog.reported);
        _ = try_synchronize(self);
        // One notification is enough: all queues are urgent by now, and the worker looks at all of them.
        (0..queues.count()).any(|index| self.work().callbacks.notify_if_pending(queues.get(index), self))
    }
}

// SAFETY: a guard ends its section when it is dropped.
unsafe impl EnterSection for Domain {
    type Guard<'a> = Guard<'a>;

    #[inline(always)]
    #[track_caller]
    fn enter_section(&self) -> Guard<'_> {
        self.enter()
    }
}

impl RawDomain for Domain {
    /// Guards are not tied to a thread.
    fn may_be_inside(&self) -> bool {
        true
    }

    #[inline(always)]
    fn engine(&self) -> &AnyEngine {
        &self.shared().engine
    }

    #[inline(always)]
    fn work(&self) -> &Work {
        self.shared().work.get_or_make(Work::new)
    }

    fn seen_work(&self) -> &Work {
        static NONE: Work = Work::new();
        self.shared().work.get().unwrap_or(&NONE)
    }

    fn queue_count(&self) -> usize {
        self.shared().queues.count()
    }

    fn queue(&self, index: usize) -> &Queue {
        self.shared().queues.get(index)
    }

    fn made_at(&self) -> Option<&'static Location<'static>> {
        Some(self.site)
    }

    fn current_reader(&self) -> Option<&'static Reader> {
        None
    }

    fn in_read_section(&self) -> bool {
        false
    }

    fn register_for_fork(&self) {
        self.shared();
    }

    fn defer(&self, callback: Callback) {
        let callbacks = &self.work().callbacks;
        let (queue, has_reported) = self.shared().queues.push(callback, &callbacks.backlog.reported);
        callbacks.notify(self);
        if has_reported {
            callbacks.reduce_backlog(queue, self);
        }
    }

    fn submit(&self, task: fn(&dyn RawDomain)) -> Submitted {
        let domain = self.clone();
        pool::submit(move || task(&domain))
    }

    fn park(&self, due: u64, task: fn(&dyn RawDomain)) -> bool {
        let domain = self.clone();
        pool::park(parked_at(self.engine(), due), move || task(&domain))
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn refuse() -> ! {
    panic!("the guard is one of another srcu::Domain than the pointer: it does not keep the value")
}
