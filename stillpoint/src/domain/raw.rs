//! A domain as the library sees it: its readers, grace periods and callbacks.
//!
//! Most domains are types ([`StaticDomain`](super::static_domain::StaticDomain)): their state lies in statics, and the [`RawDomain`] is a value without
//! size. A domain that is made at run time is a counted handle. Values that defer, wait or publish contain their
//! domain, so there is one [`Rcu`](crate::rcu::Rcu), one [`Retired`](crate::rcu::Retired) and one
//! [`GracePeriod`](crate::rcu::GracePeriod) for all.
//!
//! | trait | visible | what it gives |
//! |---|---|---|
//! | [`Domain`](crate::Domain) | to all | the operations of programs, and the type of sections |
//! | [`StaticDomain`](super::static_domain::StaticDomain) | to the macros that make domains | state whose fields and methods are the library's own |
//! | [`RawDomain`] | in the library | the protocol: readers, grace periods, queues |
//!
//! [`RawDomain`] is private, not only hidden: so the compiler refuses its methods outside of the library, even where a
//! bound implies the trait.

use core::fmt;
use core::ops::Deref;
use core::panic::Location;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::grace_period::engine::{Engine, ReaderSet};
use crate::grace_period::stall;
use crate::reclaim::callback::Callback;
use crate::reclaim::host::Denied;
use crate::reclaim::poller::GpPoller;
use crate::reclaim::queue::Queue;
use crate::reclaim::worker::CallbackWorker;
use crate::reclaim::worker_pool;

/// See the [module](self).
///
/// # Safety
///
/// While a [`Lender`](Self::Lender) that [`check`](Self::check) lets pass is borrowed, no grace period of the domain
/// ends that began meanwhile.
pub(crate) unsafe trait RawDomain: Clone + Send + Sync + Unpin + 'static {
    type Readers: ReaderSet<Reader: 'static>;
    /// See [`Domain::Section`](crate::Domain::Section).
    type Lender;
    /// Keeps the domain for a task of the library.
    type WorkerRef: Deref<Target = Self> + Send + 'static;

    /// A thread outside known sections may be inside one.
    const MAY_BE_INSIDE: bool = false;
    /// Why a thread inside a section must not wait, and what to do instead: completes "synchronize() ...".
    const INSIDE: &'static str;

    fn core(&self) -> &Core<Self::Readers>;

    fn queues(&self) -> impl Iterator<Item = &Queue>;

    /// See [`Host::has_active_owner`](crate::reclaim::host::Host::has_active_owner).
    #[cfg(feature = "epoch")]
    fn has_active_owner(&self, _index: usize) -> bool {
        false
    }

    /// Returns where in the program the domain was made, if it is not a type.
    fn made_at(&self) -> Option<&'static Location<'static>> {
        None
    }

    /// # Safety
    ///
    /// Through it, no handle of the domain is made and no section is begun once the last handle is gone.
    unsafe fn worker_ref(&self) -> Self::WorkerRef;

    /// Returns the calling thread's reader, if it has one.
    fn current_reader(&self) -> Option<&'static OwnReader<Self>>;

    /// Returns `true` if the calling thread is known to be inside a section, so that it would wait for itself.
    fn in_read_section(&self) -> bool;

    /// Makes sure that the domain is reset in the child of a fork. Comes before any change that a child must undo.
    fn register_for_fork(&self);

    /// Pushes a callback, and does what the owner of the queue must do then.
    #[track_caller]
    fn defer(&self, callback: Callback, lazy: bool);

    /// See [`Domain::flush`](crate::Domain::flush).
    fn flush(&self) -> bool;

    /// Panics if the section is of another domain of this type.
    #[track_caller]
    fn check(&self, section: &Self::Lender);

    /// Calls `f` inside a section, if one can be begun here.
    fn with_section<T>(&self, f: impl FnOnce(Option<&Self::Lender>) -> T) -> T;
}

/// The reader of a thread in the domain `D`.
pub(crate) type OwnReader<D> = <<D as RawDomain>::Readers as ReaderSet>::Reader;

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

    /// Forgets what threads do that the child of a fork does not have. The caller resets the readers.
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

/// Has a thread of the library run the domain's poller. Returns `false` if there is no thread.
pub(crate) fn submit_poller(domain: &impl RawDomain) -> bool {
    // SAFETY: the task only waits for grace periods.
    let domain = unsafe { domain.worker_ref() };
    worker_pool::submit(move || {
        let Core { engine, poller, .. } = domain.core();
        poller.run(engine, || wait_in_worker(&*domain, |own| engine.wait_for_next(own)));
    })
}

/// Calls `wait` with the reader of this thread, a thread of the library.
pub(crate) fn wait_in_worker<D: RawDomain>(
    domain: &D,
    wait: impl FnOnce(Option<&OwnReader<D>>),
) -> Result<(), Denied> {
    // If a callback has leaked a guard, the thread is inside, and grace periods wait for it as for any other thread.
    let own = domain.current_reader().filter(|_| !domain.in_read_section());
    // It panics if the kernel denies the heavy fence.
    catch_unwind(AssertUnwindSafe(|| wait(own))).map_err(|_| Denied)
}

/// Returns the address of a domain, which no other domain has while a handle or a [`RawDomain::WorkerRef`] exists.
pub(crate) fn address(domain: &impl RawDomain) -> *const () {
    ptr::from_ref(domain.core()).cast()
}

/// Panics if `operation` would wait for the calling thread: inside a section of the domain, and in a stall hook.
#[track_caller]
pub(crate) fn assert_may_wait<D: RawDomain>(domain: &D, operation: impl fmt::Display) {
    assert!(!domain.in_read_section(), "{operation} {}", D::INSIDE);
    assert_outside_hook(operation);
}

/// Panics in a stall hook, in which `operation` would wait for the calling thread.
#[track_caller]
pub(crate) fn assert_outside_hook(operation: impl fmt::Display) {
    assert!(
        !stall::is_reporting(),
        "{operation} in a stall hook: the grace period that stalls waits for the hook; wait in another thread"
    );
}

/// The operation of a future, which was made at a place in the program: by `.await`, or by a call before it. A panic in
/// `poll` has the executor's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Await(pub(crate) &'static str, pub(crate) &'static Location<'static>);

impl fmt::Display for Await {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(what, site) = self;
        write!(f, "`.await` of {what}, at {site},")
    }
}

/// Returns the calling thread's reader, if it has one, for a wait by `operation`.
///
/// # Panics
///
/// Inside a section of the domain, and in a stall hook.
#[track_caller]
pub(crate) fn reader_outside<D: RawDomain>(
    domain: &D,
    operation: impl fmt::Display,
) -> Option<&'static OwnReader<D>> {
    assert_may_wait(domain, operation);
    domain.register_for_fork();
    domain.current_reader()
}
