//! A domain as the library sees it: what all domains have, and what differs between them.
//!
//! Most domains are types ([`StaticDomain`](crate::domain::static_domain::StaticDomain)): their state lies in statics,
//! and the [`RawDomain`] is a value without size. A domain that is made at run time is a counted handle. Values that
//! defer, wait or publish contain their domain, so there is one [`Rcu`](crate::rcu::Rcu), one
//! [`Retired`](crate::rcu::Retired) and one [`GracePeriod`](crate::rcu::GracePeriod) for all.
//!
//! | | visible | what it is |
//! |---|---|---|
//! | [`Domain`](crate::Domain) | to all | the operations of programs, and the type of sections |
//! | [`StaticDomain`](crate::domain::static_domain::StaticDomain) | to all; its items to the macros that make domains | state whose fields and methods are the library's own |
//! | [`RawDomain`] | in the library | what differs between a type and a handle |
//! | [`Core`] | in the library | the grace periods with their readers, the worker of deferred work, the poller |
//!
//! [`RawDomain`] is private, not only hidden: so the compiler refuses its methods outside of the library, even where a
//! bound implies the trait.

use core::fmt;
use core::panic::Location;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_utils::CachePadded;

use super::backlog::Backlog;
use super::callback::Callback;
use super::hazards::Hazards;
#[cfg(not(loom))]
use super::lazy_timer;
use super::poller::GpPoller;
use super::queue::Queue;
use super::rounds::BarrierRounds;
use super::slice::Slice;
use super::worker_state::WorkerState;
#[cfg(not(loom))]
use crate::grace_period::engine::ReaderSet;
use crate::grace_period::engine::{Denied, Engine, GpCookie};
use crate::grace_period::stall;
use crate::readers::any::AnyReaders;
use crate::readers::sections::reader::Reader;
#[cfg(not(loom))]
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, EventCount, const_unless_loom, private_unless_loom};
#[cfg(not(loom))]
use crate::sync::{now, spin_loop, yield_now};

/// What all domains have.
#[derive(Debug)]
pub struct Core<R: ?Sized = AnyReaders> {
    pub callbacks: CallbackWorker,
    pub poller: GpPoller,
    pub engine: Engine<R>,
}

impl<R> Core<R> {
    const_unless_loom! {
        pub fn new(readers: R, name: fn() -> &'static str) -> Self {
            Self { callbacks: CallbackWorker::new(), poller: GpPoller::new(), engine: Engine::new(readers, name) }
        }
    }

    /// Forgets what threads do that the child of a fork does not have. The caller resets the readers and the queues.
    ///
    /// # Safety
    ///
    /// As for [`ForkHook::child`](crate::sys::fork::ForkHook::child).
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self)
    where
        R: ReaderSet,
    {
        self.engine.reset_in_child();
        // SAFETY: the caller's contract.
        unsafe {
            self.callbacks.reset_in_child();
            self.poller.reset_in_child();
        }
    }
}

/// The worker that runs callbacks, and the threads that wait for it: see [`super::worker`].
#[derive(Debug)]
pub struct CallbackWorker {
    pub(super) state: CachePadded<WorkerState>,
    pub(super) progress: CachePadded<EventCount>,
    pub(super) backlog: Backlog,
    /// Barriers that are futures.
    pub rounds: BarrierRounds,
    /// Callers that want all callbacks to run now.
    pub(super) urgent: AtomicU64,
    /// When the last round began, or the grace period of another leader ended.
    pub(super) last_round: AtomicU64,
    /// The queue with which the next round begins to run callbacks.
    pub(super) first: AtomicU64,
    /// Rounds that failed: see [`Denied`].
    pub(super) failures: AtomicU64,
    /// The time for which the domain was last parked, or 0. Only the worker, or the thread that is to provide it,
    /// accesses this.
    pub(super) parked_until: AtomicU64,
    /// What the worker runs now.
    pub(super) slice: Slice,
}

