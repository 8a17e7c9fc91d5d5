//! The room of a map.

use core::fmt;
use std::error::Error;

use super::HashMap;
use crate::memory::NoMemory;
use crate::sync::Domain;

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: Domain> HashMap<K, V, S, D> {
    /// Makes room for `additional` more entries: on return, [`capacity`](Self::capacity) has been that large.
    ///
    /// That takes time in proportion to the table. Without it, the table grows as entries are inserted, each of which
    /// moves a few. The room stays, as after [`with_capacity`](HashMap::with_capacity), until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    ///
    /// # Panics
    ///
    /// If the table does not fit into the address space.
    #[track_caller]
    pub fn reserve(&self, additional: usize, guard: &D::Section) {
        self.tables.domain.check_section(guard);
        if let Err(error) = self.tables.reserve(additional, (), guard) {
            error.fail();
        }
    }

    /// [`reserve`](Self::reserve), but for an error if there is no memory.
    ///
    /// # Errors
    ///
    /// If the table does not fit into the address space, or the allocator has no memory for it. The map is as before.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let map = HashMap::from([(1, "one")]);
    /// let guard = rcu::enter();
    /// assert!(map.try_reserve(1000, &guard).is_ok());
    /// assert!(map.try_reserve(usize::MAX, &guard).is_err());
    /// ```
    #[track_caller]
    pub fn try_reserve(&self, additional: usize, guard: &D::Section) -> Result<(), TryReserveError> {
        self.tables.domain.check_section(guard);
        self.tables.reserve(additional, (), guard).map_err(TryReserveError)
    }

    /// Shrinks the table to its entries, and no longer keeps the room that was reserved.
    ///
    /// That takes time in proportion to the table. Only reserved room needs it: a table shrinks by itself as entries
    /// are removed, until it is as large as was reserved.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let map = HashMap::with_capacity(100_000);
    /// let guard = rcu::enter();
    /// map.insert(1, "one", &guard);
    /// assert!(map.capacity(&guard) >= 100_000);
    /// map.shrink_to_fit(&guard);
    /// assert!(map.capacity(&guard) < 10_000);
    /// ```
    #[track_caller]
    pub fn shrink_to_fit(&self, guard: &D::Section) {
        self.tables.domain.check_section(guard);
        self.tables.shrink_to_fit((), guard);
    }
}

/// There is no memory for a table: see [`HashMap::try_reserve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TryReserveError(pub(crate) NoMemory);

impl fmt::Display for TryReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for TryReserveError {}
