//! What becomes of the domains in the child of a `fork`.
//!
//! The child has a copy of the parent's memory and one thread, the one that forked. Its domains become those of a process
//! with that thread alone: other readers are gone, with the sections they were in; no grace period is under way; nothing is
//! deferred, as the parent will do it; there are no workers until there is work.
//!
//! Called by [`crate::sys::fork`], in the child before `fork` returns. Locks that other threads held are not taken but written
//! over ([`ForkSafe`]).

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::sync::{Mutex, PoisonError};

use crate::grace_period::stall;
use crate::reclaim::worker_pool;
use crate::sync::ForkSafe;
use crate::sys::fork::{ForkHook, Part, register_for_fork};
use crate::sys::init_array;

/// The domains in use. The list changes under the lock, and is right at every moment, for a fork by another thread.
static DOMAINS: AtomicPtr<DomainFork> = AtomicPtr::new(ptr::null_mut());
static LISTING: ForkSafe<Mutex<()>> = ForkSafe::new(Mutex::new(()));

/// A domain's place in the list.
#[derive(Debug)]
pub struct DomainFork {
    reset: fn(),
    in_read_section: fn() -> bool,
    next: AtomicPtr<DomainFork>,
    is_listed: AtomicBool,
}

impl DomainFork {
    /// `reset` is called in the child. `in_read_section` says whether the calling thread is inside a section.
    pub(crate) const fn new(reset: fn(), in_read_section: fn() -> bool) -> Self {
        Self {
            reset,
            in_read_section,
            next: AtomicPtr::new(ptr::null_mut()),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Makes forks known to the domain. Before a thread may be found, by a fork, at something that is to be reset.
    #[inline]
    pub(crate) fn enlist(&'static self) {
        // Acquire: the domain is in the list, should this thread fork; partner: the Release in `enlist_slow`.
        if !self.is_listed.load(Acquire) {
            self.enlist_slow();
        }
    }

    #[cold]
    fn enlist_slow(&'static self) {
        // Again, if it has not been called before `main`. Without memory, the next caller tries again.
        if !register_for_fork(&FORK) {
            return;
        }
        let _alone = LISTING.get().lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed, as below: under the lock.
        if self.is_listed.load(Relaxed) {
            return;
        }
        self.next.store(DOMAINS.load(Relaxed), Relaxed);
        // Release: partner is the Acquire in `domains`, for a fork by another thread.
        DOMAINS.store(ptr::from_ref(self).cast_mut(), Release);
        // Release: partner is the Acquire in `enlist`.
        self.is_listed.store(true, Release);
    }
}

/// Whether the calling thread is inside a section of any domain that is a type.
pub(crate) fn in_read_section() -> bool {
    domains().any(|domain| (domain.in_read_section)())
}

fn domains() -> impl Iterator<Item = &'static DomainFork> {
    // Acquire: partner is the Release in `enlist_slow`.
    let mut next = DOMAINS.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: only domains, which are static, are ever listed.
        let domain: &'static DomainFork = unsafe { next.as_ref() }?;
        // Relaxed: it does not change once the domain is listed.
        next = domain.next.load(Relaxed);
        Some(domain)
    })
}

static FORK: ForkHook = ForkHook::in_child(Part::Rcu, in_child);

init_array!(register_for_fork(&FORK));

/// The child of a fork.
///
/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: the caller's contract.
    unsafe {
        LISTING.overwrite(Mutex::new(()));
        worker_pool::reset_in_child();
        stall::reset_in_child();
    }
    for domain in domains() {
        // Another thread may have been about to say so.
        domain.is_listed.store(true, Relaxed);
        (domain.reset)();
    }
}
