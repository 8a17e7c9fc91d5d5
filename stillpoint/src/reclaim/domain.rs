//! A domain as the library sees it: what all domains have, and what differs between them.
//!
//! Most domains are types ([`StaticDomain`](crate::domain::static_domain::StaticDomain)): their state lies in
//! statics, and the [`RawDomain`] is a value without size. A domain that is made at run time is a counted handle.
//! Values that defer, wait or publish contain their domain, so there is one [`Rcu`](crate::rcu::Rcu), one
//! [`Retired`](crate::rcu::Retired) and one [`GracePeriod`](crate::rcu::GracePeriod) for all.
//!
//! | | visible | what it is |
//! |---|---|---|
//! | [`Domain`](crate::Domain) | to all | the operations of programs, the type of sections, and whether there are hazard pointers |
//! | [`EnterSection`](crate::EnterSection) | to all | sections that any thread begins, and a guard ends |
//! | [`StaticDomain`](crate::domain::static_domain::StaticDomain) | to all; its items to the macros that make domains | state whose fields and methods are the library's own |
//! | [`RawDomain`] | in the library | what differs between a type and a handle |
//! | [`Core`] | in the library | the grace periods with their readers; the [`Work`]: the worker of deferred work, the poller |
//!
//! [`RawDomain`] is private, not only hidden: so the compiler refuses its methods outside of the library, even where
//! a bound implies the trait.

use core::fmt;
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::{iter, ptr};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(loom))]
use std::time::Duration;

use super::callback::{self, Callback, Panicked, listed};
use super::hazards::Hazards;
use super::poller::GpPoller;
use super::pool;
use super::pool::state::Submitted;
use super::queue::Queue;
use super::worker::state::CallbackWorker;
#[cfg(not(loom))]
use crate::grace_period::engine::ReaderSet;
use crate::grace_period::engine::{Denied, Engine, GpCookie, Patience};
use crate::grace_period::stall;
use crate::readers::any::AnyEngine;
use crate::readers::sections::reader::Reader;
use crate::sync::{complain, const_unless_loom, now, private_unless_loom};
#[cfg(not(loom))]
use crate::sync::{spin_loop, yield_now};

/// What the library does for a domain: deferred work, and what futures wait for.
#[derive(Debug)]
pub struct Work {
    pub callbacks: CallbackWorker,
    pub poller: GpPoller,
}

impl Work {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { callbacks: CallbackWorker::new(), poller: GpPoller::new() }
        }
    }

    /// As for [`Core`].
    ///
    /// # Safety
    ///
    /// As for [`ForkHook::child`](crate::sys::fork::ForkHook::child).
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe {
            self.callbacks.reset_in_child();
            self.poller.reset_in_child();
        }
    }
}

/// The grace periods of a domain with their readers, and its work.
#[derive(Debug)]
pub struct Core<R> {
    pub work: Work,
    pub engine: Engine<R>,
}

