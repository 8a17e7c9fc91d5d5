//! The read-side section as a value.

use core::fmt;
use core::marker::PhantomData;

use crate::domain::deferred;
use crate::domain::static_domain::{
    StaticDomain, in_read_section, leave_if_ended, own_reader, queue_of, while_it_stays,
};
use crate::readers::reader::{ExitPath, Reader};
use crate::readers::registration;
use crate::readers::threads::Memb;
use crate::reclaim::queue::PushAction;

/// A domain: readers, and the grace periods that wait for them and for nobody else.
///
/// Most programs need only [`Global`], which the functions of [`crate::rcu`] use. A domain of its own, made by
/// [`domain!`](crate::domain), keeps the long sections of one part of a program from delaying another part. It is a type
/// without data: a guard of one domain does not open a pointer of another, at no cost at run time.
///
/// ```
/// use stillpoint::rcu::Rcu;
///
/// stillpoint::domain! {
///     /// Routing tables.
///     pub struct Routes;
/// }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let guard = Routes::enter();
/// assert_eq!(table.load(&guard).len(), 3);
/// ```
///
/// A guard of the wrong domain is refused by the compiler:
///
/// ```compile_fail,E0308
/// use stillpoint::rcu::{self, Rcu};
///
/// stillpoint::domain! { pub struct Routes; }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let guard = rcu::enter();
/// table.load(&guard);
/// ```
///
/// # Safety
///
/// Implemented by [`domain!`](crate::domain) only, which gives each type its own state.
pub unsafe trait RcuDomain: StaticDomain<Protocol = Memb, Section = Guard<Self>> {
    /// Begins a read-side critical section: see [`rcu::enter`](super::enter).
    #[inline]
    #[track_caller]
    fn enter() -> Guard<Self> {
        let reader = Self::with_thread_state(|local| local.registration.fast());
        if registration::try_enter(reader, Self::shared().readers().counter()) {
            Guard::new(reader)
        } else {
            enter_slow()
        }
    }

    /// Registers the calling thread now: see [`rcu::register`](super::register).
    #[track_caller]
    fn register() {
        own_reader::<Self>();
        leave_if_ended::<Self>();
    }

    /// Returns `true` inside a read-side critical section.
    fn in_read_section() -> bool {
        in_read_section::<Self>()
    }
}

/// An open read-side section of the domain `D`. Dropping it ends the section.
///
/// Guards of one thread may be nested and dropped in any order; the section lasts until the last one is dropped. A guard
/// stays in its thread. While it lives, no grace period that begins can end.
///
/// Dropping the outermost guard waits if values were retired inside the section, and more waits to be freed than
/// [`set_limits`](super::set_limits) allows; otherwise it never does.
///
/// A leaked guard (`mem::forget`) never ends its section: grace periods wait for it, also once its thread has exited. The
/// [stall report](super#stalls) names the thread.
///
/// ```
/// use stillpoint::rcu;
///
/// let outer = rcu::enter();
/// let inner = rcu::enter();
/// drop(outer);
/// assert!(rcu::in_read_section());
/// drop(inner);
/// assert!(!rcu::in_read_section());
/// ```
///
/// ```compile_fail,E0277
/// let guard = stillpoint::rcu::enter();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "the section ends when the guard is dropped"]
pub struct Guard<D: RcuDomain = Global> {
    reader: &'static Reader,
    /// Neither `Send` nor `Sync`: the reader's fast paths belong to its thread.
    _thread: PhantomData<*mut D>,
}

impl<D: RcuDomain> Guard<D> {
    /// The calling thread has just entered with `reader`.
    #[inline(always)]
    fn new(reader: &'static Reader) -> Self {
        Self { reader, _thread: PhantomData }
    }

    /// Ends the section and begins a new one, if this is the thread's only guard: grace periods that began before need
    /// not wait any longer. References loaded through the guard end here, as the compiler sees.
    ///
    /// Costs a few loads when no grace period has begun since the section did. If the thread has retired values inside it, and
    /// more waits to be freed than [`set_limits`](super::set_limits) allows, it waits here, outside any section, as on dropping
    /// the guard. For long loops of reads:
    ///
    /// ```
    /// use stillpoint::rcu::{self, Rcu};
    ///
    /// let limit = Rcu::new(10);
    /// let mut guard = rcu::enter();
    /// let mut sum = 0;
    /// for i in 0..100 {
    ///     guard.repin();
    ///     sum += i % limit.load(&guard);
    /// }
    /// assert_eq!(sum, 450);
    /// ```
    #[inline]
    pub fn repin(&mut self) {
        if self.reader.repin(D::shared().readers().counter()) == ExitPath::Slow {
            repin_slow::<D>(self.reader);
        }
    }
}

impl<D: RcuDomain> Drop for Guard<D> {
    #[inline]
    fn drop(&mut self) {
        if self.reader.leave() == ExitPath::Slow {
            exit_slow::<D>(self.reader);
        }
    }
}

impl<D: RcuDomain> fmt::Debug for Guard<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("domain", &core::any::type_name::<D>()).finish_non_exhaustive()
    }
}

/// Begins a section in a thread that is not registered, or in which a light fence is a real one.
#[cold]
#[track_caller]
fn enter_slow<D: RcuDomain>() -> Guard<D> {
    let reader = own_reader::<D>();
    registration::enter_slow(reader, D::shared().readers().counter());
    Guard::new(reader)
}

/// The slow way out of a section.
#[cold]
fn exit_slow<D: StaticDomain>(reader: &'static Reader) {
    D::shared().readers().exit_slow(reader);
    if reader.take_reclaim() {
        // The reader stays the thread's meanwhile.
        while_it_stays::<D, _>(|| deferred::flush(&D::INSTANCE, queue_of::<D>(reader), PushAction::Flush));
    }
    // A flag of the thread, not of the reader, which may be another's by now.
    if D::with_thread_state(|local| local.registration.has_ended()) {
        leave_if_ended::<D>();
    }
}

/// The slow way of [`Guard::repin`], which is the only guard of its thread.
#[cold]
fn repin_slow<D: RcuDomain>(reader: &'static Reader) {
    if !reader.must_reclaim() {
        return exit_slow::<D>(reader);
    }
    // Inside, no grace period ends that this thread would wait for.
    while_it_stays::<D, _>(|| {
        if reader.leave() == ExitPath::Slow {
            exit_slow::<D>(reader);
        }
        if !reader.try_enter(D::shared().readers().counter()) {
            // A destructor that has run here keeps a guard.
            reader.nest();
        }
    });
    crate::fence::light();
}

crate::domain! {
    /// The domain of the functions of [`crate::rcu`].
    pub struct Global;
}
