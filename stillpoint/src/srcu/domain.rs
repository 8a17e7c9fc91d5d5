//! Domains as values: handles, and the state that they share.
//!
//! | count | of | when it drops to zero |
//! |---|---|---|
//! | `handles` | [`Domain`]s of the program, including those in pointers, cookies, retired values and owned guards | no section can be open: see [`SrcuReaders::close`] |
//! | `internal_refs` | tasks of the library, and one for all handles | the memory is freed |
//!
//! Guards borrow a handle and are not counted. So without handles no thread can read or defer, and deferred callbacks
//! run at once: in a worker, or, if none can be started, in the thread that drops the last handle. (In a stall hook they
//! are leaked then: the thread may be the leader whose grace period they wait for.)

use core::alloc::Layout;
use core::convert::Infallible;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use super::fork;
use super::guard::{Guard, Section};
use super::handle_counts::HandleCounts;
use super::state::SrcuState;
use crate::EnterSection;
#[cfg(feature = "capi")]
use crate::readers::srcu::Idx;
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{Core, RawDomain, parked_at, try_synchronize};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::queue::Queue;
#[cfg(feature = "statistics-page")]
use crate::reclaim::sample::DomainSample;
use crate::reclaim::{lazy_timer, worker_pool};
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
pub struct Domain {
    /// Null before the first use.
    inner: AtomicPtr<Inner>,
    site: &'static Location<'static>,
    /// Keeps what hazard pointers protect, in a domain that has them.
    keep: Option<fn(Callback)>,
}

/// The state that all handles of a domain point to.
#[derive(Debug)]
#[repr(C)]
struct Inner {
    /// First, so that it has the address of `Inner`: see [`check_section`](crate::Domain::check_section).
    shared: SrcuState,
    counts: HandleCounts,
    /// The memory of this value.
    memory: Memory,
}

impl Domain {
    /// Creates a domain. Does not allocate; the first use does.
    #[track_caller]
    pub const fn new() -> Self {
        Self::with(None)
    }

    /// A domain with hazard pointers: `keep` gets what they protect, and has another such domain keep it.
    #[track_caller]
    pub(crate) const fn with_hazard_pointers(keep: fn(Callback)) -> Self {
        Self::with(Some(keep))
    }

    #[track_caller]
    const fn with(keep: Option<fn(Callback)>) -> Self {
        Self { inner: AtomicPtr::new(ptr::null_mut()), site: Location::caller(), keep }
    }

