//! Domains as values: handles, what they share, and who frees that.
//!
//! # Who keeps what
//!
//! | counted in | who | what goes when none is left |
//! |---|---|---|
//! | `handles` | [`Domain`]s of the program, also those in pointers, cookies and retired values | readers: see [`Phases::close`] |
//! | `keepers` | jobs of the library, and one for all handles | the memory |
//!
//! Guards count nothing: they borrow a handle. So when the last handle has gone nobody can read, nobody can defer, and what was
//! deferred is done at once, by a worker, or by the thread that drops the handle if no worker can be had.

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::Location;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering::*};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::counts::Counts;
use super::fork;
use super::guard::{Guard, Section};
use super::phases::Phases;
use crate::rcu::deferred;
use crate::rcu::entry::Entry;
use crate::rcu::reader::Reader;
use crate::rcu::world::{self, AnyDomain, Core, HasReaders, Words, World};
use crate::rcu::{Hints, Limits, Stats};
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

/// What the handles of a domain share.
#[derive(Debug)]
pub(super) struct Inner {
    core: Core<Phases>,
    counts: Counts,
    /// A handle that is not counted, for the library's jobs.
    here: ManuallyDrop<Domain>,
    pub(super) fork: fork::Link,
    /// What this is in.
    memory: Block,
}

// SAFETY: the links are used under the lock of the list only; everything else is shared by threads.
unsafe impl Sync for Inner {}
// SAFETY: as above.
unsafe impl Send for Inner {}

impl Inner {
    #[inline(always)]
    pub(super) fn phases(&self) -> &Phases {
        self.core.engine.readers()
    }

    /// Makes the domain one of a process that was forked when `sections` were open.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in none of our functions, but for those that run
    /// code of the program.
    pub(super) unsafe fn reset_in_child(&self, sections: [u64; 2]) {
        // SAFETY: the caller's contract.
        unsafe {
            self.phases().reset_in_child(sections);
            self.core.reset_in_child();
        }
    }
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
        Guard::enter(self.inner())
    }

    /// Waits until every section that is open now has ended, in whatever thread or task.
    ///
    /// Callers at the same time share grace periods. Nobody waits for deferred frees here. Blocks the thread: in async code
    /// `.await` a [`GracePeriod`](crate::rcu::GracePeriod) instead.
    ///
    /// **Inside a section of the same domain it waits for itself, for ever.** Guards are nobody's, so that cannot be found
    /// out; the [stall report](crate::rcu::set_stall_hook) tells of it after a while.
    ///
    /// # Panics
    ///
    /// In a stall hook; and if there is no memory for the first use.
    #[track_caller]
    pub fn synchronize(&self) {
        world::synchronize(self);
    }

    /// Calls `f` after a grace period, in a worker thread that the library starts: as [`rcu::call`](crate::rcu::call).
    ///
    /// Inside sections too, as nobody can tell: above the [limits](Self::set_limits) the caller waits for a millisecond at
    /// most. Callbacks run in any order.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use stillpoint::srcu::Domain;
    ///
    /// let domain = Domain::new();
    /// let (sender, receiver) = channel();
    /// domain.call(move || sender.send("nobody reads it any more").unwrap());
    /// drop(domain);
    /// assert_eq!(receiver.recv(), Ok("nobody reads it any more"));
    /// ```
    #[track_caller]
    pub fn call(&self, f: impl FnOnce() + Send + 'static) {
        self.call_with(f, Hints::new());
    }

    /// [`call`](Self::call), with [`Hints`].
    #[track_caller]
    pub fn call_with(&self, f: impl FnOnce() + Send + 'static, hints: Hints) {
        deferred::call(self, f, hints);
    }

    /// Drops `value` after a grace period, in a worker thread: as [`rcu::retire`](crate::rcu::retire), but not in this thread, unless
    /// there is no memory to queue it.
    #[track_caller]
    pub fn retire<T: Send + 'static>(&self, value: Box<T>) {
        self.retire_with(value, Hints::new());
    }

    /// [`retire`](Self::retire), with [`Hints`]. `local` has no effect.
    #[track_caller]
    pub fn retire_with<T: Send + 'static>(&self, value: Box<T>, hints: Hints) {
        // SAFETY: the pointer comes from the box, which the caller has given up.
        unsafe { self.retire_raw(NonNull::from(Box::leak(value)), hints) };
    }

    /// [`retire`](Self::retire) for a value that readers still hold references to, so that it must not be a `Box`, which
    /// claims to be the only one.
    ///
    /// # Safety
    ///
    /// `value` comes from a `Box`. Nobody frees it otherwise, and nobody uses it after the sections that are open now, nor
    /// after the last handle of the domain has gone.
    #[track_caller]
    pub unsafe fn retire_raw<T: Send + 'static>(&self, value: NonNull<T>, hints: Hints) {
        // SAFETY: the caller's contract.
        unsafe { deferred::retire(self, value, hints) };
    }

    /// Waits until all callbacks have run, and all values have been dropped, that were deferred in this domain before.
    ///
    /// Inside a section of the domain it waits for itself, as [`synchronize`](Self::synchronize) does.
    ///
    /// # Panics
    ///
    /// Inside a callback of this domain, and in a stall hook; and if there is no memory for the first use. Callbacks of other
    /// domains may wait: see [`rcu::barrier`](crate::rcu::barrier).
    #[track_caller]
    pub fn barrier(&self) {
        deferred::barrier(self);
    }

    /// How much may wait to be done: see [`Limits`].
    pub fn set_limits(&self, limits: Limits) {
        self.core().callbacks.set_limits(limits);
    }

    /// Counters since the domain was first used. [`Stats::readers`] are the sections that are open.
    pub fn stats(&self) -> Stats {
        Stats::of(self)
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
        let phases = Phases::new(self.site);
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
                core: Core::new(phases, || "srcu::Domain"),
                counts: Counts::new(),
                here: ManuallyDrop::new(Self { inner: AtomicPtr::new(fresh.as_ptr()), site: self.site }),
                fork: fork::Link::new(),
                memory,
            });
            fresh.as_ref()
        };
        // Before others see it: a fork must find it.
        fork::enlist(ours);
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
        fork::unlist(inner.as_ref());
        let memory = ptr::read(&raw const (*whole).memory);
        whole.drop_in_place();
        memory.free();
    }
}