impl CallbackWorker {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                state: CachePadded::new(WorkerState::new()),
                progress: CachePadded::new(EventCount::new()),
                backlog: Backlog::new(),
                rounds: BarrierRounds::new(),
                urgent: AtomicU64::new(0),
                last_round: AtomicU64::new(0),
                first: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                parked_until: AtomicU64::new(0),
                slice: Slice::new(),
            }
        }
    }

    /// Forgets the worker and the callers that wait for it. The caller resets the queues.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        self.state.give_up();
        self.backlog.reset_in_child();
        // SAFETY: the caller's contract.
        unsafe { self.rounds.reset_in_child() };
        self.urgent.store(0, Relaxed);
        self.slice.end();
    }
}

private_unless_loom! {
    /// What differs between domains. The worker and all that is slow is compiled once, for a `dyn RawDomain`. Models have
    /// domains of their own, which provide threads.
    trait RawDomain {
        /// Returns `true` if a thread outside known sections may be inside one.
        fn may_be_inside(&self) -> bool {
            false
        }

        /// Returns why a thread inside a section must not wait, and what to do instead: completes "synchronize() ...".
        fn inside(&self) -> &'static str {
            ""
        }

        fn core(&self) -> &Core;

        /// Returns the number of queues of callbacks, but for that of [`Hazards::kept`]. It does not decrease.
        fn queue_count(&self) -> usize;

        /// Returns the queue with this index, which is less than [`queue_count`](Self::queue_count).
        fn queue(&self, index: usize) -> &Queue;

        /// Returns what keeps values that hazard pointers protect, if the domain has hazard pointers.
        #[inline(always)]
        fn hazards(&self) -> Option<&Hazards> {
            None
        }

        /// Returns where in the program the domain was made, if it is not a type.
        fn made_at(&self) -> Option<&'static Location<'static>> {
            None
        }

        /// Returns the calling thread's reader, if it has one.
        fn current_reader(&self) -> Option<&'static Reader>;

        /// Returns `true` if the calling thread is known to be inside a section, so that it would wait for itself.
        fn in_read_section(&self) -> bool;

        /// Makes sure that the domain is reset in the child of a fork. Comes before any change that a child must undo.
        fn register_for_fork(&self);

        /// Pushes a callback, and does what the owner of the queue must do then.
        #[track_caller]
        fn defer(&self, callback: Callback, lazy: bool)
        where
            Self: Sized;

        /// Has a thread of the library call `task`, which makes no handle of the domain and begins no section. Returns
        /// `false` if there is no thread.
        fn submit(&self, task: fn(&dyn RawDomain)) -> bool;

        /// [`submit`](Self::submit) at the time `due`, in nanoseconds of [`now`](crate::sync::now).
        fn park(&self, due: u64, task: fn(&dyn RawDomain)) -> bool;

        /// Undoes [`park`](Self::park), if a thread has not taken the task.
        #[cfg(loom)]
        fn unpark(&self, due: u64);

        #[cfg(not(loom))]
        fn unpark(&self, due: u64) {
            lazy_timer::unpark(parked_at(self.core(), due));
        }

        /// Returns `true` after [`park`](Self::park) until a thread takes the task, or until that is undone.
        #[cfg(loom)]
        fn is_parked(&self, due: u64) -> bool;

        #[cfg(not(loom))]
        fn is_parked(&self, due: u64) -> bool {
            lazy_timer::is_parked(parked_at(self.core(), due))
        }

        /// Blocks until the grace period has ended. Called by threads of the library.
        fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
            let own = reader_if_outside(self);
            // It panics if the kernel denies the heavy fence.
            catch_unwind(AssertUnwindSafe(|| self.core().engine.wait_for(own, cookie))).map_err(|_| Denied)
        }
    }
}