    /// Begins a read-side critical section, which ends when the guard is dropped, in any thread.
    ///
    /// Takes a few nanoseconds and never blocks, except for the first use of the domain, which allocates: see
    /// [`prepare`](Self::prepare). A global allocator may call this, from its first call on.
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[inline]
    #[track_caller]
    pub fn enter(&self) -> Guard<'_> {
        Guard::enter(self.shared())
    }

    /// Blocks until every section that is open now has ended: see [`Domain::synchronize`](crate::Domain::synchronize).
    ///
    /// Async code awaits a [`GracePeriod`](crate::rcu::GracePeriod) instead.
    ///
    /// **Inside a section of the same domain this never returns.** Guards are not tied to a thread, so this deadlock
    /// cannot be detected; the [stall report](crate::rcu::set_stall_hook) shows it.
    ///
    /// # Panics
    ///
    /// In a stall hook, and if there is no memory for the first use.
    #[track_caller]
    pub fn synchronize(&self) {
        crate::Domain::synchronize(self);
    }

    /// Allocates now, instead of at the first use: for sections in signal handlers.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    pub fn prepare(&self) {
        self.inner();
    }

    /// [`enter`](Self::enter) for interfaces to other languages: returns the number that
    /// [`exit_raw`](Self::exit_raw) takes.
    #[cfg(feature = "capi")]
    #[doc(hidden)]
    #[inline]
    #[track_caller]
    pub fn enter_raw(&self) -> u64 {
        self.inner().shared.readers().read_lock() as u64
    }

    /// Ends a section, in any thread.
    ///
    /// # Safety
    ///
    /// `enter_raw` of this domain returned `section`, which has not been ended.
    #[cfg(feature = "capi")]
    #[doc(hidden)]
    #[inline]
    pub unsafe fn exit_raw(&self, section: u64) {
        self.inner().shared.readers().read_unlock(Idx::of(section));
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn shared(&self) -> &SrcuState {
        &self.inner().shared
    }

    pub(super) fn counts(&self) -> &HandleCounts {
        &self.inner().counts
    }

    #[inline(always)]
    #[track_caller]
    fn inner(&self) -> &Inner {
        // Acquire: the state is initialized; pairs with the Release in `make_slow`.
        let inner = self.inner.load(Acquire);
        // SAFETY: not freed while there is a handle.
        if let Some(inner) = unsafe { inner.as_ref() } { inner } else { self.make_slow() }
    }

    /// Keeps the domain for a task of the library, which makes no handle and begins no section once the last handle is
    /// gone.
    pub(crate) fn worker_ref(&self) -> WorkerRef {
        self.counts().add_internal_ref();
        WorkerRef(ManuallyDrop::new(self.alias()))
    }

    /// Returns what each domain does now.
    #[cfg(feature = "statistics-page")]
    pub(crate) fn samples() -> impl Iterator<Item = DomainSample> {
        let mut count = 0;
        fork::for_each(|_| count += 1);
        // Those that are made now are found next time.
        let mut domains = Vec::with_capacity(count);
        fork::for_each(|shared| {
            let inner = shared.cast::<Inner>().cast_mut();
            // SAFETY: the state is the first field of `Inner`, by whose pointer it was listed, and is not freed before
            // this closure returns, nor later if the reference has been counted.
            if domains.len() < domains.capacity() && unsafe { (*inner).counts.try_add_internal_ref() } {
                // SAFETY: as above.
                let site = unsafe { (*inner).shared.readers().site() };
                let domain = Self { inner: AtomicPtr::new(inner), site, keep: None };
                domains.push(WorkerRef(ManuallyDrop::new(domain)));
            }
        });
        domains.into_iter().map(|domain| DomainSample::of(&*domain))
    }

    /// Returns a handle that the caller has counted.
    fn alias(&self) -> Self {
        // Relaxed: `inner` has been called. Not a pointer that is derived from a reference, as `free` could not use
        // that.
        Self { inner: AtomicPtr::new(self.inner.load(Relaxed)), site: self.site, keep: self.keep }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn make_slow(&self) -> &Inner {
        let readers = SrcuReaders::new(self.site, self.keep.is_some());
        // A global allocator that enters recurses from either allocation, and then wins the race below. `prepare`
        // chooses the backend of the fence.
        let memory = if readers.prepare() { Memory::zeroed(Layout::new::<Inner>()) } else { None };
        let Some(memory) = memory else {
            panic!("no memory for the srcu::Domain that was made at {}", self.site)
        };
        let fresh = memory.start::<Inner>();
        // SAFETY: the block belongs to this thread and has this layout.
        let ours = unsafe {
            fresh.write(Inner {
                shared: SrcuState::new(readers, self.keep),
                counts: HandleCounts::new(),
                memory,
            });
            fresh.as_ref()
        };
        // Before other threads see it: a fork must find it.
        // SAFETY: `free` unlists it. Not a pointer that is derived from a reference, as in `alias`.
        unsafe { fork::enlist(&raw const (*fresh.as_ptr()).shared) };
        // Release: publishes the state; pairs with the Acquire in `inner`. Acquire: the state of a faster thread.
        match self.inner.compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
            Ok(_) => ours,
            Err(faster) => {
                // SAFETY: the reference of all handles, of which there will be none.
                unsafe { release(fresh.as_ptr()) };
                // SAFETY: as in `inner`.
                unsafe { &*faster }
            }
        }
    }
}

/// # Safety
///
/// `inner` is the pointer from `make_slow`, which the caller does not use again.
#[cold]
unsafe fn free(inner: *mut Inner) {
    // SAFETY: the caller's contract.
    unsafe {
        fork::unlist(&(*inner).shared);
        let memory = ptr::read(&raw const (*inner).memory);
        inner.drop_in_place();
        memory.free();
    }
}

