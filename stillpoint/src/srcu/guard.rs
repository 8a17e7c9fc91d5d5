//! Sleepable read-side critical sections as values.

use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
#[cfg(feature = "section-locations")]
use core::panic::Location;
use core::ptr::NonNull;

use super::state::SrcuState;
#[cfg(feature = "section-locations")]
use crate::readers::sections::section_sites::SiteIndex;
use crate::readers::srcu::Idx;

/// An open read-side critical section of a [`Domain`](super::Domain). Dropping the guard, in any thread, ends it.
///
/// It borrows a handle of the domain. While it exists, no grace period of the domain that begins can end.
///
/// The section of a leaked guard (`mem::forget`) never ends: grace periods wait for it for ever, and are
/// [reported](crate::rcu::set_stall_hook).
///
/// ```
/// use stillpoint::Domain as _;
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
    _handle: PhantomData<&'a SrcuState>,
}

/// The open section of a [`Guard`], without the lifetime of its borrowed handle, or of an
/// [`OwnedGuard`](super::OwnedGuard).
///
/// [`Rcu::load`](crate::rcu::Rcu::load) takes a reference to it, and a reference to a guard coerces to one.
pub struct Section {
    domain: NonNull<SrcuState>,
    idx: Idx,
    #[cfg(feature = "section-locations")]
    site: SiteIndex,
}

// SAFETY: the domain is shared by all threads, and a section may end in any.
unsafe impl Send for Section {}
// SAFETY: a shared section only gives the address of its domain.
unsafe impl Sync for Section {}

impl<'a> Guard<'a> {
    /// Begins a section of `domain`, which a handle keeps that is borrowed for `'a`.
    #[inline(always)]
    #[cfg_attr(feature = "section-locations", track_caller)]
    pub(super) fn enter(domain: &'a SrcuState) -> Self {
        Self { section: Section::begin(domain), _handle: PhantomData }
    }
}

impl Section {
    #[inline(always)]
    #[cfg_attr(feature = "section-locations", track_caller)]
    pub(super) fn begin(domain: &SrcuState) -> Self {
        let readers = domain.readers();
        Self {
            domain: NonNull::from(domain),
            #[cfg(feature = "section-locations")]
            site: readers.sites.begin(Location::caller()),
            idx: readers.read_lock(),
        }
    }

    /// # Safety
    ///
    /// The domain exists. The section is not used again.
    #[inline(always)]
    pub(super) unsafe fn end(&mut self) {
        // SAFETY: the caller's contract.
        let readers = unsafe { self.domain.as_ref() }.readers();
        #[cfg(feature = "section-locations")]
        readers.sites.end(self.site);
        readers.read_unlock(self.idx);
    }

    /// Returns `true` for a section of `domain`.
    #[inline(always)]
    pub(super) fn is_of(&self, domain: *const SrcuState) -> bool {
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

impl Borrow<Section> for Guard<'_> {
    #[inline(always)]
    fn borrow(&self) -> &Section {
        &self.section
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: kept by the handle, which is still borrowed.
        unsafe { self.section.end() };
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
