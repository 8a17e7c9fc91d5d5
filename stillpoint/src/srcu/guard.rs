//! The sleepable section as a value.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::shared::Shared;
use crate::readers::srcu::Idx;

/// An open section of a [`Domain`](super::Domain). Dropping it, in any thread, ends the section.
///
/// It borrows a handle of the domain. While it lives, no grace period of the domain that begins can end.
///
/// A leaked guard (`mem::forget`) never ends its section: grace periods wait for it until the last handle of the domain has
/// gone, and the [stall report](crate::rcu::set_stall_hook) says so.
///
/// ```
/// use stillpoint::srcu::Domain;
///
/// static SESSIONS: Domain = Domain::new();
///
/// let guard = SESSIONS.enter();
/// std::thread::spawn(move || drop(guard)).join().unwrap();
/// SESSIONS.synchronize();
/// ```
#[must_use = "the section ends when the guard is dropped"]
pub struct Guard<'a> {
    section: Section,
    _handle: PhantomData<&'a Shared>,
}

/// What a [`Guard`] stands for: an open section, without the time for which its domain's handle is borrowed.
///
/// [`Rcu::load`](crate::rcu::Rcu::load) takes a reference to this, which a reference to a guard becomes by itself.
pub struct Section {
    domain: NonNull<Shared>,
    idx: Idx,
}

// SAFETY: the domain is shared by all threads, and a section may end in any.
unsafe impl Send for Section {}
// SAFETY: shared, it only says which domain it is of.
unsafe impl Sync for Section {}

impl<'a> Guard<'a> {
    /// Begins a section of `domain`, which a handle borrowed for `'a` keeps.
    #[inline(always)]
    pub(super) fn enter(domain: &'a Shared) -> Self {
        let idx = domain.phases().read_lock();
        Self { section: Section { domain: NonNull::from(domain), idx }, _handle: PhantomData }
    }
}

impl Section {
    /// Returns `true` if it is one of `domain`.
    #[inline(always)]
    pub(super) fn is_of(&self, domain: *const Shared) -> bool {
        core::ptr::eq(self.domain.as_ptr(), domain)
    }
}

impl Deref for Guard<'_> {
    type Target = Section;

    #[inline(always)]
    fn deref(&self) -> &Section {
        &self.section
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle is borrowed still, and keeps it.
        let domain = unsafe { self.section.domain.as_ref() };
        domain.phases().read_unlock(self.section.idx);
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").finish_non_exhaustive()
    }
}