impl<R> Core<R> {
    const_unless_loom! {
        pub fn new(readers: R, name: fn() -> &'static str) -> Self {
            Self { work: Work::new(), engine: Engine::new(readers, name) }
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
        unsafe { self.work.reset_in_child() };
    }
}

private_unless_loom! {
    /// What differs between domains. The worker and all that is slow is compiled once, for a `dyn RawDomain`. Models
    /// have domains of their own, which provide threads.
    trait RawDomain {
        /// Returns `true` if the calling thread, though outside known sections of this domain, may be inside one, or
        /// is inside one of another domain.
        fn may_be_inside(&self) -> bool {
            false
        }

        /// Returns why a thread inside a section must not wait, and what to do instead: completes "synchronize()
        /// ...".
        fn inside(&self) -> &'static str {
            ""
        }

        fn engine(&self) -> &AnyEngine;

        /// Returns `true` once the grace period has ended.
        #[inline(always)]
        fn is_done(&self, cookie: GpCookie) -> bool {
            self.engine().is_done(cookie)
        }

        /// Returns the domain's work. Some domains allocate it here.
        fn work(&self) -> &Work;

        /// Returns the domain's work, or an empty one of no domain: to look at.
        #[inline(always)]
        fn seen_work(&self) -> &Work {
            self.work()
        }

        /// Returns the number of queues of callbacks, but for that of [`Hazards::kept`]. It does not decrease.
        fn queue_count(&self) -> usize;

        /// Returns the queue with this index, which is less than [`queue_count`](Self::queue_count).
        fn queue(&self, index: usize) -> &Queue;

        /// Returns the first queue from `index` on that may have callbacks, and its index. For the worker.
        fn next_queue(&self, index: usize) -> Option<(usize, &Queue)> {
            (index < self.queue_count()).then(|| (index, self.queue(index)))
        }

        /// Has [`next_queue`](Self::next_queue) omit the queues that are empty and that no thread has. For the worker.
        fn forget_queues(&self) {}

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

        /// Makes sure that the domain is reset in the child of a fork. Comes before any change that a child must
        /// undo.
        fn register_for_fork(&self);

        /// Pushes a callback, and does what the owner of the queue must do then.
        #[track_caller]
        fn defer(&self, callback: Callback)
        where
            Self: Sized;

        /// Has a thread of the library call `task`, which makes no handle of the domain and begins no section.
        fn submit(&self, task: fn(&dyn RawDomain)) -> Submitted;

        /// [`submit`](Self::submit) at the time `due`, in nanoseconds of [`now`](crate::sync::now).
        fn park(&self, due: u64, task: fn(&dyn RawDomain)) -> bool;

        /// Undoes [`park`](Self::park), if a thread has not taken the task.
        fn unpark(&self, due: u64) {
            pool::unpark(parked_at(self.engine(), due));
        }

        /// Returns `true` after [`park`](Self::park) until a thread takes the task, or until that is undone.
        fn is_parked(&self, due: u64) -> bool {
            pool::is_parked(parked_at(self.engine(), due))
        }

        /// Returns `true` if a thread resumes parked domains in time, so that pushes need not look after them.
        fn is_resumed(&self) -> bool {
            !pool::may_want_timer()
        }

        /// Returns `true` if no thread can be started now.
        fn must_wait(&self) -> bool {
            pool::must_wait()
        }

        /// Blocks until the grace period has ended. Called by threads of the library.
        fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
            let own = reader_if_outside(self);
            // It panics if the kernel denies the heavy fence.
            catch_unwind(AssertUnwindSafe(|| self.engine().wait_for(own, cookie))).map_err(|_| Denied)
        }
    }
}

impl dyn RawDomain + '_ {
    /// Returns the queues. Their order does not change: later ones come at the end.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        let mut kept = self.hazards().map(Hazards::kept);
        let mut rest = 0..self.queue_count();
        // Not a chain: each use of one is a page of code.
        iter::from_fn(move || kept.take().or_else(|| rest.next().map(|index| self.queue(index))))
    }

    /// Returns the queues that have callbacks, and their numbers: that of [`Hazards::kept`] has 0, others their index
    /// and 1. For the worker.
    pub fn pending_queues(&self) -> impl Iterator<Item = (usize, &Queue)> {
        let mut kept = self.hazards().map(Hazards::kept);
        let mut next = 0;
        let queues = iter::from_fn(move || {
            if let Some(kept) = kept.take() {
                return Some((0, kept));
            }
            let (index, queue) = self.next_queue(next)?;
            next = index + 1;
            Some((next, queue))
        });
        queues.filter(|(_, queue)| queue.has_pending())
    }
}

/// The key of the task of a parked domain.
pub(crate) fn parked_at(engine: &AnyEngine, due: u64) -> pool::TimerKey {
    (due, ptr::from_ref(engine).addr() as u64)
}

