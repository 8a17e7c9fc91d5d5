//! Collectors: the default one, a domain of `stillpoint::rcu`, and others, domains of `stillpoint::srcu`.

use std::fmt;
use std::sync::Arc;

use stillpoint::srcu;

use crate::global::{Global, This};

stillpoint::domain! {
    /// The domain of the default collector.
    pub(crate) struct DefaultDomain;
}

/// The garbage of the default collector.
pub(crate) static DEFAULT: Global<DefaultDomain> = Global::new(DefaultDomain, This::Static(&DEFAULT));

/// On processors with this property, loads that acquire suffice where crossbeam-deque relies on the fence of
/// [`pin`](crate::pin). The README has the argument.
pub(crate) const MULTI_COPY_ATOMIC: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));

/// Returns the collector that [`pin`](crate::pin) uses.
#[inline]
pub fn default_collector() -> &'static Collector {
    static COLLECTOR: Collector = Collector { own: None };
    &COLLECTOR
}

/// A garbage collector: participants, which pin, and functions that they defer.
///
/// Clones are the same collector. When the last clone, the last handle and the last guard are dropped, the functions
/// run that are still deferred.
///
/// ```
/// use crossbeam_epoch::Collector;
///
/// let collector = Collector::new();
/// let handle = collector.register();
/// drop(collector);
/// assert!(handle.pin().collector() == Some(handle.collector()));
/// ```
#[derive(Clone)]
pub struct Collector {
    /// None: the default collector.
    own: Option<Arc<Own>>,
}

/// What collectors and handles share. A sweep keeps only the garbage.
struct Own(Arc<Global<srcu::Domain>>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl Collector {
    /// Creates a collector.
    #[track_caller]
    pub fn new() -> Self {
        let domain = srcu::Domain::new();
        let new = |this: &_| Global::new(domain, This::Counted(Clone::clone(this)));
        Self { own: Some(Arc::new(Own(Arc::new_cyclic(new)))) }
    }

    /// Returns the garbage, or `None` for the default collector.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Global<srcu::Domain>> {
        self.own.as_ref().map(|own| &*own.0)
    }
}

impl PartialEq for Collector {
    fn eq(&self, other: &Self) -> bool {
        self.own.as_ref().map(Arc::as_ptr) == other.own.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for Collector {}

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
