//! Domains as values: handles, what they share, and who frees that.
//!
//! # Who keeps what
//!
//! | counted in | who | what goes when none is left |
//! |---|---|---|
//! | `handles` | [`Domain`]s of the program, also those in pointers, cookies and retired values | readers: see [`SrcuReaders::close`] |
//! | `internal_refs` | jobs of the library, and one for all handles | the memory |
//!
//! Guards count nothing: they borrow a handle. So when the last handle has gone nobody can read, nobody can defer, and what was
//! deferred is done at once, by a worker, or by the thread that drops the handle if no worker can be had.

use core::alloc::Layout;
use core::convert::Infallible;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::Location;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::*};

use super::counts::Counts;
use super::fork;
use super::guard::{Guard, Section};
use super::shared::Shared;
use crate::domain::deferred;
use crate::domain::raw::{Core, RawDomain};
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::callback::Callback;
use crate::reclaim::queue::Queue;
use crate::sync::Block;

/// A domain: its sections, and the grace periods that wait for them and for nobody else.
///
/// A value, to be put into a `static` or into whatever it protects. A clone is another handle of the same domain; the domain
/// lasts as long as a handle, or something that was deferred. See [the module](super) for what sections may do.
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
/// A guard of another domain is refused:
///
/// ```should_panic
/// use stillpoint::rcu::Rcu;
/// use stillpoint::srcu::Domain;
///
/// let limit = Rcu::new_in(10, Domain::new());
/// let other = Domain::new();
/// limit.load(&other.enter());
/// ```
pub struct Domain {
    /// Null before the first use.
    inner: AtomicPtr<Inner>,
    site: &'static Location<'static>,
}

/// What a handle points to.
#[derive(Debug)]
#[repr(C)]
struct Inner {
    /// First, so that its address is that of the whole: see [`RawDomain::check`].
    shared: Shared,
    counts: Counts,
    /// A handle that is not counted, for the library's tasks.
    here: ManuallyDrop<Domain>,
    /// What this is in.
    memory: Block,
}

impl Domain {
    /// A domain of its own. Allocates nothing: that is for its first use.
    #[track_caller]
    pub const fn new() -> Self {
        Self { inner: AtomicPtr::new(ptr::null_mut()), site: Location::caller() }
    }

    /// Begins a section, which lasts until the guard is dropped, by any thread.
    ///
    /// Costs a few nanoseconds. Never waits, but for the first use of the domain, which allocates: see
    /// [`prepare`](Self::prepare). A global allocator may call this, from its first call on.
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[inline]
    #[track_caller]
    pub fn enter(&self) -> Guard<'_> {
        Guard::enter(&self.inner().shared)
    }

    /// Waits until every section that is open now has ended, in whatever thread or task.
    ///
    /// Concurrent callers share grace periods. Deferred work is not waited for. Blocks the thread: async code awaits a
    /// [`GracePeriod`](crate::rcu::GracePeriod) instead.
    ///
    /// **Inside a section of the same domain it waits for itself, for ever.** Guards are not tied to a thread, so this deadlock
    /// cannot be detected; the [stall report](crate::rcu::set_stall_hook) shows it.
    ///
    /// # Panics
    ///
    /// In a stall hook; and if there is no memory for the first use.
    #[track_caller]
    pub fn synchronize(&self) {
        crate::Domain::synchronize(self);
    }

    /// Allocates memory now, so that the first section need not: for sections in signal handlers.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn prepare(&self) {
        self.inner();
    }

    #[inline(always)]
    #[track_caller]
    fn inner(&self) -> &Inner {
        // Acquire: it is complete; partner: the Release in `make_slow`.
        let inner = self.inner.load(Acquire);
        // SAFETY: freed when the last handle has gone.
        if let Some(inner) = unsafe { inner.as_ref() } { inner } else { self.make_slow() }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn make_slow(&self) -> &Inner {
        let phases = SrcuReaders::new(self.site);
        // A global allocator that enters comes back here from either allocation, and is then faster. Chooses the backend of the
        // fence.
        let memory = if phases.prepare() { Block::zeroed(Layout::new::<Inner>()) } else { None };
        let Some(memory) = memory else {
            panic!("no memory for the srcu::Domain that was made at {}", self.site)
        };
        let fresh = memory.start::<Inner>();
        // SAFETY: the block is this thread's, and made for it.
        let ours = unsafe {
            fresh.write(Inner {
                shared: Shared::new(phases),
                counts: Counts::new(),
                here: ManuallyDrop::new(Self { inner: AtomicPtr::new(fresh.as_ptr()), site: self.site }),
                memory,
            });
            fresh.as_ref()
        };
        // Before others see it: a fork must find it.
        fork::enlist(&ours.shared);
        // Release: partner is the Acquire in `inner`. Acquire: that of whoever was faster.
        match self.inner.compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire) {
            Ok(_) => ours,
            Err(faster) => {
                // SAFETY: nobody else has seen it.
                unsafe { free(fresh) };
                // SAFETY: as in `inner`.
                unsafe { &*faster }
            }
        }
    }
}