/// Returns `true` if no other thread can be inside a section: a grace period then costs nothing.
pub(super) fn is_alone(domain: &dyn RawDomain) -> bool {
    // Where there are hazard pointers, each grace period issues a fence.
    domain.hazards().is_none() && domain.engine().readers().no_other_readers(domain.current_reader())
}

/// Returns the calling thread's reader if the thread has one and is outside. If a callback has leaked a guard, its
/// thread is inside, and grace periods wait for it as for any other thread.
fn reader_if_outside<D: RawDomain + ?Sized>(domain: &D) -> Option<&'static Reader> {
    domain.current_reader().filter(|_| !domain.in_read_section())
}

/// Completes a grace period if that is possible without blocking. Returns `true` if it has been completed.
pub(crate) fn try_synchronize(domain: &dyn RawDomain) -> bool {
    // The worker will report a denied fence.
    try_lead(domain, None) == Ok(Some(true))
}

/// [`Engine::try_synchronize`](crate::grace_period::engine::Engine::try_synchronize) for the calling thread.
pub(super) fn try_lead(
    domain: &dyn RawDomain,
    patience: Option<Patience<'_>>,
) -> Result<Option<bool>, Denied> {
    let try_lead = || domain.engine().try_synchronize(reader_if_outside(domain), patience);
    if cfg!(loom) {
        return Ok(try_lead());
    }
    // It panics if the kernel denies the heavy fence.
    catch_unwind(AssertUnwindSafe(try_lead)).map_err(|_| Denied)
}

