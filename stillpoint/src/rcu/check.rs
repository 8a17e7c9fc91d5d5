//! A second count, by which every completed wait is shown to have lasted a full grace period.
//!
//! In debug builds, with the feature `check`, and in the models. Otherwise all of it is empty and costs nothing.
//!
//! The leader counts grace periods as they begin and as they end, apart from [`crate::sync::shared_seq`], whose rules decide who is
//! served when. A caller takes a [`Ticket`], the number of those that have begun, before he asks; when he has been told that
//! he is served, a grace period with a greater number must have ended ([`Check::served`]).
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

pub use count::Check;

/// The number of the last grace period that had begun at some moment; nothing in a build that does not count. The default is
/// the beginning of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticket(Number);

#[cfg(any(debug_assertions, loom, feature = "check"))]
type Number = u64;
#[cfg(not(any(debug_assertions, loom, feature = "check")))]
type Number = ();

#[cfg(any(debug_assertions, loom, feature = "check"))]
mod count {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::Ticket;

    /// See the [module](super).
    #[derive(Debug)]
    pub struct Check {
        /// Grace periods that have begun, those that failed included; the number of the last.
        begun: AtomicU64,
        /// The number of the last that ended.
        ended: AtomicU64,
        /// Waits that were found right.
        passed: AtomicU64,
    }

    impl Check {
        pub const fn new() -> Self {
            Self { begun: AtomicU64::new(0), ended: AtomicU64::new(0), passed: AtomicU64::new(0) }
        }

        /// What a caller takes before he asks for a grace period, and shows when he has been served.
        pub fn ticket(&self) -> Ticket {
            // A read-modify-write, not a load, which might be older.
            Ticket(self.begun.fetch_add(0, Relaxed))
        }

        /// A grace period begins, after its turn has; called by its leader.
        pub fn begin(&self) -> Ticket {
            Ticket(self.begun.fetch_add(1, Relaxed) + 1)
        }

        /// The grace period `number` has ended, and nobody has been told yet; called by its leader.
        pub fn end(&self, number: Ticket) {
            self.ended.store(number.0, Relaxed);
        }

        /// A caller has been told that a grace period has passed since he took `ticket`.
        ///
        /// # Panics
        ///
        /// If none has.
        #[track_caller]
        pub fn served(&self, ticket: Ticket) {
            let (begun, ended) = (ticket.0, self.ended.load(Relaxed));
            assert!(
                ended > begun,
                "a caller was told that a grace period had passed, but none has that began after he asked: \
                 {begun} had begun then, the last that ended is number {ended}; this is a bug in stillpoint"
            );
            self.passed.fetch_add(1, Relaxed);
        }

        /// How many waits were found right.
        pub fn passed(&self) -> u64 {
            self.passed.load(Relaxed)
        }
    }
}

#[cfg(not(any(debug_assertions, loom, feature = "check")))]
mod count {
    use super::Ticket;

    /// Nothing: this build does not check.
    #[derive(Debug)]
    pub struct Check;

    impl Check {
        pub const fn new() -> Self {
            Self
        }

        pub fn ticket(&self) -> Ticket {
            Ticket(())
        }

        pub fn begin(&self) -> Ticket {
            Ticket(())
        }

        pub fn end(&self, _number: Ticket) {}

        pub fn served(&self, _ticket: Ticket) {}

        pub fn passed(&self) -> u64 {
            0
        }
    }
}

#[cfg(all(test, any(debug_assertions, feature = "check")))]
mod tests {
    use super::Check;

    #[test]
    fn a_grace_period_that_begins_after_the_ticket_serves() {
        let check = Check::new();
        let running = check.begin();
        let ticket = check.ticket();
        check.end(running);
        let next = check.begin();
        check.end(next);
        check.served(ticket);
        assert_eq!(check.passed(), 1);
    }

    #[test]
    #[should_panic = "none has that began after he asked"]
    fn a_grace_period_that_had_begun_does_not_serve() {
        let check = Check::new();
        let running = check.begin();
        let ticket = check.ticket();
        check.end(running);
        check.served(ticket);
    }

    #[test]
    #[should_panic = "none has that began after he asked"]
    fn a_grace_period_that_failed_does_not_serve() {
        let check = Check::new();
        let ticket = check.ticket();
        check.begin();
        check.served(ticket);
    }
}