/// Drops an internal reference.
///
/// # Safety
///
/// As for [`free`], and the reference was counted in `internal_refs`.
unsafe fn release(inner: *mut Inner) {
    // SAFETY: the caller's reference still keeps it, unless it was the last.
    unsafe {
        if (*inner).counts.drop_internal_ref() {
            free(inner);
        }
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
        self.counts().add_handle();
        self.alias()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let inner = *self.inner.get_mut();
        // SAFETY: this handle keeps it.
        let Some(Inner { shared, counts, .. }) = (unsafe { inner.as_ref() }) else { return };
        if counts.drop_handle() {
            shared.readers().close();
            shared.core.callbacks.close(&*self);
            counts.notify_no_handles();
            // SAFETY: this was the last handle, and all handles have one internal reference.
            unsafe { release(inner) };
        }
    }
}

impl PartialEq for Domain {
    fn eq(&self, other: &Self) -> bool {
        // Relaxed, both: only the addresses matter. A clone shows that its original has been used.
        let [inner, others] = [self, other].map(|domain| domain.inner.load(Relaxed));
        if inner.is_null() { ptr::eq(self, other) } else { inner == others }
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

/// A task's handle, counted in `internal_refs` only.
#[derive(Debug)]
pub(crate) struct WorkerRef(ManuallyDrop<Domain>);

impl Deref for WorkerRef {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.0
    }
}

impl Drop for WorkerRef {
    fn drop(&mut self) {
        // SAFETY: counted in `internal_refs` by `worker_ref`.
        unsafe { release(*self.0.inner.get_mut()) };
    }
}

// A section that passes `check_section` is one of this domain, and it is open while it is borrowed; see `readers::srcu`.
impl crate::Domain for Domain {
    type Section = Section;

    fn with_section<T>(&self, f: impl FnOnce(Option<&Section>) -> T) -> T {
        f(Some(&self.enter()))
    }

    #[inline(always)]
    #[track_caller]
    fn check_section(&self, section: &Section) {
        // Relaxed: only the address matters.
        if !section.is_of(self.inner.load(Relaxed).cast()) {
            refuse();
        }
    }

    fn flush(&self) -> bool {
        let SrcuState { core, queues, .. } = self.shared();
        queues.flush().into_iter().for_each(|reported| core.callbacks.count(reported));
        _ = try_synchronize(self);
        // One notification is enough: all queues are urgent by now, and the worker looks at all of them.
        queues.iter().any(|queue| core.callbacks.notify_if_pending(queue, self))
    }
}

// SAFETY: there are no hazard pointers.
unsafe impl crate::TakeBack for Domain {}

impl EnterSection for Domain {
    type Guard<'a> = Guard<'a>;

    #[inline(always)]
    #[track_caller]
    fn enter_section(&self) -> Guard<'_> {
        self.enter()
    }
}

impl RawDomain for Domain {
    type Readers = SrcuReaders;

    /// Guards are not tied to a thread.
    const MAY_BE_INSIDE: bool = true;

    #[inline(always)]
    fn core(&self) -> &Core<SrcuReaders> {
        &self.shared().core
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.shared().queues.iter()
    }

    #[inline(always)]
    fn hazards(&self) -> Option<&Hazards> {
        self.shared().hazards.as_ref()
    }

    fn made_at(&self) -> Option<&'static Location<'static>> {
        Some(self.site)
    }

    fn current_reader(&self) -> Option<&'static Infallible> {
        None
    }

    fn in_read_section(&self) -> bool {
        false
    }

    fn register_for_fork(&self) {
        self.inner();
    }

    fn defer(&self, callback: Callback, lazy: bool) {
        let shared = self.shared();
        let (queue, reported) = shared.queues.push(callback, lazy);
        shared.core.callbacks.notify(lazy, self);
        if let Some(reported) = reported {
            shared.core.callbacks.count_pushed(reported, queue, self);
        }
    }

    fn submit(&self, task: fn(&Self)) -> bool {
        let domain = self.worker_ref();
        worker_pool::submit(move || task(&domain))
    }

    fn park(&self, due: u64, task: fn(&Self)) -> bool {
        let domain = self.worker_ref();
        lazy_timer::park(parked_at(self, due), move || task(&domain))
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn refuse() -> ! {
    panic!("the guard is one of another srcu::Domain than the pointer: it does not keep the value")
}
