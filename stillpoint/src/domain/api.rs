//! The public trait of all domains.

use core::borrow::Borrow;
use core::mem::needs_drop;
use core::ptr::NonNull;

use super::deferred;
use super::raw::{RawDomain, reader_outside};
use super::stats::Stats;
use crate::reclaim::backlog::Limits;
use crate::reclaim::callback::Callback;

use crate::reclaim::options::DeferOptions;
use crate::reclaim::thin_ptr::ThinPtr;
use crate::reclaim::word::Node;
use crate::tagged::pointable::Pointable;
use crate::tagged::shared::Shared;

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
pub trait Domain:
    Clone + Send + Sync + Unpin + RawDomain<Lender = <Self as Domain>::Section> + 'static
{
    /// What lends references ([`Rcu::load`](crate::rcu::Rcu::load)): while it is borrowed, no grace period ends that
    /// began meanwhile. A [`Guard`](crate::rcu::Guard), a [`Handle`](crate::qsbr::Handle), or a
    /// [`Section`](crate::srcu::Section), to which a reference to a [guard](crate::srcu::Guard) coerces.
    type Section;

    /// Blocks until a grace period has elapsed.
    ///
    /// Concurrent callers share grace periods. Deferred callbacks are not waited for.
    ///
    /// # Panics
    ///
    /// Inside a read-side critical section of the domain, where it would wait for itself, and in a stall hook. Inside a
    /// section of an [`srcu::Domain`](crate::srcu::Domain) it waits for itself, since guards are not tied to a thread.
    #[track_caller]
    fn synchronize(&self) {
        let own = reader_outside(self, "synchronize()");
        self.core().engine.synchronize(own);
    }

    /// Calls `f` in a worker thread after a grace period: see [`rcu::call`](crate::rcu::call).
    #[track_caller]
    fn call(&self, f: impl FnOnce() + Send + 'static) {
        self.call_with(f, DeferOptions::new());
    }

    /// [`call`](Self::call) with [`DeferOptions`].
    #[track_caller]
    fn call_with<F: FnOnce() + Send + 'static>(&self, f: F, options: DeferOptions) {
        let heap = options.heap(known_of_captures::<F>);
        self.defer(Callback::call(f, heap), options.lazy);
    }

    /// Drops `value` after a grace period: see [`rcu::retire`](crate::rcu::retire).
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
        unsafe { self.retire_raw(NonNull::from(Box::leak(value)), options) };
    }

    /// [`retire`](Self::retire) for many values.
    #[track_caller]
    fn retire_all<T: Send + 'static>(&self, values: impl IntoIterator<Item = Box<T>>) {
        values.into_iter().for_each(|value| self.retire(value));
    }

    /// [`retire`](Self::retire) for a value that readers still reference, which a `Box`, as the only reference, cannot
    /// be.
    ///
    /// # Safety
    ///
    /// `value` comes from a `Box`. It is not freed otherwise, and not used after the read-side critical sections that
    /// are open now, nor after the last handle of an [`srcu::Domain`](crate::srcu::Domain) is gone. No thread has a
    /// mutable reference to it during this call, which may look at what it owns.
    #[inline]
    #[track_caller]
    unsafe fn retire_raw<T: Send + 'static>(&self, value: NonNull<T>, options: DeferOptions) {
        // SAFETY: the caller's contract.
        unsafe { deferred::retire::<ThinPtr<T>>(self, value.cast(), options) };
    }

    /// Drops the node of an [`Atomic`](crate::rcu::Atomic) after a grace period: see
    /// [`rcu::retire_shared`](crate::rcu::retire_shared).
    ///
    /// # Safety
    ///
    /// From now on, only sections *of this domain* that are open now load or use the node, and it is not freed
    /// otherwise. No thread has a mutable reference to its value during this call, which may look at what it owns.
    #[inline]
    #[track_caller]
    unsafe fn retire_shared<T>(&self, node: Shared<'_, T>, options: DeferOptions)
    where
        T: ?Sized + Pointable + Send + 'static,
    {
        if let Some(node) = node.node() {
            // SAFETY: the caller's contract.
            unsafe { deferred::retire::<Node<T>>(self, node, options) };
        }
    }

    /// Panics if `section` is one of another [`srcu::Domain`](crate::srcu::Domain). (Sections of other domains have
    /// other types.)
    ///
    /// For data structures that take a section from their caller and load from an [`Atomic`](crate::rcu::Atomic) in it.
    ///
    /// ```
    /// use stillpoint::{Domain as _, srcu::Domain};
    ///
    /// let (here, there) = (Domain::new(), Domain::new());
    /// here.check_section(&here.enter());
    /// assert!(std::panic::catch_unwind(|| here.check_section(&there.enter())).is_err());
    /// ```
    #[inline]
    #[track_caller]
    fn check_section(&self, section: &<Self as Domain>::Section) {
        self.check(section);
    }

    /// Calls `f` after a grace period, as [`call_with`](Self::call_with) does: see
    /// [`rcu::call_unchecked`](crate::rcu::call_unchecked).
    ///
    /// # Safety
    ///
    /// What `f` uses may be used by any thread, and exists until `f` has run, however late.
    #[inline]
    #[track_caller]
    unsafe fn call_unchecked<F: FnOnce()>(&self, f: F, options: DeferOptions) {
        // SAFETY: the caller's contract; callbacks run after a grace period.
        let callback =
            unsafe { Callback::call_unchecked(f, options.heap(known_of_captures::<F>), options.local) };
        self.defer(callback, options.lazy);
    }

    /// Calls `drop_fn` with `pointer` after a grace period: see [`rcu::retire_raw_with`](crate::rcu::retire_raw_with).
    ///
    /// # Safety
    ///
    /// Any thread may call `drop_fn` with `pointer` once, however late, when the sections that are open now have ended.
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
        self.defer(callback, options.lazy);
    }

    /// Runs or hands over what the calling thread has deferred, without blocking: see
    /// [`rcu::flush`](crate::rcu::flush).
    ///
    /// What is deferred in an [`srcu::Domain`](crate::srcu::Domain) belongs to no thread: all of it is handed to the
    /// worker, and the result says whether any is left.
    fn flush(&self) -> bool {
        RawDomain::flush(self)
    }

    /// Blocks until all callbacks that were deferred before have run: see [`rcu::barrier`](crate::rcu::barrier).
    ///
    /// # Panics
    ///
    /// As [`synchronize`](Self::synchronize), and inside a callback of the same domain.
    #[track_caller]
    fn barrier(&self) {
        deferred::barrier(self);
    }

    /// Sets how much may wait: see [`rcu::set_limits`](crate::rcu::set_limits).
    fn set_limits(&self, limits: Limits) {
        self.core().callbacks.set_limits(limits);
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
#[diagnostic::on_unimplemented(
    message = "a section of `{Self}` cannot be begun on the spot",
    label = "this needs a domain of `rcu` or `srcu`",
    note = "threads of a `qsbr` domain have a handle: use `load(&handle)`, `update_with(&handle, f)` or \
            `modify_with(&handle, f)`"
)]
#[expect(private_bounds, reason = "no other type may implement it")]
pub trait EnterSection: Domain + Sealed {
    /// What ends the section when it is dropped. Borrowed, it is the [`Section`](Domain::Section) that lends
    /// references.
    type Guard<'a>: Borrow<Self::Section>;

    /// Begins a read-side critical section: [`rcu::enter`](crate::rcu::enter), or
    /// [`srcu::Domain::enter`](crate::srcu::Domain::enter).
    #[track_caller]
    fn enter_section(&self) -> Self::Guard<'_>;
}

/// Returns what the captures of a closure own, which is unknown if any has a destructor.
#[inline(always)]
fn known_of_captures<F>() -> Option<usize> {
    if const { needs_drop::<F>() } { None } else { Some(0) }
}

/// Implemented together with [`EnterSection`].
pub(crate) trait Sealed {}
