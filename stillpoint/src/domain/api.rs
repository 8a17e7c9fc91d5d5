//! The public trait of all domains.

use core::borrow::Borrow;
use core::future::Future;
use core::panic::Location;

use super::defer::{defer, known_of_captures, retire};
use super::futures::{self, Barrier, BelowLimit};
use super::options::DeferOptions;
use super::stats::Stats;
use crate::grace_period::stall;
use crate::pointer::shared::Shared;
use crate::pointer::thin::ThinPtr;
use crate::reclaim::backlog::Limits;
use crate::reclaim::callback::{Callback, is_any_running};
use crate::reclaim::domain::{RawDomain, assert_may_wait, reader_outside, try_synchronize_patiently};

/// A domain: readers, and the grace periods that wait for them and for no others.
///
/// Implemented by [`rcu::Global`](crate::rcu::Global), [`qsbr::Global`](crate::qsbr::Global), the types made by
/// [`rcu::domain!`](crate::domain) and [`qsbr::domain!`](crate::qsbr_domain), and
/// [`srcu::Domain`](crate::srcu::Domain). Other types cannot implement it.
///
/// ```
/// use stillpoint::rcu::{self, Rcu};
/// use stillpoint::{Domain, qsbr, srcu};
///
/// fn publish<D: Domain>(value: &Rcu<u32, D>, new: u32) {
///     drop(value.replace(new));
/// }
///
/// fn read<D: Domain>(value: &Rcu<u32, D>, section: &D::Section) -> u32 {
///     *value.load(section)
/// }
///
/// let value = Rcu::new(1);
/// publish(&value, 2);
/// assert_eq!(read(&value, &rcu::enter()), 2);
///
/// let value = Rcu::new_in(1, qsbr::Global);
/// publish(&value, 2);
/// assert_eq!(read(&value, &qsbr::register()), 2);
///
/// let domain = srcu::Domain::new();
/// let value = Rcu::new_in(1, domain.clone());
/// publish(&value, 2);
/// assert_eq!(read(&value, &domain.enter()), 2);
///
/// domain.call(|| println!("no reader sees the 1 any more"));
/// domain.barrier();
/// ```
#[expect(private_bounds, reason = "what the library does with a domain is not for programs")]
pub trait Domain: Clone + Send + Sync + Unpin + RawDomain + 'static {
    /// What lends references ([`Rcu::load`](crate::rcu::Rcu::load)): while it is borrowed, no grace period ends that
    /// began after the borrow. A [`Guard`](crate::rcu::Guard), a [`Handle`](crate::qsbr::Handle), or a
    /// [`Section`](crate::srcu::Section), to which a reference to a [guard](crate::srcu::Guard) coerces.
    type Section;

    /// [`HazardPointer`](crate::hazard::HazardPointer) in a domain with [hazard pointers](crate::hazard), which may
    /// protect a value after its grace period. `()` in all others: there a retired value can be taken back
    /// ([`Retired::wait`](crate::rcu::Retired::wait)).
    type Hazards;

    /// Calls `f` inside a section, if one can be begun here.
    #[doc(hidden)]
    fn with_section<T>(&self, f: impl FnOnce(Option<&Self::Section>) -> T) -> T;

    /// Blocks until a grace period has elapsed: what was unpublished before the call has no readers.
    ///
    /// Concurrent callers share grace periods. Deferred callbacks are not waited for. A
    /// [`GracePeriod`](crate::rcu::GracePeriod) that was taken before the call may need another one.
    ///
    /// # Panics
    ///
    /// Inside a read-side critical section of the domain, where it would wait for itself, and in a stall hook. Inside
    /// a section of an [`srcu::Domain`](crate::srcu::Domain) it waits for itself, since guards are not tied to a
    /// thread: it never returns, and the [stall report](crate::rcu::set_stall_hook) shows that.
    #[doc(alias = "synchronize_rcu")]
    #[track_caller]
    fn synchronize(&self) {
        let own = reader_outside(self, "synchronize()");
        self.engine().synchronize(own);
    }

    /// Completes a grace period now if that needs no reader to leave. Returns `true` if one has elapsed, as after
    /// [`synchronize`](Self::synchronize): what was unpublished before the call has no readers.
    ///
    /// Returns `false`, and waits for nothing, if a reader is inside a section that began before, and inside a
    /// section of the calling thread. May return `false` too if another thread leads a grace period and is kept from
    /// its CPU for 50 ms, in a stall hook, and if the kernel denies the fence.
    ///
    /// For data structures that keep what they have removed, and look now and then whether it may be freed:
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{self, Global};
    ///
    /// let mut removed = vec![String::from("an entry")];
    ///
    /// let guard = rcu::enter();
    /// assert!(!Global.try_synchronize(), "it would wait for this thread");
    /// drop(guard);
    ///
    /// if Global.try_synchronize() {
    ///     // All of them were removed before the call.
    ///     removed.clear();
    /// }
    /// ```
    ///
    /// A [`GracePeriod`](crate::rcu::GracePeriod) that was taken before the call may need another one.
    fn try_synchronize(&self) -> bool {
        if self.in_read_section() || stall::is_reporting() {
            return false;
        }
        self.register_for_fork();
        try_synchronize_patiently(self)
    }

    /// Calls `f` in a worker thread after a grace period: see [`rcu::call`](crate::rcu::call).
    #[doc(alias("call_rcu", "defer"))]
    #[track_caller]
    fn call(&self, f: impl FnOnce() + Send + 'static) {
        self.call_with(f, DeferOptions::new());
    }

    /// [`call`](Self::call) with [`DeferOptions`].
    #[track_caller]
    fn call_with<F: FnOnce() + Send + 'static>(&self, f: F, options: DeferOptions) {
        let heap = options.heap(known_of_captures::<F>);
        defer(self, Callback::call(f, heap), options);
    }

    /// Drops `value` after a grace period: see [`rcu::retire`](crate::rcu::retire).
    #[doc(alias("kfree_rcu", "defer_destroy"))]
    #[inline]
    #[track_caller]
    fn retire<T: Send + 'static>(&self, value: Box<T>) {
        self.retire_with(value, DeferOptions::new());
    }

    /// [`retire`](Self::retire) with [`DeferOptions`].
    #[inline]
    #[track_caller]
    fn retire_with<T: Send + 'static>(&self, value: Box<T>, options: DeferOptions) {
        // SAFETY: the pointer comes from the box, which the caller has given up.
        unsafe { retire(self, ThinPtr::new(value), options) };
    }

    /// Drops the node of an [`Atomic`](crate::rcu::Atomic) after a grace period, as [`retire`](Self::retire) does a
    /// value. Does nothing if `node` is null.
    ///
    /// For data structures that unlink their own nodes.
    ///
    /// # Safety
    ///
    /// From now on, only sections *of this domain* that are open now load or use the node, and, in a domain with
    /// [hazard pointers](crate::hazard), those that protect it by now. It is not freed otherwise. No thread has a
    /// mutable reference to its value during this call, which looks at what it [owns](crate::rcu::known_heap_bytes).
    ///
    /// So the node is unlinked and never linked again, and no `Atomic` of another domain leads to it. A structure
    /// that gives `Shared`s or `Atomic`s to its callers cannot promise that, since they may store them; references
    /// are safe.
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{self, Atomic, DeferOptions, Owned, Shared};
    ///
    /// let current: Atomic<[u8; 3]> = Atomic::new(Owned::new([1, 2, 3]));
    /// let guard = rcu::enter();
    /// let old = current.swap(Shared::null(), &guard);
    /// // SAFETY: no other pointer led to the node.
    /// unsafe { rcu::Global.retire_shared(old, DeferOptions::new()) };
    /// assert_eq!(old.as_ref(), Some(&[1, 2, 3])); // until the guard is dropped
    /// ```
    #[inline]
    #[track_caller]
    unsafe fn retire_shared<T: Send + 'static>(&self, node: Shared<'_, T>, options: DeferOptions) {
        if let Some(node) = node.node() {
            // SAFETY: the caller's contract; nodes come from boxes.
            unsafe { retire(self, ThinPtr::<T>::from_word(node.cast()), options) };
        }
    }

    /// Panics if `section` is one of another [`srcu::Domain`](crate::srcu::Domain). (Sections of other domains have
    /// other types.)
    ///
    /// For data structures that take a section from their caller and load from an [`Atomic`](crate::rcu::Atomic) in
    /// it.
    ///
    /// ```
    /// use stillpoint::{Domain as _, srcu::Domain};
    ///
    /// let (here, there) = (Domain::new(), Domain::new());
    /// here.check_section(&here.enter());
    /// assert!(std::panic::catch_unwind(|| here.check_section(&there.enter())).is_err());
    /// ```
    #[track_caller]
    fn check_section(&self, section: &Self::Section);

    /// Calls `drop_fn` with `pointer` after a grace period: for values that are not in a `Box`.
    ///
    /// Allocates nothing for it. `bytes` is the memory that the call frees, which counts towards the [`Limits`].
    ///
    /// # Safety
    ///
    /// Any thread may call `drop_fn` with `pointer` once, however late, when the sections that are open now have
    /// ended.
    ///
    /// ```
    /// use std::alloc::{Layout, alloc, dealloc};
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{DeferOptions, Global};
    ///
    /// const PAGE: Layout = Layout::new::<[u8; 4096]>();
    ///
    /// /// # Safety
    /// ///
    /// /// `page` was allocated with the layout `PAGE`, and is not used again.
    /// unsafe fn free(page: *mut ()) {
    ///     // SAFETY: the caller's contract.
    ///     unsafe { dealloc(page.cast(), PAGE) };
    /// }
    ///
    /// // SAFETY: the layout has a size.
    /// let page = unsafe { alloc(PAGE) };
    /// // SAFETY: no other thread finds the page.
    /// unsafe { Global.retire_raw_with(page.cast(), PAGE.size(), free, DeferOptions::new()) };
    /// ```
    #[inline]
    #[track_caller]
    unsafe fn retire_raw_with(
        &self,
        pointer: *mut (),
        bytes: usize,
        drop_fn: unsafe fn(*mut ()),
        options: DeferOptions,
    ) {
        let heap = options.heap(|| Some(0));
        // SAFETY: the caller's contract; callbacks run after a grace period.
        let callback = unsafe { Callback::drop_raw(pointer, bytes, heap, drop_fn, options.local) };
        defer(self, callback, options);
    }

    /// Runs or hands over what the calling thread has deferred. Returns `true` if any of it is left.
    ///
    /// Runs what is ready and [may run on this thread](DeferOptions::run_on_retiring_thread). Outside sections it
    /// tries to complete a grace period for that first, and gives up if a reader blocks it. The worker runs the rest.
    /// Never blocks, except in destructors that it runs.
    ///
    /// What is deferred in an [`srcu::Domain`](crate::srcu::Domain) belongs to no thread: all of it is handed to the
    /// worker, and the result says whether any is left.
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::Global;
    ///
    /// Global.retire(Box::new([0_u8; 1 << 16]));
    /// while Global.flush() {
    ///     std::thread::yield_now();
    /// }
    /// ```
    fn flush(&self) -> bool;

    /// Does what the worker does, in the calling thread, for a moment: tries a grace period once, without sleeping,
    /// and runs callbacks until the kernel's clock ticks, which is a few milliseconds at most, or one that takes
    /// longer. Returns `true` if callbacks are left.
    ///
    /// For programs that give the library no threads ([`rcu::start_no_threads`](crate::rcu::start_no_threads)), as
    /// language runtimes and plugins: call it now and then, say at safepoints, or when the event loop is idle, where
    /// destructors may run. It runs what any thread has deferred. While another thread is the worker, it does
    /// nothing. What is left then gets a worker, if threads may be started. If nothing is deferred, it takes a load
    /// for each thread.
    ///
    /// # Panics
    ///
    /// As [`synchronize`](Self::synchronize), and inside callbacks. Inside a section of another domain it does not
    /// panic, nor wait; callbacks that it runs are then inside that section too. Inside a section of an
    /// [`srcu::Domain`](crate::srcu::Domain) the grace period does not end.
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{self, Global};
    ///
    /// rcu::start_no_threads();
    ///
    /// Global.call(|| println!("no reader is left"));
    /// while Global.poll() {
    ///     // A reader is still inside: do something else.
    /// }
    /// assert_eq!(rcu::stats().done, 1);
    /// ```
    #[track_caller]
    fn poll(&self) -> bool {
        assert_may_wait(self, "poll()");
        assert!(!is_any_running(), "poll() inside a callback would run callbacks inside it");
        self.register_for_fork();
        self.work().callbacks.poll(self)
    }

    /// Blocks until all callbacks that were deferred before have run: see [`rcu::barrier`](crate::rcu::barrier).
    ///
    /// # Panics
    ///
    /// As [`synchronize`](Self::synchronize), and inside a callback of the same domain.
    #[doc(alias = "rcu_barrier")]
    #[track_caller]
    fn barrier(&self) {
        futures::barrier(self);
    }

    /// Returns a future that waits until all callbacks have run that were deferred before its first poll.
    ///
    /// For any executor. No thread blocks: a thread of the library calls the waker. (If none can be started, polling
    /// blocks as [`barrier`](Self::barrier) does, and a waker that blocks delays callbacks.)
    ///
    /// # Panics
    ///
    /// Polling panics where [`barrier`](Self::barrier) does.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use stillpoint::{Domain as _, rcu};
    ///
    /// static CALLED: AtomicBool = AtomicBool::new(false);
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// rcu::call(|| CALLED.store(true, Relaxed));
    /// rcu::Global.barrier_async().await;
    /// assert!(CALLED.load(Relaxed));
    /// # });
    /// ```
    #[track_caller]
    fn barrier_async(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static {
        Barrier::new(self.clone(), Location::caller())
    }

    /// Sets the limits of the backlog, from now on: see [`Limits`].
    ///
    /// | above a limit, a change | [`Limits::blocks`] | before the change |
    /// |---|---|---|
    /// | blocks its thread | `true`, the default | |
    /// | waits as a task | `false` | `domain.below_limit().await` |
    /// | fails, and the caller keeps the value | `false` | `if !domain.is_below_limit() { return Err(value) }` |
    /// | goes on, and is counted | `false` | |
    ///
    /// So all changes of all types can wait or fail: `replace`, `retire`, `store`, and those of the maps.
    ///
    /// Where calls block, these are [`call`](Self::call) and [`retire`](Self::retire), and so does dropping a
    /// [`Retired`](crate::rcu::Retired). Inside a section of [`rcu`](crate::rcu) these calls
    /// do not block; dropping the outermost guard does ([`Guard::repin`](crate::rcu::Guard::repin) too). A thread
    /// that exits blocks too. Calls made in callbacks, and in wakers that the library calls, never block.
    ///
    /// A blocked call returns after ten seconds at most, since the callbacks that it waits for may need a lock that
    /// the caller holds ([`Stats::limit_overruns`]). Until a callback has run, later calls are paced: the backlog
    /// grows by a mebibyte a second, or by one call of each thread in ten seconds, if that is more. Inside a section
    /// of *another* domain, and in [`srcu`](crate::srcu), where the caller may be inside a section, calls are paced
    /// from the beginning.
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{Global, Limits};
    ///
    /// Global.set_limits(Limits { bytes: 16 << 20, ..Limits::default() });
    /// ```
    fn set_limits(&self, limits: Limits) {
        self.work().callbacks.set_limits(limits);
    }

    /// Returns `true` if the backlog is below its [limits](Self::set_limits). Takes a few loads, and may be called
    /// anywhere.
    ///
    /// For callers that would rather fail than wait:
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{Global, Limits, Rcu};
    ///
    /// fn try_replace(page: &Rcu<Vec<u8>>, new: Vec<u8>) -> Result<(), Vec<u8>> {
    ///     if !Global.is_below_limit() {
    ///         return Err(new);
    ///     }
    ///     drop(page.replace(new));
    ///     Ok(())
    /// }
    ///
    /// Global.set_limits(Limits { blocks: false, ..Limits::default() });
    /// assert!(try_replace(&Rcu::new(vec![1]), vec![2]).is_ok());
    /// ```
    fn is_below_limit(&self) -> bool {
        self.seen_work().callbacks.is_below_limit(self)
    }

    /// Returns a future that is ready while the backlog is below its [limits](Self::set_limits), to await before a
    /// change.
    ///
    /// For any executor. No thread blocks. The future may be dropped at any time, as by a timeout. Of the futures
    /// that wait, those go on first that have waited longest; they reserve nothing, so each may exceed the limit by
    /// one value.
    ///
    /// It is ready above the limit, too, if the backlog cannot shrink: when no thread can be started, and while the
    /// kernel denies the fence. That is counted ([`Stats::limit_overruns`]).
    ///
    /// # Panics
    ///
    /// Polling panics where [`barrier`](Self::barrier) does.
    ///
    /// ```
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::{Limits, Rcu};
    /// use stillpoint::srcu;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let domain = srcu::Domain::new();
    /// domain.set_limits(Limits { bytes: 1 << 20, blocks: false, ..Limits::default() });
    ///
    /// let page = Rcu::new_in(vec![0_u8; 4096], domain.clone());
    /// for n in 0..1000 {
    ///     domain.below_limit().await; // other tasks run while more than a mebibyte waits
    ///     drop(page.replace(vec![n as u8; 4096]));
    /// }
    /// # });
    /// ```
    #[track_caller]
    fn below_limit(&self) -> impl Future<Output = ()> + Send + Sync + Unpin + 'static {
        BelowLimit::new(self.clone(), Location::caller())
    }

    /// Returns the domain's counters since its first use.
    fn stats(&self) -> Stats {
        Stats::of(self)
    }
}