impl dyn RawDomain + '_ {
    /// Returns the queues. Their order does not change: later ones come at the end.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        let kept = self.hazards().map(Hazards::kept);
        kept.into_iter().chain((0..self.queue_count()).map(|index| self.queue(index)))
    }
}

/// The key of the task of a parked domain.
#[cfg(not(loom))]
pub(crate) fn parked_at(core: &Core, due: u64) -> lazy_timer::TimerKey {
    (due, ptr::from_ref(core).addr() as u64)
}

/// Returns `true` if no other thread can be inside a section: a grace period then costs nothing.
pub(super) fn is_alone(domain: &dyn RawDomain) -> bool {
    // Where there are hazard pointers, each grace period issues a fence.
    domain.hazards().is_none() && domain.core().engine.readers().no_other_readers(domain.current_reader())
}

/// Returns the calling thread's reader if the thread has one and is outside. If a callback has leaked a guard, its thread
/// is inside, and grace periods wait for it as for any other thread.
fn reader_if_outside<D: RawDomain + ?Sized>(domain: &D) -> Option<&'static Reader> {
    domain.current_reader().filter(|_| !domain.in_read_section())
}

/// Completes a grace period if that is possible without blocking. Returns `true` if it has been completed.
pub(crate) fn try_synchronize(domain: &dyn RawDomain) -> bool {
    // The worker will report a denied fence.
    try_lead(domain) == Ok(Some(true))
}

/// [`Engine::try_synchronize`](crate::grace_period::engine::Engine::try_synchronize) for the calling thread.
pub(super) fn try_lead(domain: &dyn RawDomain) -> Result<Option<bool>, Denied> {
    let try_lead = || domain.core().engine.try_synchronize(reader_if_outside(domain));
    if cfg!(loom) {
        return Ok(try_lead());
    }
    // It panics if the kernel denies the heavy fence.
    catch_unwind(AssertUnwindSafe(try_lead)).map_err(|_| Denied)
}

/// [`try_synchronize`], which gives a thread that leads a grace period at this moment, and waits for no reader, time to
/// end it.
#[cfg(not(loom))]
pub(crate) fn try_synchronize_patiently(domain: &dyn RawDomain) -> bool {
    /// Several times what a thread waits for a busy CPU.
    const PATIENCE: u64 = 50_000_000;
    const SPINS: u32 = 100;
    let engine = &domain.core().engine;
    let needed = engine.snapshot();
    let (mut spins, mut until) = (SPINS, None);
    loop {
        let tried = try_lead(domain).unwrap_or(Some(false));
        // Another thread's grace period may have begun after the snapshot.
        if tried == Some(true) || engine.is_done(needed) {
            return true;
        }
        // If another thread's attempt failed, its reader may have left since.
        let is_blocked = tried.is_some() || engine.is_held_up();
        if is_blocked || now() > *until.get_or_insert_with(|| now() + PATIENCE) {
            return false;
        }
        if spins == 0 {
            yield_now();
        } else {
            spins -= 1;
            spin_loop();
        }
    }
}

/// Returns the address of a domain, which no other domain has while a handle or a task of it exists.
pub(crate) fn address(domain: &dyn RawDomain) -> *const () {
    ptr::from_ref(domain.core()).cast()
}

/// Panics if `operation` would wait for the calling thread: inside a section of the domain, and in a stall hook.
#[track_caller]
pub(crate) fn assert_may_wait(domain: &dyn RawDomain, operation: impl fmt::Display) {
    assert!(!domain.in_read_section(), "{operation} {}", domain.inside());
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

/// Returns the calling thread's reader, if it has one, for a wait by `operation`.
///
/// # Panics
///
/// Inside a section of the domain, and in a stall hook.
#[track_caller]
pub(crate) fn reader_outside(
    domain: &dyn RawDomain,
    operation: impl fmt::Display,
) -> Option<&'static Reader> {
    assert_may_wait(domain, operation);
    domain.register_for_fork();
    domain.current_reader()
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
