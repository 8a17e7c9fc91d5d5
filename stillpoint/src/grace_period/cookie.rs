//! Cookies: which grace period a caller waits for, or asks after.

use core::cmp;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::audit::Ticket;
use crate::sync::shared_seq::SeqSnapshot;

/// A grace period to wait for, or to ask after. Of two, the smaller one ends no later.
#[derive(Clone, Copy)]
pub struct Due {
    pub(crate) snapshot: SeqSnapshot,
    pub(crate) ticket: Ticket,
}

impl fmt::Debug for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot.fmt(f)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.snapshot.cmp(&other.snapshot)
    }
}

impl Hash for Due {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snapshot.hash(state);
    }
}