/// [`try_synchronize`], which gives a thread that leads a grace period at this moment, and waits for no reader, time
/// to end it.
#[cfg(not(loom))]
pub(crate) fn try_synchronize_patiently(domain: &dyn RawDomain) -> bool {
    /// Several times what a thread waits for a busy CPU.
    const PATIENCE: u64 = 50_000_000;
    const SPINS: u32 = 100;
    let engine = domain.engine();
    let needed = engine.snapshot();
    let (mut spins, mut until) = (SPINS, None);
    loop {
        let tried = try_lead(domain, None).unwrap_or(Some(false));
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

/// Tries grace periods until that of the cookie has ended, for a thread that no other one serves. Returns `false`
/// after `until`, if that is a time.
#[cfg(not(loom))]
pub(crate) fn try_until(domain: &dyn RawDomain, cookie: GpCookie, until: Option<u64>) -> bool {
    while !domain.engine().is_done(cookie) {
        if !try_synchronize_patiently(domain) {
            if until.is_some_and(|until| now() >= until) {
                return false;
            }
            std::thread::sleep(TRY_INTERVAL);
        }
    }
    true
}

/// Returns the address of a domain, which no other domain has while a handle or a task of it exists.
pub(crate) fn address(domain: &dyn RawDomain) -> *const () {
    ptr::from_ref(domain.engine()).cast()
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

/// The operation of a future, which was made at a place in the program: by `.await`, or by a call before it. A panic
/// in `poll` has the executor's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Await(pub(crate) &'static str, pub(crate) &'static Location<'static>);

impl fmt::Display for Await {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(what, site) = self;
        write!(f, "`.await` of {what}, at {site},")
    }
}

/// Callbacks and destructors that have panicked, in all domains.
static PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn panics() -> u64 {
    PANICS.load(Relaxed)
}

/// Runs a callback of `domain`, which has this [`address`], and whose grace period has ended.
#[inline(always)]
pub(crate) fn run(domain: &dyn RawDomain, address: *const (), callback: Callback) {
    let is_free_only = callback.is_free_only();
    // SAFETY: the caller's contract.
    let run = || unsafe { callback.run() };
    // The threads of a model share what belongs to a thread here.
    let panicked = if is_free_only || cfg!(loom) { run() } else { listed(address, run) };
    if let Some(panicked) = panicked {
        report_panic(domain, panicked());
    }
}

/// Counts a panic, and writes to the standard error what its message does not say: which domain's callback it was.
#[cold]
fn report_panic(domain: &dyn RawDomain, Panicked { what, name }: Panicked) {
    PANICS.fetch_add(1, Relaxed);
    let site = domain.made_at().map_or(String::new(), |site| format!(", made at {site},"));
    let domain = domain.engine().domain();
    complain(format_args!("{what} in {domain}{site} has panicked: {name}"));
}

/// Panics if `operation`, which waits for callbacks of `domain`, would wait for the calling thread.
#[cfg(not(loom))]
#[track_caller]
pub(crate) fn assert_may_wait_for_callbacks(
    domain: &dyn RawDomain,
    operation: impl core::fmt::Display + Copy,
) {
    assert_may_wait(domain, operation);
    assert!(
        !callback::is_running(address(domain)),
        "{operation} inside a callback of the same domain would wait for itself"
    );
}

/// Nanoseconds between two attempts of a poller that must not sleep.
const POLL_INTERVAL: u64 = 4_000_000;
/// The time between two attempts of a thread of the program.
#[cfg(not(loom))]
const TRY_INTERVAL: Duration = Duration::from_millis(1);

/// Has a thread of the library run the domain's poller. Returns `false` if there is no thread.
pub(crate) fn submit_poller(domain: &dyn RawDomain) -> bool {
    match domain.submit(poll) {
        Submitted::Started => true,
        Submitted::Full => park_poller(pool::first_look(), domain),
        Submitted::Failed => park_poller(now() + POLL_INTERVAL, domain),
    }
}

fn park_poller(due: u64, domain: &dyn RawDomain) -> bool {
    // Odd: see `TimerKey`.
    domain.park(due | 1, poll)
}

/// Tries to start a thread for what is parked, if none could be started for it. Returns `true` if there is still
/// none, and the calling thread cannot be it: it must do itself what it waits for. Takes one load if none has failed
/// to start.
pub(crate) fn must_do_without() -> bool {
    pool::retry() && (!pool::is_worker() || callback::is_any_running())
}

/// The poller's task.
fn poll(domain: &dyn RawDomain) {
    let (engine, poller) = (domain.engine(), &domain.work().poller);
    let wait_for = |cookie| wait_or_try(domain, cookie);
    let waited = || domain.work().callbacks.tried.age(engine.completed() + 1);
    let delay = || pool::retry_delay(waited(), [POLL_INTERVAL, 25 * POLL_INTERVAL]);
    if poller.run(engine, || submit_poller(domain), wait_for) && !park_poller(now() + delay(), domain) {
        poller.dismiss(false);
    }
}

/// Returns `true` if this thread of the library must park what it works for instead of sleeping, as others wait for
/// it. A thread that runs code of the program cannot.
pub(super) fn is_wanted() -> bool {
    (pool::is_runner() || pool::is_wanted()) && !callback::is_any_running()
}

/// Waits for the grace period if this thread of the library may sleep, or else tries one. Returns `false` if the
/// caller must park what it works for.
pub(super) fn wait_or_try(domain: &dyn RawDomain, cookie: GpCookie) -> Result<bool, Denied> {
    // Code of the program that this thread runs blocks it in any case.
    if !callback::is_any_running() && !pool::may_sleep() {
        let tried = &domain.work().callbacks.tried;
        let call = |f: &mut dyn FnMut()| {
            let _code = pool::in_code();
            f();
        };
        let patience = is_wanted().then(|| Patience { until: pool::free_until(), tried, call });
        let led = try_lead(domain, patience)?;
        let has_ended = led == Some(true);
        // Readers that overlap leave some time each, but not all at a moment.
        let must_sleep = led == Some(false) && tried.must_sleep(domain.engine().completed() + 1);
        if must_sleep && pool::resign() {
            // As a thread of the domain, beyond those that there are for domains.
        } else if is_wanted() {
            return Ok(has_ended && pool::is_runner());
        } else if has_ended || !pool::start_spare() {
            return Ok(has_ended);
        }
    }
    domain.wait_for(cookie)?;
    Ok(true)
}
