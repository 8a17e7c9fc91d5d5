//! A domain, as everything above the engine sees it: deferred work, cookies, pointers, counters.
//!
//! Most domains are types ([`Static`]): their state lies in statics, and their [`World`] is a value without size. A domain
//! that is made at run time is a counted handle. What defers, waits or publishes carries its world along, so there is one
//! [`Rcu`](super::Rcu), one [`Retired`](super::Retired) and one [`GracePeriod`](super::GracePeriod) for all.
//!
//! # What programs reach
//!
//! | trait | visible | what it gives |
//! |---|---|---|
//! | [`AnyDomain`] | to all | the type of sections |
//! | [`Static`] | to the macros that make domains | state whose fields and methods are the library's own |
//! | [`World`] | in the library | the protocol: readers, grace periods, queues |
//!
//! [`World`] is private, not only hidden: the compiler refuses its methods outside of the library where a bound implies it, too.

use core::ops::Deref;
use core::panic::Location;
use core::ptr;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::callbacks::{self, Callbacks};
use super::domain::{Shared, is_reading, registered_reader};
use super::engine::{Engine, Orphaned, Readers};
use super::entry::Entry;
use super::poller::{self, Failure, GpPoller};
use super::reader::Reader;
use super::threads::{Kind, Threads};
use super::{deferred, stall, worker_pool};

/// A domain of any kind: of [`rcu`](crate::rcu), [`qsbr`](crate::qsbr) or [`srcu`](crate::srcu). The bound for code that is
/// generic over domains.
///
/// ```
/// use stillpoint::rcu::{self, AnyDomain, Rcu};
/// use stillpoint::{qsbr, srcu};
///
/// fn publish<D: AnyDomain>(value: &Rcu<u32, D>, new: u32) {
///     drop(value.replace(new));
/// }
///
/// fn read<D: AnyDomain>(value: &Rcu<u32, D>, section: &D::Section) -> u32 {
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
/// ```
///
/// Implemented by the domains of this library only.
#[expect(private_bounds, reason = "what the library does with a domain is not for programs")]
pub trait AnyDomain:
    Clone + Send + Sync + Unpin + World<Lender = <Self as AnyDomain>::Section> + 'static
{
    /// What lends references ([`Rcu::load`](super::Rcu::load)): while it is borrowed, no grace period ends that began
    /// meanwhile. A [`Guard`](super::Guard), a [`Handle`](crate::qsbr::Handle), or a [`Section`](crate::srcu::Section), which
    /// a reference to a [guard](crate::srcu::Guard) becomes by itself.
    type Section;
}

impl<D: Static> AnyDomain for D {
    type Section = D::Section;
}

/// See the [module](self).
///
/// # Safety
///
/// While a [`Lender`](Self::Lender) that [`check`](Self::check) lets pass is borrowed, no grace period of the domain ends that
/// began meanwhile.
pub(crate) unsafe trait World: HasReaders + Clone + Send + Sync + Unpin + 'static {
    /// See [`AnyDomain::Section`].
    type Lender;
    /// What a task of the library holds on to the domain by.
    type Kept: Deref<Target = Self> + Send + 'static;

    /// How long a caller above the limits waits.
    const PATIENCE: Duration = callbacks::PATIENCE;

    /// What users are told when they break a rule.
    fn words(&self) -> &'static Words;

    fn core(&self) -> &Core<Self::Readers>;

    /// Where in the program the domain was made, if it is not a type.
    fn made_at(&self) -> Option<&'static Location<'static>> {
        None
    }

    /// Keeps the domain for a job.
    ///
    /// # Safety
    ///
    /// Nobody makes a handle of it, or opens a section by it, once the last handle has gone.
    unsafe fn keep(&self) -> Self::Kept;

    /// The calling thread's reader, if readers belong to threads, and it has one.
    fn own(&self) -> Option<&'static Reader>;

    /// Whether the calling thread is known to be inside a section, so that it would wait for itself.
    fn is_reading(&self) -> bool;

    /// Makes forks known to the domain, before anything happens that the child of one must undo.
    fn enlist(&self);

    /// Appends an entry to a queue, and does what [`Callbacks`] want the owner of a queue to do.
    #[track_caller]
    fn defer(&self, entry: Entry, lazy: bool);

    /// Waits for a grace period in the place of a queue, for want of memory. False if there was none.
    fn wait_without_memory(&self) -> bool {
        !self.is_reading()
            && !stall::is_reporting()
            && catch_unwind(AssertUnwindSafe(|| try_synchronize(self))).is_ok_and(|waited| waited.is_ok())
    }

    /// Refuses a section of another domain; nothing where types see to it.
    fn check(&self, section: &Self::Lender);

    /// Calls `f` inside a section, if one can be opened here.
    fn with_section<T>(&self, f: impl FnOnce(Option<&Self::Lender>) -> T) -> T;
}

/// The type of what a domain's grace periods wait for. It stands apart from [`World`], which is private, for
/// [`Host`](callbacks::Host), which is not, as the models implement it.
pub trait HasReaders {
    type Readers: Readers;
}

/// See [`World::words`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Words {
    /// Why the calling thread may not wait, and what to do.
    pub(crate) inside: &'static str,
    pub(crate) inside_barrier: &'static str,
    /// Why no grace period can end any more.
    pub(crate) orphaned: &'static str,
    /// What a thread did wrong that ends so; its domain's name follows.
    pub(crate) ends: &'static str,
}

