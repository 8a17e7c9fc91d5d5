//! A second count, by which every completed wait is shown to have lasted a full grace period.
//!
//! In debug builds, in the models, and in builds with `--cfg stillpoint_audit`. Otherwise all of it is empty and costs nothing.
//!
//! The leader counts grace periods as they begin and as they end, apart from [`crate::sync::shared_seq`], whose rules decide who is
//! served when. A caller takes a [`AuditTicket`], the number of those that have begun, before he asks; when he has been told that
//! he is served, a grace period with a greater number must have ended ([`GpAudit::assert_full_gp`]).
//!
//! # Why a right algorithm never fails
//!
//! The grace period that serves a caller begins after he asked: his asking happens before its beginning (see
//! [`crate::sync::shared_seq`]), so his ticket comes before its number in the order of changes of `begun`, and is smaller. That it
//! ended happens before he is told, so he sees `ended` at its number, or at a later one: grace periods come one after
//! another.
//!
//! # Why a wrong one does
//!
//! A ticket is taken by a read-modify-write, which reads the newest value: it is no smaller than the number of any grace
//! period that had begun before. One that had begun, and one that failed (whose number is not stored on ending), cannot make
//! `ended` exceed it. So whoever is told too early finds no greater number, unless another grace period has begun and ended
//! meanwhile, and then he was served after all.
//!
//! What is not seen: a grace period that ends before its readers have left, and a caller who is served by one whose turn had
//! begun, but which had not been counted yet (its fence was still to come).
//!
//! # Orderings
//!
//! All are Relaxed: the argument takes every "happens before" from the algorithm. On the machine a read-modify-write may order
//! more than it must, so what holds in a debug build has yet to hold in a release build.
//!
//! The counters are `core`'s under the model checker too, which does not see them: the check must add neither orderings nor
//! steps to what the models explore, or it might hide what the algorithm lacks. One thread runs at a time there, so they
//! are up to date.

use core::iter::zip;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many counters of a kind there are: 1 in a build that checks, else 0.
const COUNTERS: usize = cfg!(any(debug_assertions, loom, stillpoint_audit)) as usize;

/// See the [module](self).
#[derive(Debug)]
pub struct GpAudit {
    /// Grace periods that have begun, those that failed included; the number of the last.
    begun: [AtomicU64; COUNTERS],
    /// The number of the last that ended.
    ended: [AtomicU64; COUNTERS],
}

/// The number of the last grace period that had begun at some moment. The default is the beginning of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditTicket([u64; COUNTERS]);

impl GpAudit {
    pub const fn new() -> Self {
        Self {
            begun: [const { AtomicU64::new(0) }; COUNTERS],
            ended: [const { AtomicU64::new(0) }; COUNTERS],
        }
    }

    /// What a caller takes before it asks for a grace period, and shows when it has been served.
    pub fn ticket(&self) -> AuditTicket {
        // A read-modify-write, not a load, which might be older.
        AuditTicket(self.begun.each_ref().map(|begun| begun.fetch_add(0, Relaxed)))
    }

    /// A grace period begins, after its turn has; called by its leader.
    pub fn begin(&self) -> AuditTicket {
        AuditTicket(self.begun.each_ref().map(|begun| begun.fetch_add(1, Relaxed) + 1))
    }

    /// The grace period `number` has ended, and no caller has returned yet; called by its leader.
    pub fn end(&self, number: AuditTicket) {
        zip(&self.ended, number.0).for_each(|(ended, number)| ended.store(number, Relaxed));
    }

    /// A caller has found that a grace period has passed since it took `ticket`.
    ///
    /// # Panics
    ///
    /// If none has.
    #[track_caller]
    pub fn assert_full_gp(&self, ticket: AuditTicket) {
        for (ended, begun) in zip(&self.ended, ticket.0) {
            let ended = ended.load(Relaxed);
            assert!(
                ended > begun,
                "a caller was told that a grace period had passed, but none has that began after he asked: \
                 {begun} had begun then, the last that ended is number {ended}; this is a bug in stillpoint"
            );
        }
    }
}

#[cfg(all(test, any(debug_assertions, stillpoint_audit)))]
mod tests {
    use super::GpAudit;

    #[test]
    fn later_grace_period_serves_the_ticket() {
        let check = GpAudit::new();
        let running = check.begin();
        let ticket = check.ticket();
        check.end(running);
        let next = check.begin();
        check.end(next);
        check.assert_full_gp(ticket);
    }

    #[test]
    #[should_panic = "none has that began after he asked"]
    fn running_grace_period_does_not_serve_the_ticket() {
        let check = GpAudit::new();
        let running = check.begin();
        let ticket = check.ticket();
        check.end(running);
        check.assert_full_gp(ticket);
    }

    #[test]
    #[should_panic = "none has that began after he asked"]
    fn failed_grace_period_does_not_serve_the_ticket() {
        let check = GpAudit::new();
        let ticket = check.ticket();
        check.begin();
        check.assert_full_gp(ticket);
    }
}
