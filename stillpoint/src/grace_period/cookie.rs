//! Grace-period cookies.

use core::cmp;
use core::hash::{Hash, Hasher};

use super::audit::AuditTicket;
use crate::sync::shared_seq::SeqSnapshot;

/// Names a grace period, to wait for it or to check it. Of two cookies, the smaller one's grace period ends no later.
#[derive(Debug, Clone, Copy)]
pub struct GpCookie {
    pub(crate) snapshot: SeqSnapshot,
    pub(crate) ticket: AuditTicket,
}

#[cfg(feature = "urcu")]
impl GpCookie {
    /// Returns the number of the grace period.
    pub fn number(self) -> u64 {
        self.snapshot.number()
    }

    /// Returns a cookie of the grace period with this [`number`](Self::number).
    pub fn from_number(number: u64) -> Self {
        Self { snapshot: SeqSnapshot::from_number(number), ticket: AuditTicket::default() }
    }
}

// The ticket does not take part in comparisons: it differs among cookies of one grace period.

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