/// What all domains have.
#[derive(Debug)]
pub(crate) struct Core<R> {
    pub(crate) engine: Engine<R>,
    pub(crate) callbacks: Callbacks,
    pub(crate) poller: GpPoller,
}

impl<R> Core<R> {
    pub(crate) const fn new(readers: R, name: fn() -> &'static str) -> Self {
        Self { engine: Engine::new(readers, name), callbacks: Callbacks::new(), poller: GpPoller::new() }
    }

    /// Forgets all that threads do which the child of a fork does not have. The readers are the caller's affair.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and in none of our functions, but for those that run
    /// code of the program.
    pub(crate) unsafe fn reset_in_child(&self) {
        self.engine.reset_in_child();
        self.callbacks.reset_in_child();
        // SAFETY: the caller's contract; the poller's methods run no code that could fork under their lock.
        unsafe { self.poller.reset_in_child() };
    }
}

/// A domain that is a type without data.
///
/// # Safety
///
/// Each type has a [`Shared`] and a [`Local`](super::Local) of its own. While a `Section` is borrowed, no grace period of the domain
/// ends that began meanwhile.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a domain",
    note = "a domain is `rcu::Global`, `qsbr::Global`, a type made by `domain!`, or a `srcu::Domain` itself: a clone of it, \
            not a reference"
)]
pub unsafe trait Static: Copy + Send + Sync + Unpin + 'static {
    /// The only value.
    const INSTANCE: Self;
    const WORDS: &'static Words;
    type Kind: Kind;
    type Section;

    fn shared() -> &'static Shared<Self::Kind>;

    fn with_local<T>(f: impl FnOnce(&super::Local) -> T) -> T;

    fn with_section<T>(f: impl FnOnce(Option<&Self::Section>) -> T) -> T;
}

impl<D: Static> HasReaders for D {
    type Readers = Threads<D::Kind>;
}

// SAFETY: sections of other domains are of other types; guards and handles keep grace periods from ending.
unsafe impl<D: Static> World for D {
    type Lender = D::Section;
    type Kept = Here<D>;

    fn words(&self) -> &'static Words {
        D::WORDS
    }

    #[inline(always)]
    fn core(&self) -> &Core<Threads<D::Kind>> {
        &D::shared().core
    }

    unsafe fn keep(&self) -> Here<D> {
        Here(D::INSTANCE)
    }

    #[inline]
    fn own(&self) -> Option<&'static Reader> {
        registered_reader::<D>()
    }

    fn is_reading(&self) -> bool {
        is_reading::<D>()
    }

    fn enlist(&self) {
        D::shared().fork.enlist();
    }

    #[inline]
    #[track_caller]
    fn defer(&self, entry: Entry, lazy: bool) {
        deferred::defer_here::<D>(entry, lazy);
    }

    #[inline(always)]
    fn check(&self, _section: &D::Section) {}

    fn with_section<T>(&self, f: impl FnOnce(Option<&D::Section>) -> T) -> T {
        D::with_section(f)
    }
}

/// A domain that is always there.
#[derive(Debug)]
pub(crate) struct Here<D>(D);

impl<D> Deref for Here<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.0
    }
}

impl<W: World> poller::Host for W {
    type Readers = W::Readers;

    fn engine(&self) -> &Engine<W::Readers> {
        &self.core().engine
    }

    fn poller(&self) -> &GpPoller {
        &self.core().poller
    }

    fn submit(&self) -> bool {
        // SAFETY: the task only waits for grace periods.
        let world = unsafe { self.keep() };
        worker_pool::submit(move || poller::run(&*world))
    }

    fn wait_for_next(&self) -> Result<(), Failure> {
        let drive = || self.core().engine.drive(reader_outside(self));
        match catch_unwind(AssertUnwindSafe(drive)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Orphaned)) => Err(self.words().orphaned.into()),
            Err(payload) => Err(message(&*payload).into()),
        }
    }
}

/// The message of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a grace period panicked").to_owned()
}

/// Where a domain lies: no other one is there as long as there is a handle of it, or a job that keeps it.
pub(crate) fn address(world: &impl World) -> *const () {
    ptr::from_ref(world.core()).cast()
}

/// Waits for a grace period.
///
/// # Panics
///
/// Inside a section of the domain, in a stall hook, and if a section can never end.
pub(crate) fn synchronize(world: &impl World) {
    if let Err(Orphaned) = try_synchronize(world) {
        panic!("{}", world.words().orphaned);
    }
}

/// [`synchronize`]: if a section can never end, that is an error.
pub(crate) fn try_synchronize(world: &impl World) -> Result<(), Orphaned> {
    let own = reader_outside(world);
    world.core().engine.synchronize(own)
}

/// The calling thread's reader, if it has one, for a wait.
///
/// # Panics
///
/// Inside a section of the domain, and in a stall hook.
pub(crate) fn reader_outside(world: &impl World) -> Option<&'static Reader> {
    assert!(!world.is_reading(), "{}", world.words().inside);
    assert!(
        !stall::is_reporting(),
        "synchronize() in a stall hook: the grace period that stalls waits for the hook; wait in another thread"
    );
    world.enlist();
    world.own()
}
