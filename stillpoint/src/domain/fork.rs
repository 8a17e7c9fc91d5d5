//! The domains that are types, in the child of a `fork`.
//!
//! The child has a copy of the parent's memory, and one thread, the one that forked. Its domains are reset for a
//! process with that thread alone: other readers are gone, with the sections they were in; no grace period is in
//! progress; nothing is deferred, as the parent runs it; there are no workers until there is work.
//!
//! [`crate::sys::fork`] calls this in the child, before `fork` returns. Locks that other threads held are not
//! acquired but overwritten ([`ForkSafe`](crate::sync::ForkSafe)); the lock of the list is held during the fork
//! ([`ForkLock`]).

use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use crate::grace_period::stall;
use crate::reclaim::domain::RawDomain;
use crate::reclaim::pool;
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::fork_lock::ForkLock;
use crate::sys::init_array;

/// The list of domains in use. It changes under the lock, and is read without.
static DOMAINS: AtomicPtr<DomainFork> = AtomicPtr::new(ptr::null_mut());
static LIST_LOCK: ForkLock<()> = ForkLock::new(());

/// A domain's place in the list.
pub struct DomainFork {
    domain: &'static (dyn RawDomain + Sync),
    /// The child calls it.
    reset: fn(),
    next: AtomicPtr<DomainFork>,
    is_listed: AtomicBool,
}

impl fmt::Debug for DomainFork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainFork").finish_non_exhaustive()
    }
}

impl DomainFork {
    pub(crate) const fn new(domain: &'static (dyn RawDomain + Sync), reset: fn()) -> Self {
        Self { domain, reset, next: AtomicPtr::new(ptr::null_mut()), is_listed: AtomicBool::new(false) }
    }

    /// Adds the domain to the list. Comes before any change that a child must undo.
    #[inline]
    pub(crate) fn register(&'static self) {
        // Acquire: the list contains the domain; pairs with the Release in `register_slow`.
        if !self.is_listed.load(Acquire) {
            self.register_slow();
        }
    }

    #[cold]
    fn register_slow(&'static self) {
        // Again, if it was not called before `main`. If there is no memory, the next caller tries again.
        if !register_for_fork(&FORK) {
            return;
        }
        LIST_LOCK.with(|()| {
            // Relaxed, as below: under the lock.
            if self.is_listed.load(Relaxed) {
                return;
            }
            self.next.store(DOMAINS.load(Relaxed), Relaxed);
            // Release: publishes `next`; pairs with the Acquire in `domains`.
            DOMAINS.store(ptr::from_ref(self).cast_mut(), Release);
            // Release: pairs with the Acquire in `register`.
            self.is_listed.store(true, Release);
        });
    }
}

/// Returns `true` if the calling thread is inside a section of any domain that is a type.
pub(crate) fn in_read_section() -> bool {
    domains().any(|domain| domain.domain.in_read_section())
}

/// Returns the domains that are types and have been used.
#[cfg(feature = "statistics-page")]
pub(crate) fn used() -> impl Iterator<Item = &'static dyn RawDomain> {
    domains().map(|domain| domain.domain as &dyn RawDomain)
}

fn domains() -> impl Iterator<Item = &'static DomainFork> {
    // Acquire: pairs with the Release in `register_slow`.
    let mut next = DOMAINS.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: all domains in the list are static.
        let domain: &'static DomainFork = unsafe { next.as_ref() }?;
        // Relaxed: it does not change once the domain is listed.
        next = domain.next.load(Relaxed);
        Some(domain)
    })
}

static FORK: ForkHook =
    ForkHook { order: 3, prepare: || LIST_LOCK.hold(), parent: || LIST_LOCK.release(), child: in_child };

init_array!(register_for_fork(&FORK));

/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: the caller's contract.
    unsafe {
        pool::reset_in_child();
        stall::reset_in_child();
    }
    domains().for_each(|domain| (domain.reset)());
    LIST_LOCK.release();
}
