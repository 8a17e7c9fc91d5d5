//! Domains whose readers hold guards, and their guards.

use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;

use crate::domain::static_domain::{DropBeforeAwaitOrUseSrcu, StaticDomain};
use crate::domain::thread::{
    KeepReader, in_read_section, own_reader, queue_of, reader_registered_at, registered_reader,
    while_it_stays,
};
use crate::readers::sections::reader::{ExitPath, Reader};
use crate::readers::sections::registration;
use crate::reclaim::queue::PushAction;

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
pub struct Guard<D: StaticDomain = Global> {
    reader: &'static Reader,
    /// Only its thread may use the reader's fast paths.
    _thread: PhantomData<(*mut DropBeforeAwaitOrUseSrcu, D)>,
}

/// For the macro. Generic code uses [`EnterSection`](crate::EnterSection).
#[doc(hidden)]
impl<D: StaticDomain> Guard<D> {
    /// Begins a read-side critical section: see [`rcu::enter`](super::enter).
    #[inline]
    #[track_caller]
    pub fn enter() -> Self
    where
        D: StaticDomain<Section = Self>,
    {
        let reader = D::with_thread_state(|local| local.registration.fast());
        let guard = if registration::enter_or_nest(reader, D::shared().readers().counter()) {
            Self::new(reader)
        } else {
            enter_slow(Location::caller())
        };
        #[cfg(feature = "section-locations")]
        guard.reader.section_begun_at(Location::caller());
        guard
    }

    /// Registers the calling thread now: see [`rcu::register`](super::register).
    #[track_caller]
    pub fn register()
    where
        D: StaticDomain<Section = Self>,
    {
        // A signal handler whose section ends meanwhile does not release the reader.
        let _stays = KeepReader::<D>::if_ended();
        own_reader::<D>();
    }

    /// Hints that the calling thread will not read for a while: see [`rcu::hint_idle`](super::hint_idle).
    pub fn hint_idle()
    where
        D: StaticDomain<Section = Self>,
    {
        let registry = D::shared().readers().registry();
        while_it_stays::<D, _>(|| D::with_thread_state(|local| local.registration.hint_idle(registry)));
    }

    /// Returns `true` inside a read-side critical section.
    pub fn in_read_section() -> bool
    where
        D: StaticDomain<Section = Self>,
    {
        in_read_section::<D>()
    }
}

impl<D: StaticDomain> Guard<D> {
    /// The guard of a section that the calling thread has begun with `reader`.
    #[inline(always)]
    pub(super) fn new(reader: &'static Reader) -> Self {
        Self { reader, _thread: PhantomData }
    }

    /// Ends the section and begins a new one, if this is the thread's only guard: for long loops of reads.
    ///
    /// Grace periods that began before no longer wait for this thread. The compiler ensures that references loaded
    /// through the guard are not used afterwards. Takes a few loads if no grace period has begun since the section
    /// did. May block where dropping the guard would; while it blocks, the section has ended.
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

impl<D: StaticDomain> Drop for Guard<D> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "section-locations")]
        self.reader.section_ends();
        if self.reader.leave() == ExitPath::Slow {
            exit_slow::<D>(self.reader);
        }
    }
}

impl<D: StaticDomain> fmt::Debug for Guard<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("domain", &D::name()).finish_non_exhaustive()
    }
}

/// Begins a section in a thread that does not take the fast path.
///
/// With full fences, all sections begin here. It calls nothing where they do, and so saves no registers. It is
/// compiled to the same instructions without `#[cold]`, which keeps it out of its callers' way.
#[cold]
#[inline(never)]
fn enter_slow<D: StaticDomain>(site: &'static Location<'static>) -> Guard<D> {
    let counter = D::shared().readers().counter();
    match D::with_thread_state(|local| local.registration.enter_with_full_fence(counter)) {
        Some(reader) => Guard::new(reader),
        None => enter_first(site),
    }
}

/// Begins a section in a thread that is not registered, is idle, or has run its destructors.
#[cold]
#[inline(never)]
fn enter_first<D: StaticDomain>(site: &'static Location<'static>) -> Guard<D> {
    // A signal handler whose section ends here does not release the reader.
    let _stays = KeepReader::<D>::if_ended();
    let reader = reader_registered_at::<D>(site);
    enter_with::<D>(reader);
    Guard::new(reader)
}

/// Begins a section in the calling thread, whose reader this is.
fn enter_with<D: StaticDomain>(reader: &'static Reader) {
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
        let callbacks = &D::shared().core.work.callbacks;
        while_it_stays::<D, _>(|| callbacks.act(PushAction::Flush, queue_of::<D>(reader), D::INSTANCE));
    }
    #[cfg(stillpoint_portable)]
    crate::domain::thread::leave_if_forgotten::<D>(reader);
}

/// The slow path of [`Guard::repin`]. The guard is the only one of its thread.
#[cold]
fn repin_slow<D: StaticDomain>(reader: &'static Reader) {
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
