//! Cookies: which grace period a caller waits for, or asks after.

use core::cmp;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::audit::AuditTicket;
use crate::sync::shared_seq::SeqSnapshot;

/// A grace period to wait for, or to ask after. Of two, the smaller one ends no later.
#[derive(Clone, Copy)]
pub struct GpCookie {
    pub(crate) snapshot: SeqSnapshot,
    pub(crate) ticket: AuditTicket,
}

impl fmt::Debug for GpCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot.fmt(f)
    }
}

impl PartialEq for GpCookie {
    fn eq(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot
    }
}

impl Eq for GpCookie {}

impl PartialOrd for GpCookie {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GpCookie {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.snapshot.cmp(&other.snapshot)
    }
}

impl Hash for GpCookie {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snapshot.hash(state);
    }
}
