//! Domains that are types: their state lies in statics, and their readers belong to threads.

use core::cell::Cell;

use crate::domain::fork::DomainFork;
use crate::readers::sections::protocol::ReaderProtocol;
use crate::readers::sections::registration::Registration;
use crate::readers::sections::scan::ThreadReaders;
use crate::reclaim::domain::Core;
use crate::reclaim::hazards::Hazards;
use crate::reclaim::queue::Queue;
use crate::slots::pointers;
use crate::sys::tls_destructor::AtThreadExit;

/// A domain that is a type without data: [`rcu::Global`](crate::rcu::Global), [`qsbr::Global`](crate::qsbr::Global),
/// and the types made by [`rcu::domain!`](crate::domain) and [`qsbr::domain!`](crate::qsbr_domain).
///
/// It has no methods for programs. Code for the handles of any domain of [`qsbr`](crate::qsbr) has this bound:
///
/// ```
/// use stillpoint::qsbr::{self, Handle};
/// use stillpoint::rcu::StaticDomain;
///
/// fn take<D: StaticDomain>(thread: &mut Handle<D>, job: impl FnOnce()) {
///     thread.offline(job);
/// }
///
/// take(&mut qsbr::register(), || println!("no grace period waits for this thread"));
/// ```
///
/// # Safety
///
/// Only the macros may implement it. Each type has a `DomainState` and a `ThreadState` of its own. While a `Section`
/// is borrowed, no grace period of the domain ends that began after the borrow. `Hazards` is `()` only if `hazards`
/// returns `None`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a domain",
    note = "a domain is `rcu::Global`, `qsbr::Global`, a type made by `domain!`, or a `srcu::Domain` itself: a clone of it, \
            not a reference"
)]
pub unsafe trait StaticDomain: Copy + Send + Sync + Unpin + 'static {
    /// The only value.
    #[doc(hidden)]
    const INSTANCE: &'static Self;
    #[doc(hidden)]
    const PROTOCOL: ReaderProtocol;
    /// The name of the domain in reports. (A function, as the name of a type is not a constant.)
    #[doc(hidden)]
    fn name() -> &'static str {
        core::any::type_name::<Self>()
    }
    /// What the domain has beyond others if it has hazard pointers.
    #[doc(hidden)]
    #[inline(always)]
    fn hazards() -> Option<&'static HazardState> {
        None
    }
    /// What lends references: see [`Domain::Section`](crate::Domain::Section).
    type Section;
    /// See [`Domain::Hazards`](crate::Domain::Hazards).
    type Hazards;

    #[doc(hidden)]
    fn shared() -> &'static DomainState;

    #[doc(hidden)]
    fn with_thread_state<T>(f: impl FnOnce(&ThreadState) -> T) -> T;

    #[doc(hidden)]
    fn with_section<T>(f: impl FnOnce(Option<&Self::Section>) -> T) -> T;
}

/// What a guard or handle that stays in its thread has a pointer to, which is neither `Send` nor `Sync`. The compiler
/// names it where a guard is sent to another thread, or held across `.await` in a future that must be `Send`.
pub enum DropBeforeAwaitOrUseSrcu {}

/// The state of a domain that all threads share.
#[doc(hidden)]
#[derive(Debug)]
pub struct DomainState {
    pub(crate) core: Core<ThreadReaders<Queue>>,
    pub(crate) fork: DomainFork,
    pub(super) at_exit: AtThreadExit,
}

impl DomainState {
    #[inline(always)]
    pub(crate) fn readers(&self) -> &ThreadReaders<Queue> {
        self.core.engine.readers()
    }
}

/// What a domain with hazard pointers has beyond others.
#[doc(hidden)]
#[derive(Debug)]
pub struct HazardState {
    pub(crate) hazards: Hazards,
}

impl HazardState {
    pub const fn initial() -> Self {
        Self { hazards: Hazards::new(pointers::TABLE.records()) }
    }
}

/// The state of a domain that each thread has.
#[doc(hidden)]
#[derive(Debug)]
pub struct ThreadState {
    pub(crate) registration: Registration,
    /// The thread's queue, while it is registered.
    pub(crate) queue: Cell<Option<&'static Queue>>,
    /// The thread has a [`Handle`](crate::qsbr::Handle), online or not.
    pub(crate) has_handle: Cell<bool>,
}

impl ThreadState {
    pub const fn initial() -> Self {
        Self { registration: Registration::new(), queue: Cell::new(None), has_handle: Cell::new(false) }
    }

    /// Returns the state of a thread whose destructors run.
    #[cfg(stillpoint_portable)]
    pub const fn ended() -> Self {
        Self { registration: Registration::ended(), ..Self::initial() }
    }
}