/// One keeper less.
///
/// # Safety
///
/// The caller was counted in `keepers`, and does not use `inner` again.
unsafe fn release(inner: NonNull<Inner>) {
    // SAFETY: the caller keeps it still.
    if unsafe { inner.as_ref() }.counts.release() {
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
        let shared = unsafe { inner.as_ref() };
        if shared.counts.drop_handle() {
            shared.phases().close();
            shared.core.callbacks.close(&*shared.here);
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
pub(crate) struct Kept(NonNull<Inner>);

// SAFETY: the domain is shared by all threads.
unsafe impl Send for Kept {}

impl Deref for Kept {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        // SAFETY: counted in `keepers`.
        unsafe { &self.0.as_ref().here }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: counted in `keepers` by `keep`.
        unsafe { release(self.0) };
    }
}

static WORDS: Words = Words {
    inside: "",
    inside_barrier: "",
    orphaned: "grace periods of this domain cannot be completed any more",
    ends: "",
};

/// How long a caller above the limits waits: it may be inside a section.
const PATIENCE: Duration = Duration::from_millis(1);

/// How often somebody without memory tries to have a grace period that does not sleep.
const TRIES: u32 = 100;

impl AnyDomain for Domain {
    type Section = Section;
}

impl HasReaders for Domain {
    type Readers = Phases;
}

// SAFETY: a section that is `check`ed is one of this domain; while it is borrowed it is open, see `phases`.
unsafe impl World for Domain {
    type Lender = Section;
    type Kept = Kept;

    const PATIENCE: Duration = PATIENCE;

    fn words(&self) -> &'static Words {
        &WORDS
    }

    #[inline(always)]
    fn core(&self) -> &Core<Phases> {
        &self.inner().core
    }

    fn made_at(&self) -> Option<&'static Location<'static>> {
        Some(self.site)
    }

    unsafe fn keep(&self) -> Kept {
        let inner = self.inner();
        inner.counts.keep();
        Kept(NonNull::from(inner))
    }

    fn own(&self) -> Option<&'static Reader> {
        None
    }

    fn is_reading(&self) -> bool {
        false
    }

    fn enlist(&self) {
        self.inner();
    }

    fn defer(&self, entry: Entry, lazy: bool) {
        let inner = self.inner();
        match inner.phases().lines().push(crate::percpu::cpu(), entry, lazy) {
            Ok((queue, reported)) => {
                inner.core.callbacks.notify(lazy, self);
                if let Some(reported) = reported {
                    deferred::relieve(self, queue, reported);
                }
            }
            Err(entry) => {
                let (run, data, weight) = entry.into_parts();
                deferred::without_queue(self, run, data, weight);
            }
        }
    }

    fn wait_without_memory(&self) -> bool {
        // Not as long as it takes, which would be for ever inside a section.
        let engine = &self.core().engine;
        let due = engine.ask();
        (0..TRIES).any(|_| {
            let _ = catch_unwind(AssertUnwindSafe(|| engine.try_synchronize(None)));
            engine.is_done(due)
        })
    }

    #[inline(always)]
    fn check(&self, section: &Section) {
        // Relaxed: the address alone matters.
        if !section.is_of(self.inner.load(Relaxed)) {
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