/// A [`Domain`] in which any thread can begin a read-side critical section on the spot: every domain of
/// [`rcu`](crate::rcu) and [`srcu`](crate::srcu).
///
/// A thread of a [`qsbr`](crate::qsbr) domain reads through its handle instead.
///
/// ```
/// use stillpoint::rcu::{self, Rcu};
/// use stillpoint::{EnterSection, srcu};
///
/// fn increment<D: EnterSection>(value: &Rcu<u32, D>) -> u32 {
///     drop(value.update(|old| old + 1));
///     *value.read()
/// }
///
/// assert_eq!(increment(&Rcu::new(1)), 2);
/// assert_eq!(increment(&Rcu::new_in(1, srcu::Domain::new())), 2);
/// ```
///
/// # Safety
///
/// The section that a guard lends is open while the guard exists, also if it is moved.
#[diagnostic::on_unimplemented(
    message = "a section of `{Self}` cannot be begun on the spot",
    label = "this needs a domain of `rcu` or `srcu`",
    note = "threads of a `qsbr` domain have a handle: use `load(&handle)`, `update_with(&handle, f)`"
)]
pub unsafe trait EnterSection: Domain {
    /// What ends the section when it is dropped. Borrowed, it is the [`Section`](Domain::Section) that lends
    /// references.
    type Guard<'a>: Borrow<Self::Section>;

    /// Begins a read-side critical section: [`rcu::enter`](crate::rcu::enter), or
    /// [`srcu::Domain::enter`](crate::srcu::Domain::enter).
    #[track_caller]
    fn enter_section(&self) -> Self::Guard<'_>;
}
