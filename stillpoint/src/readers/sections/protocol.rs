//! How readers that belong to threads and the leader of a grace period communicate: [`super::scan`] uses it for
//! readers that enter and leave sections, and for those that report quiescent states ([`crate::readers::qsbr`]).

use super::reader::{Reader, WAKE_ON_EXIT};
use crate::sync::{AtomicU64, Ordering::*, step};

/// How readers and the leader communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderProtocol {
    /// Readers enter and leave sections. The leader issues heavy fences.
    Sections,
    /// The same, beside hazard pointers: each grace period issues a heavy fence, also if there are no readers (see
    /// `slots/protected.rs`).
    Hazards,
    /// Readers report quiescent states, by read-modify-writes: see `readers::qsbr`.
    Qsbr,
}

impl ReaderProtocol {
    /// Why a thread inside a section must not wait, and what to do instead: completes "synchronize() ...".
    pub(crate) const fn inside(self) -> &'static str {
        match self {
            Self::Sections | Self::Hazards => {
                "inside a read-side critical section of the same domain would wait for itself: drop its guard or `Ref` \
                 first"
            }
            Self::Qsbr => {
                "by a thread whose handle is online would wait for itself: wait in Handle::offline, or use \
                 Handle::synchronize"
            }
        }
    }

    /// The leader issues heavy fences.
    pub(super) fn is_fenced(self) -> bool {
        self != Self::Qsbr
    }

    /// How often a reader yields after it has counted down: as often as pays (docs/measurements.md).
    pub(super) fn max_yields(self) -> u32 {
        match self {
            Self::Sections | Self::Hazards => 1,
            Self::Qsbr => 3,
        }
    }

    /// The end of a line of a stall report.
    pub(super) fn stall_suffix(self, has_exited: bool) -> &'static str {
        match (self, has_exited) {
            (Self::Sections | Self::Hazards, false) => "",
            (Self::Sections | Self::Hazards, true) => {
                ", and exited inside a read-side critical section (is a guard leaked?)"
            }
            (Self::Qsbr, false) => " and has not reported a quiescent state",
            (Self::Qsbr, true) => ", and exited while it was online (is a handle leaked?)",
        }
    }

    /// Advances the counter. Returns the new one.
    pub(crate) fn advance_counter(self, counter: &AtomicU64) -> u64 {
        match self {
            Self::Sections | Self::Hazards => {
                let to = counter.load(Relaxed) + 1;
                // Relaxed: after fence A of this thread, see the module.
                counter.store(to, Relaxed);
                to
            }
            // Release: case 1 of `readers::qsbr`; pairs with the Acquire in `current_counter`. A read-modify-write,
            // as other threads advance it too.
            Self::Qsbr => counter.fetch_add(1, Release) + 1,
        }
    }

    /// Returns `true` if a grace period that advanced the counter to `counter` must wait for the reader.
    #[inline]
    pub(crate) fn blocks(self, reader: &Reader, counter: u64) -> bool {
        // Acquire, here and below: earlier sections have ended, and come before the end of the grace period; pairs
        // with the Releases in `leave`, `begin` and `quiescent_state` (case 1 of `readers::qsbr`).
        let mut seen = reader.gp_seen.load(Acquire);
        if seen == 0 && self == Self::Qsbr {
            step!("offline-seen-by-load", {
                // Release and Acquire: case 2 of `readers::qsbr`; pairs with `take_requests`. Only here, as the cache
                // line is the owner's, which is mostly online. On x86-64 the compiler leaves the instruction out;
                // there the locked instruction in `advance_counter` orders what was unpublished before the load
                // (litmus test
                // `qsbr-online`).
                reader.exit_flags.fetch_or(0, AcqRel);
                seen = reader.gp_seen.load(Acquire);
            });
        }
        seen != 0 && seen < counter
    }

    /// Requests that the reader counts down.
    pub(super) fn request_wakeup(self, reader: &Reader) {
        match self {
            Self::Sections | Self::Hazards => reader.request_wake(),
            // Release: publishes the count that includes this request, and what is unpublished. Acquire: sees the
            // change of `gp_seen` of an owner that has not seen the request. Both pair with `take_requests`.
            Self::Qsbr => _ = reader.exit_flags.fetch_or(WAKE_ON_EXIT, AcqRel),
        }
    }
}
