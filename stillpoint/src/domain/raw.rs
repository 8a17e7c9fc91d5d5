//! A domain, as everything above the engine sees it: deferred work, cookies, pointers, counters.
//!
//! Most domains are types ([`StaticDomain`]): their state lies in statics, and their [`RawDomain`] is a value without size. A domain
//! that is made at run time is a counted handle. What defers, waits or publishes carries its world along, so there is one
//! [`Rcu`](crate::rcu::Rcu), one [`Retired`](crate::rcu::Retired) and one [`GracePeriod`](crate::rcu::GracePeriod) for all.
//!
//! # What programs reach
//!
//! | trait | visible | what it gives |
//! |---|---|---|
//! | [`Domain`] | to all | the type of sections |
//! | [`StaticDomain`] | to the macros that make domains | state whose fields and methods are the library's own |
//! | [`RawDomain`] | in the library | the protocol: readers, grace periods, queues |
//!
//! [`RawDomain`] is private, not only hidden: the compiler refuses its methods outside of the library where a bound implies it, too.

use core::ops::Deref;
use core::panic::Location;
use core::ptr;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::grace_period::engine::{Engine, ReaderSet};
use crate::grace_period::stall;
use crate::reclaim::callback::Callback;
use crate::reclaim::poller::{self, Failure, GpPoller};
use crate::reclaim::worker::{CallbackQueues, CallbackWorker};
use crate::reclaim::worker_pool;

/// See the [module](self).
///
/// # Safety
///
/// While a [`Lender`](Self::Lender) that [`check`](Self::check) lets pass is borrowed, no grace period of the domain ends that
/// began meanwhile.
pub(crate) unsafe trait RawDomain: HasReaders + Clone + Send + Sync + Unpin + 'static {
    /// See [`Domain::Section`].
    type Lender;
    /// What a task of the library holds on to the domain by.
    type WorkerRef: Deref<Target = Self> + Send + 'static;

    /// A thread outside sections that are known may be inside one.
    const MAY_BE_INSIDE: bool = false;

    /// What users are told when they break a rule.
    fn messages(&self) -> &'static Messages;

    fn core(&self) -> &Core<Self::Readers>;

    fn queues(&self) -> &Self::Queues;

    /// Where in the program the domain was made, if it is not a type.
    fn made_at(&self) -> Option<&'static Location<'static>> {
        None
    }

    /// Keeps the domain for a job.
    ///
    /// # Safety
    ///
    /// Nobody makes a handle of it, or opens a section by it, once the last handle has gone.
    unsafe fn worker_ref(&self) -> Self::WorkerRef;

    /// The calling thread's reader, if readers belong to threads, and it has one.
    fn current_reader(&self) -> Option<&'static OwnReader<Self>>;

    /// Whether the calling thread is known to be inside a section, so that it would wait for itself.
    fn in_read_section(&self) -> bool;

    /// Makes forks known to the domain, before anything happens that the child of one must undo.
    fn enlist(&self);

    /// Appends an entry to a queue, and does what [`CallbackWorker`] want the owner of a queue to do.
    #[track_caller]
    fn defer(&self, entry: Callback, lazy: bool);

    /// Refuses a section of another domain; nothing where types see to it.
    fn check(&self, section: &Self::Lender);

    /// Calls `f` inside a section, if one can be opened here.
    fn with_section<T>(&self, f: impl FnOnce(Option<&Self::Lender>) -> T) -> T;
}

/// The type of what a domain's grace periods wait for. It stands apart from [`RawDomain`], which is private, for
/// [`Host`](crate::reclaim::worker::Host), which is not, as the models implement it.
pub trait HasReaders {
    type Readers: ReaderSet<Reader: 'static>;
    type Queues: CallbackQueues;
}

/// The reader of a thread, in the domain `W`.
pub(crate) type OwnReader<W> = <<W as HasReaders>::Readers as ReaderSet>::Reader;

/// See [`RawDomain::words`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Messages {
    /// Why the calling thread may not wait, and what to do.
    pub(crate) inside: &'static str,
    pub(crate) inside_barrier: &'static str,
}

/// What all domains have.
#[derive(Debug)]
pub(crate) struct Core<R> {
    pub(crate) engine: Engine<R>,
    pub(crate) callbacks: CallbackWorker,
    pub(crate) poller: GpPoller,
}

impl<R> Core<R> {
    pub(crate) const fn new(readers: R, name: fn() -> &'static str) -> Self {
        Self { engine: Engine::new(readers, name), callbacks: CallbackWorker::new(), poller: GpPoller::new() }
    }

    /// Forgets all that threads do which the child of a fork does not have. The readers are the caller's affair.
    ///
    /// # Safety
    ///
    /// As for [`ForkHook::child`](crate::sys::fork::ForkHook::child).
    pub(crate) unsafe fn reset_in_child(&self) {
        self.engine.reset_in_child();
        self.callbacks.reset_in_child();
        // SAFETY: the caller's contract.
        unsafe { self.poller.reset_in_child() };
    }
}

impl<W: RawDomain> poller::Host for W {
    type Readers = W::Readers;

    fn engine(&self) -> &Engine<W::Readers> {
        &self.core().engine
    }

    fn poller(&self) -> &GpPoller {
        &self.core().poller
    }

    fn submit(&self) -> bool {
        // SAFETY: the task only waits for grace periods.
        let world = unsafe { self.worker_ref() };
        worker_pool::submit(move || poller::run(&*world))
    }

    fn wait_for_next(&self) -> Result<(), Failure> {
        let drive = || self.core().engine.wait_for_next(reader_outside(self));
        catch_unwind(AssertUnwindSafe(drive)).map_err(|payload| message(&*payload).into())
    }
}

/// The message of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a grace period panicked").to_owned()
}

/// Where a domain lies: no other one is there as long as there is a handle of it, or a job that keeps it.
pub(crate) fn address(world: &impl RawDomain) -> *const () {
    ptr::from_ref(world.core()).cast()
}

/// Waits for a grace period.
///
/// # Panics
///
/// Inside a section of the domain, and in a stall hook.
pub(crate) fn synchronize(world: &impl RawDomain) {
    let own = reader_outside(world);
    world.core().engine.synchronize(own);
}

/// The calling thread's reader, if it has one, for a wait.
///
/// # Panics
///
/// Inside a section of the domain, and in a stall hook.
pub(crate) fn reader_outside<W: RawDomain>(world: &W) -> Option<&'static OwnReader<W>> {
    assert!(!world.in_read_section(), "{}", world.messages().inside);
    assert!(
        !stall::is_reporting(),
        "synchronize() in a stall hook: the grace period that stalls waits for the hook; wait in another thread"
    );
    world.enlist();
    world.current_reader()
}
