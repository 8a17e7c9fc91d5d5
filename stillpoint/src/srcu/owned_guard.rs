//! Guards that keep their domain.

use core::fmt;
use core::ops::Deref;

use super::domain::Domain;
use super::guard::Section;

/// An open read-side critical section of a [`Domain`], with a handle of the domain: a [`Guard`](super::Guard) that
/// borrows nothing. Dropping it, in any thread, ends the section.
///
/// It can be stored in a struct, and moved into a thread or a task. It takes two atomic operations more than a
/// `Guard`, on a word that all handles share.
///
/// A leaked guard (`mem::forget`) keeps its handle: its section never ends, and grace periods that wait for it are
/// [reported](crate::rcu::set_stall_hook).
///
/// ```
/// use std::thread;
/// use stillpoint::rcu::Rcu;
/// use stillpoint::srcu::{Domain, OwnedGuard};
///
/// struct Request {
///     guard: OwnedGuard,
///     path: String,
/// }
///
/// let domain = Domain::new();
/// let root = Rcu::new_in("/srv", domain.clone());
///
/// let request = Request { guard: domain.enter_owned(), path: "/index".to_owned() };
/// let answer = thread::spawn(move || format!("{}{}", root.load(&request.guard), request.path));
/// assert_eq!(answer.join().unwrap(), "/srv/index");
/// ```
#[must_use = "the section ends when the guard is dropped"]
pub struct OwnedGuard {
    section: Section,
    /// Dropped after the section has ended.
    _handle: Domain,
}

impl Domain {
    /// Begins a read-side critical section, as [`enter`](Self::enter) does, whose guard holds a handle instead of
    /// borrowing this one.
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[track_caller]
    pub fn enter_owned(&self) -> OwnedGuard {
        let handle = self.clone();
        OwnedGuard { section: Section::begin(handle.shared()), _handle: handle }
    }
}

impl Deref for OwnedGuard {
    type Target = Section;

    #[inline(always)]
    fn deref(&self) -> &Section {
        &self.section
    }
}

impl Drop for OwnedGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: kept by the handle, which is dropped after this.
        unsafe { self.section.end() };
    }
}

impl fmt::Debug for OwnedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedGuard").finish_non_exhaustive()
    }
}
