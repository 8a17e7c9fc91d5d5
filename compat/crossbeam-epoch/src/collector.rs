//! Collectors: the default one, a domain of `stillpoint::rcu`, and others, domains of `stillpoint::srcu`.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use stillpoint::rcu::{DeferOptions, epoch};
use stillpoint::srcu;

use crate::limits;

epoch::domain! {
    /// The domain of the default collector.
    pub(crate) struct DefaultDomain;
}

/// On processors with this property, loads that acquire suffice where crossbeam-deque relies on the fence of [`pin`](crate::pin).
/// The README has the argument.
pub(crate) const MULTI_COPY_ATOMIC: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));

/// Returns the collector that [`pin`](crate::pin) uses.
///
/// ```
/// use crossbeam_epoch as epoch;
///
/// assert_eq!(epoch::pin().collector(), Some(epoch::default_collector()));
/// ```
#[inline]
pub fn default_collector() -> &'static Collector {
    static DEFAULT: Collector = Collector { domain: None };
    &DEFAULT
}

/// Deferred functions may run in the thread that has deferred them, as in crossbeam-epoch. They count towards the limits
/// as if values owned no memory: what they own is not known.
pub(crate) const OPTIONS: DeferOptions = DeferOptions::new().run_on_retiring_thread().heap_bytes(0);

/// Returns the domain of the default collector, in which functions are deferred.
#[inline]
pub(crate) fn default_domain() -> DefaultDomain {
    static HAS_LIMITS: AtomicBool = AtomicBool::new(false);
    #[cold]
    fn set_limits() {
        epoch::set_limits(&DefaultDomain, limits::of_default());
        HAS_LIMITS.store(true, Relaxed);
    }
    // Relaxed: the limits are words of their own.
    if !HAS_LIMITS.load(Relaxed) {
        set_limits();
    }
    DefaultDomain
}

/// A garbage collector: participants, which pin, and functions that they defer.
///
/// Clones are the same collector. It is a `stillpoint::srcu::Domain`, whose worker runs what is still deferred when the
/// last clone and the last handle are dropped.
///
/// ```
/// use crossbeam_epoch::Collector;
///
/// let collector = Collector::new();
/// let handle = collector.register();
/// drop(collector);
/// assert!(handle.pin().collector() == Some(handle.collector()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Collector {
    /// None: the default collector.
    domain: Option<srcu::Domain>,
}

impl Collector {
    /// Creates a collector.
    #[track_caller]
    pub fn new() -> Self {
        let domain = srcu::Domain::new();
        epoch::set_limits(&domain, limits::of_collector());
        Self { domain: Some(domain) }
    }

    /// Returns the domain, or `None` for the default collector.
    #[inline]
    pub(crate) fn domain(&self) -> Option<&srcu::Domain> {
        self.domain.as_ref()
    }
}

impl Default for Collector {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
