//! Domains whose readers hold guards, and their guards.

use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;

use crate::EnterSection;
use crate::domain::static_domain::{DropBeforeAwaitOrUseSrcu, StaticDomain};
use crate::domain::thread::{
    KeepReader, in_read_section, own_reader, queue_of, reader_registered_at, registered_reader,
    while_it_stays,
};
use crate::readers::sections::reader::{ExitPath, Reader};
use crate::readers::sections::registration;
use crate::reclaim::queue::PushAction;

/// A domain of [`crate::rcu`]: readers, and grace periods that wait for these readers only.
///
/// Most programs need only [`Global`]. A further domain, defined by [`domain!`](crate::domain), keeps long sections in
/// one part of a program from delaying another part. It is a type without data, so the compiler refuses a guard of
/// another domain, at no cost at run time.
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
/// # Safety
///
/// Only [`domain!`](crate::domain) may implement it; it gives each type its own state.
pub unsafe trait RcuDomain: StaticDomain<Section = Guard<Self>> {
    /// Begins a read-side critical section: see [`rcu::enter`](super::enter).
    #[inline]
    #[track_caller]
    fn enter() -> Guard<Self> {
        let reader = Self::with_thread_state(|local| local.registration.fast());
        let guard = if registration::enter_or_nest(reader, Self::shared().readers().counter()) {
            Guard::new(reader)
        } else {
            enter_slow(Location::caller())
        };
        #[cfg(feature = "section-locations")]
        guard.reader.section_begun_at(Location::caller());
        guard
    }

    /// Registers the calling thread now: see [`rcu::register`](super::register).
    #[track_caller]
    fn register() {
        // A signal handler whose section ends meanwhile does not release the reader.
        let _stays = KeepReader::<Self>::if_ended();
        own_reader::<Self>();
    }

    /// Hints that the calling thread will not read for a while: see [`rcu::hint_idle`](super::hint_idle).
    fn hint_idle() {
        let registry = Self::shared().readers().registry();
        while_it_stays::<Self, _>(|| Self::with_thread_state(|local| local.registration.hint_idle(registry)));
    }

    /// Returns `true` inside a read-side critical section.
    fn in_read_section() -> bool {
        in_read_section::<Self>()
    }
}

/// An open read-side critical section of the domain `D`. Dropping the guard ends the section.
///
/// A thread may hold several guards and drop them in any order; the section lasts until the last one is dropped. No
/// grace period that begins in the meantime can end before that, or ever, if a guard is leaked (see
/// [stalls](super#stalls)).
///
/// Dropping the outermost guard blocks if values were retired inside the section and the backlog exceeds its
/// [limits](crate::Domain::set_limits); otherwise it never blocks.
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
/// A guard stays in its thread:
///
/// ```compile_fail,E0277
/// let guard = stillpoint::rcu::enter();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "the section ends when the guard is dropped"]
pub struct Guard<D: RcuDomain = Global> {
    reader: &'static Reader,
    /// Only its thread may use the reader's fast paths.
    _thread: PhantomData<(*mut DropBeforeAwaitOrUseSrcu, D)>,
}

impl<D: RcuDomain> Guard<D> {
    /// The guard of a section that the calling thread has begun with `reader`.
    #[inline(always)]
    pub(super) fn new(reader: &'static Reader) -> Self {
        Self { reader, _thread: PhantomData }
    }

    /// Ends the section and begins a new one, if this is the thread's only guard: for long loops of reads.
    ///
    /// Grace periods that began before no longer wait for this thread. The compiler ensures that references loaded
    /// through the guard are not used afterwards. Takes a few loads if no grace period has begun since the section did.
    /// May block where dropping the guard would; while it blocks, the section has ended.
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
        #[cfg(feature = "section-locations")]
        self.reader.section_ends();
        if self.reader.leave() == ExitPath::Slow {
            exit_slow::<D>(self.reader);
        }
    }
}

impl<D: RcuDomain> fmt::Debug for Guard<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("domain", &D::name()).finish_non_exhaustive()
    }
}

// SAFETY: a guard ends its section when it is dropped.
unsafe impl<D: RcuDomain> EnterSection for D {
    type Guard<'a> = Guard<D>;

    #[inline(always)]
    #[track_caller]
    fn enter_section(&self) -> Guard<D> {
        D::enter()
    }
}

/// Begins a section in a thread that does not take the fast path.
///
/// With full fences, all sections begin here. It calls nothing where they do, and so saves no registers. It is compiled
/// to the same instructions without `#[cold]`, which keeps it out of its callers' way.
#[cold]
#[inline(never)]
fn enter_slow<D: RcuDomain>(site: &'static Location<'static>) -> Guard<D> {
    let counter = D::shared().readers().counter();
    match D::with_thread_state(|local| local.registration.enter_with_full_fence(counter)) {
        Some(reader) => Guard::new(reader),
        None => enter_registered(site),
    }
}

/// [`enter_slow`] in a thread that does not begin sections with a full fence, as with the fence backend `signal`.
#[inline(never)]
fn enter_registered<D: RcuDomain>(site: &'static Location<'static>) -> Guard<D> {
    let counter = D::shared().readers().counter();
    match D::with_thread_state(|local| local.registration.enter_fenced(counter)) {
        Some(reader) => Guard::new(reader),
        None => enter_first(site),
    }
}

/// Begins a section in a thread that is not registered, is idle, or has run its destructors.
#[cold]
#[inline(never)]
fn enter_first<D: RcuDomain>(site: &'static Location<'static>) -> Guard<D> {
    // A signal handler whose section ends here does not release the reader.
    let _stays = KeepReader::<D>::if_ended();
    let reader = reader_registered_at::<D>(site);
    enter_with::<D>(reader);
    Guard::new(reader)
}

/// Begins a section in the calling thread, whose reader this is.
fn enter_with<D: RcuDomain>(reader: &'static Reader) {
    let readers = D::shared().readers();
    D::with_thread_state(|local| {
        local.registration.enter_registered(readers.registry(), reader, readers.counter())
    });
}

/// The slow path of the end of a section.
#[cold]
pub(super) fn exit_slow<D: StaticDomain>(reader: &'static Reader) {
    let stays = KeepReader::<D>::if_ended();
    let is_own = || registered_reader::<D>().is_some_and(|own| ptr::eq(own, reader));
    if cfg!(not(stillpoint_portable)) && stays.is_some() && !is_own() {
        // A signal handler has done the rest, and released the reader; another one may have left one to `stays`.
        return;
    }
    D::shared().readers().exit_slow(reader);
    if reader.take_reclaim() {
        // The thread keeps the reader until then.
        let callbacks = &D::shared().core.callbacks;
        while_it_stays::<D, _>(|| callbacks.act(PushAction::Flush, queue_of::<D>(reader), &D::INSTANCE));
    }
    #[cfg(stillpoint_portable)]
    crate::domain::thread::leave_if_forgotten::<D>(reader);
}

/// The slow path of [`Guard::repin`]. The guard is the only one of its thread.
#[cold]
fn repin_slow<D: RcuDomain>(reader: &'static Reader) {
    if !reader.must_leave() {
        return exit_slow::<D>(reader);
    }
    // Leaves the section: inside it, no grace period would end that this thread may wait for.
    while_it_stays::<D, _>(|| {
        if reader.leave() == ExitPath::Slow {
            exit_slow::<D>(reader);
        }
        // Nested, if a destructor that ran here has kept a guard.
        enter_with::<D>(reader);
    });
}

crate::static_domain! { rcu
    /// The domain of the functions of [`crate::rcu`].
    pub struct Global = "stillpoint::rcu::Global";
}
