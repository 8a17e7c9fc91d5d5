//! Domains with hazard pointers that are values.

use core::panic::Location;

use super::{Global, HazardDomain};
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{Core, OwnReader, RawDomain, parked_at};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::queue::Queue;
use crate::reclaim::{lazy_timer, worker_pool};
use crate::srcu::{self, Guard, Section};
use crate::{Barrier, EnterSection};

/// A domain with [hazard pointers](crate::hazard) that is a value: it has limits, statistics, and a lifetime of its own.
/// This is a handle; clones are handles of the same domain.
///
/// Its sections are those of a [`srcu::Domain`], which may sleep. A [`HazardPointer`](super::HazardPointer) serves it as it
/// serves the others, and may outlive it: what it protects then is kept by [`Global`].
///
/// ```
/// use stillpoint::Domain as _;
/// use stillpoint::hazard::{Domain, HazardPointer};
/// use stillpoint::rcu::Rcu;
///
/// let sessions = Domain::new();
/// let name = Rcu::new_in(String::from("a"), sessions.clone());
/// let mut pointer = HazardPointer::new();
/// let seen = pointer.protect(&name);
/// name.replace("b".into());
/// sessions.barrier();
/// assert_eq!(seen, "a");
/// assert_eq!(*name.load(&sessions.enter()), "b");
/// ```
///
/// Without a handle, what was retired is freed soon, but for what hazard pointers protect, which is freed within about a
/// second after they let go. It counts in [`Stats::protected`](crate::rcu::Stats::protected) of [`Global`], whose worker runs
/// the destructors then: they must not wait for a barrier of either domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain(srcu::Domain);

/// Has [`Global`] keep what was retired in a domain, and is protected.
fn keep(callback: Callback) {
    Global.register_for_fork();
    if let Some(hazards) = RawDomain::hazards(&Global) {
        hazards.keep(callback);
    }
    // Not as a lazy callback, which the worker may look at much later.
    Global.core().callbacks.notify(false, &Global);
}

impl Domain {
    /// Creates a domain, and the first handle. It allocates when it is used first, as a
    /// [`srcu::Domain`](srcu::Domain::new).
    #[track_caller]
    pub const fn new() -> Self {
        Self(srcu::Domain::with_hazard_pointers(keep))
    }

    /// Begins a read-side critical section: as [`srcu::Domain::enter`].
    #[inline]
    #[track_caller]
    pub fn enter(&self) -> Guard<'_> {
        self.0.enter()
    }
}

impl Default for Domain {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the inner domain has hazard pointers.
unsafe impl HazardDomain for Domain {}

impl crate::Domain for Domain {
    type Section = Section;

    fn with_section<T>(&self, f: impl FnOnce(Option<&Section>) -> T) -> T {
        self.0.with_section(f)
    }

    #[inline(always)]
    #[track_caller]
    fn check_section(&self, section: &Section) {
        self.0.check_section(section);
    }

    fn flush(&self) -> bool {
        crate::Domain::flush(&self.0)
    }

    /// Also blocks until [`Global`] has freed what it keeps, and panics where its barrier does.
    #[track_caller]
    fn barrier(&self) {
        crate::Domain::barrier(&self.0);
        Global.barrier();
    }

    #[track_caller]
    fn barrier_async(&self) -> Barrier<Self> {
        Barrier::new(self.clone(), Some(Box::pin(Global.barrier_async())))
    }
}

impl EnterSection for Domain {
    type Guard<'a> = Guard<'a>;

    #[inline(always)]
    #[track_caller]
    fn enter_section(&self) -> Guard<'_> {
        self.enter()
    }
}

impl RawDomain for Domain {
    type Readers = SrcuReaders;

    const MAY_BE_INSIDE: bool = <srcu::Domain as RawDomain>::MAY_BE_INSIDE;

    #[inline(always)]
    fn core(&self) -> &Core<SrcuReaders> {
        self.0.core()
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.0.queues()
    }

    #[inline(always)]
    fn hazards(&self) -> Option<&Hazards> {
        self.0.hazards()
    }

    fn made_at(&self) -> Option<&'static Location<'static>> {
        self.0.made_at()
    }

    fn current_reader(&self) -> Option<&'static OwnReader<Self>> {
        self.0.current_reader()
    }

    fn in_read_section(&self) -> bool {
        self.0.in_read_section()
    }

    fn register_for_fork(&self) {
        self.0.register_for_fork();
    }

    fn defer(&self, callback: Callback, lazy: bool) {
        self.0.defer(callback, lazy);
    }

    fn submit(&self, task: fn(&Self)) -> bool {
        let domain = self.clone();
        worker_pool::submit(move || task(&domain))
    }

    fn park(&self, due: u64, task: fn(&Self)) -> bool {
        let domain = self.clone();
        lazy_timer::park(parked_at(self, due), move || task(&domain))
    }
}
