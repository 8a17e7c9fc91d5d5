//! What the package `compat/crossbeam-epoch` needs. No stable interface.
//!
//! Everything here is safe: it runs deferred callbacks after their grace period, in the calling thread. So a callback
//! that takes a lock which the caller holds deadlocks.

use super::{Guard, Limits, RcuDomain};
use crate::Domain;
use crate::domain::entry;
use crate::domain::thread::registered_reader;

/// Defines a domain as [`domain!`](crate::domain) does, but threads run what is deferred when they begin a section, and
/// nowhere else.
pub use crate::epoch_domain as domain;

#[doc(hidden)]
#[macro_export]
macro_rules! epoch_domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $crate::static_domain! { rcu @on_entry $(#[$attr])* $vis struct $name; }
    };
}

/// Runs all callbacks that are ready, of all threads. When the outermost section of the calling thread ends, what has
/// been deferred goes through a grace period, unless a reader blocks it. When the next section begins, it runs.
pub fn flush<D: RcuDomain>(_section: &Guard<D>) {
    const { assert!(D::COLLECTS_ON_ENTRY, "sections of other domains do not end by collecting") };
    if let Some(reader) = registered_reader::<D>() {
        entry::flush::<D>(reader);
    }
}

/// Returns the number of sections of the domain that are open in the calling thread, nested ones included.
pub fn depth<D: RcuDomain>() -> u64 {
    registered_reader::<D>().map_or(0, |reader| reader.depth())
}

/// Sets how much may wait. Callers are throttled for a second at most, and then for a millisecond each, until a callback
/// has run.
pub fn set_limits<D: Domain>(domain: &D, limits: Limits) {
    domain.core().callbacks.backlog().throttle_shortly();
    domain.set_limits(limits);
}

/// Has what was deferred go through a grace period, unless a reader blocks it. Returns `true` if there is something.
/// Does nothing inside a section.
pub fn collect<D: Domain>(domain: &D) -> bool {
    !domain.in_read_section() && domain.core().callbacks.collect(None, domain)
}

/// Runs all callbacks that are ready. Does nothing in a callback.
pub fn run_ready<D: Domain>(domain: &D) {
    domain.core().callbacks.run_all_ready(None, domain);
}