/// # Safety
///
/// `inner` comes from `make_slow`, and nobody uses it any more.
#[cold]
unsafe fn free(inner: NonNull<Inner>) {
    // SAFETY: the caller's contract.
    unsafe {
        // The pointer of the block; the caller's may have been made of a reference.
        let whole = inner.as_ref().here.inner.load(Relaxed);
        fork::unlist(&inner.as_ref().shared);
        let memory = ptr::read(&raw const (*whole).memory);
        whole.drop_in_place();
        memory.free();
    }
}

/// One keeper less.
///
/// # Safety
///
/// The caller was counted in `internal_refs`, and does not use `inner` again.
unsafe fn release(inner: NonNull<Inner>) {
    // SAFETY: the caller keeps it still.
    if unsafe { inner.as_ref() }.counts.drop_internal_ref() {
        // SAFETY: it was the last.
        unsafe { free(inner) };
    }
}

impl Clone for Domain {
    /// Another handle of the same domain.
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[track_caller]
    fn clone(&self) -> Self {
        let inner = self.inner();
        inner.counts.add_handle();
        Self { inner: AtomicPtr::new(ptr::from_ref(inner).cast_mut()), site: self.site }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let Some(inner) = NonNull::new(*self.inner.get_mut()) else { return };
        // SAFETY: this handle keeps it until here.
        let Inner { shared, counts, here, .. } = unsafe { inner.as_ref() };
        if counts.drop_handle() {
            shared.phases().close();
            shared.core.callbacks.close(&**here);
            // SAFETY: the handles were counted as one keeper, and this was the last handle.
            unsafe { release(inner) };
        }
    }
}

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

/// What a job of the library holds on to the domain by.
#[derive(Debug)]
pub(crate) struct WorkerRef(NonNull<Inner>);

// SAFETY: the domain is shared by all threads.
unsafe impl Send for WorkerRef {}

impl Deref for WorkerRef {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        // SAFETY: counted in `internal_refs`.
        unsafe { &self.0.as_ref().here }
    }
}

impl Drop for WorkerRef {
    fn drop(&mut self) {
        // SAFETY: counted in `internal_refs` by `worker_ref`.
        unsafe { release(self.0) };
    }
}

impl crate::Domain for Domain {
    type Section = Section;
}

// SAFETY: a section that is `check`ed is one of this domain; while it is borrowed it is open, see `phases`.
unsafe impl RawDomain for Domain {
    type Readers = SrcuReaders;
    type Lender = Section;
    type WorkerRef = WorkerRef;

    /// Guards are nobody's.
    const MAY_BE_INSIDE: bool = true;
    /// The domain does not know that.
    const INSIDE: &'static str = "";

    #[inline(always)]
    fn core(&self) -> &Core<SrcuReaders> {
        &self.inner().shared.core
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.inner().shared.queues.iter()
    }

    fn made_at(&self) -> Option<&'static Location<'static>> {
        Some(self.site)
    }

    unsafe fn worker_ref(&self) -> WorkerRef {
        let inner = self.inner();
        inner.counts.add_internal_ref();
        WorkerRef(NonNull::from(inner))
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
        let shared = &self.inner().shared;
        let (queue, reported) = shared.queues.push(crate::percpu::cpu(), callback, lazy);
        shared.core.callbacks.notify(lazy, self);
        if let Some(reported) = reported {
            deferred::reduce_backlog(self, queue, reported);
        }
    }

    #[inline(always)]
    fn check(&self, section: &Section) {
        // Relaxed: the address alone matters.
        if !section.is_of(self.inner.load(Relaxed).cast()) {
            refuse();
        }
    }

    fn with_section<T>(&self, f: impl FnOnce(Option<&Section>) -> T) -> T {
        f(Some(&self.enter()))
    }
}

#[cold]
#[inline(never)]
fn refuse() -> ! {
    panic!("the guard is one of another srcu::Domain than the pointer: it does not keep the value")
}
