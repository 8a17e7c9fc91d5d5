//! An independent count of grace periods, which asserts that each caller gets a full one.
//!
//! In debug builds, in the models, and with `--cfg stillpoint_audit`. Otherwise the types are empty and cost nothing.
//!
//! The leader counts grace periods when they begin and when they end, independently of [`crate::sync::shared_seq`]. A
//! caller takes an [`AuditTicket`], the number of grace periods that have begun, before its snapshot. When its wait
//! is over, a grace period with a greater number must have ended ([`GpAudit::assert_full_gp`]).
//!
//! - *A correct algorithm never fails.* The caller's snapshot happens before the beginning of the grace period that
//!   serves it, so the ticket precedes that one's number in the modification order of `begun`, and is smaller. The
//!   end happens before the caller's return, so the caller sees `ended` at this number or a later one: grace periods
//!   do not overlap.
//! - *An incorrect one does.* A ticket is taken by a read-modify-write, which reads the newest value: it is not
//!   smaller than the number of any grace period that has begun. Neither one that had begun before, nor one that
//!   failed (whose number is not stored), makes `ended` exceed it. So a caller that returns too early finds no
//!   greater number, unless another grace period has begun and ended in between; then it was served after all.
//! - *Two errors remain unseen*: a grace period that ends before its readers have left, and a caller that is served
//!   by a round that had started, but whose grace period was not counted yet (its fence was still to come).
//!
//! All orderings are Relaxed: the argument takes every "happens before" from the algorithm. On the machine a
//! read-modify-write may order more than it must, so a debug build does not prove a release build. The counters are
//! `core`'s in models too, and invisible to loom: the audit must add neither orderings nor steps, or it might hide
//! errors. One thread runs at a time there, so the counters are up to date.

use core::iter::zip;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of counters of a kind: 1 in a build with the audit, else 0.
const COUNTERS: usize = cfg!(any(debug_assertions, loom, stillpoint_audit)) as usize;

/// See the [module](self).
#[derive(Debug)]
pub struct GpAudit {
    /// The number of the last grace period that has begun, failed ones included.
    begun: [AtomicU64; COUNTERS],
    /// The number of the last one that has ended.
    ended: [AtomicU64; COUNTERS],
}

/// The number of the last grace period that had begun at some moment; by default, of none.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditTicket([u64; COUNTERS]);

impl GpAudit {
    pub const fn new() -> Self {
        Self {
            begun: [const { AtomicU64::new(0) }; COUNTERS],
            ended: [const { AtomicU64::new(0) }; COUNTERS],
        }
    }

    /// Returns the ticket of a caller, which takes it before its snapshot.
    #[inline]
    pub fn ticket(&self) -> AuditTicket {
        // A read-modify-write, as a load might be older.
        self.advance(0)
    }

    /// Begins a grace period. Called by the leader, after the start of its round.
    #[inline]
    pub fn begin(&self) -> AuditTicket {
        self.advance(1)
    }

    fn advance(&self, by: u64) -> AuditTicket {
        let mut ticket = AuditTicket::default();
        for (number, begun) in zip(&mut ticket.0, &self.begun) {
            *number = begun.fetch_add(by, Relaxed) + by;
        }
        ticket
    }

    /// Ends the grace period `number`. Called by the leader, before the end of its round.
    #[inline]
    pub fn end(&self, number: AuditTicket) {
        zip(&self.ended, number.0).for_each(|(ended, number)| ended.store(number, Relaxed));
    }

    /// Asserts that a grace period has begun and ended since the caller took `ticket`.
    #[inline]
    #[track_caller]
    pub fn assert_full_gp(&self, ticket: AuditTicket) {
        for (ended, begun) in zip(&self.ended, ticket.0) {
            let ended = ended.load(Relaxed);
            assert!(
                ended > begun,
                "a caller returned before a grace period that began after its call: {begun} had begun then, the last \
                 that ended is number {ended}; this is a bug in stillpoint"
            );
        }
    }
}

#[cfg(all(test, any(debug_assertions, stillpoint_audit)))]
mod tests {
    use super::GpAudit;

    #[test]
    fn later_grace_period_serves_the_ticket() {
        let audit = GpAudit::new();
        let running = audit.begin();
        let ticket = audit.ticket();
        audit.end(running);
        audit.end(audit.begin());
        audit.assert_full_gp(ticket);
    }

    #[test]
    #[should_panic = "returned before a grace period"]
    fn running_grace_period_does_not_serve_the_ticket() {
        let audit = GpAudit::new();
        let running = audit.begin();
        let ticket = audit.ticket();
        audit.end(running);
        audit.assert_full_gp(ticket);
    }

    #[test]
    #[should_panic = "returned before a grace period"]
    fn failed_grace_period_does_not_serve_the_ticket() {
        let audit = GpAudit::new();
        let ticket = audit.ticket();
        audit.begin();
        audit.assert_full_gp(ticket);
    }
}
