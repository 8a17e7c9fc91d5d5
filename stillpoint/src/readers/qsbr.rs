//! Readers that report quiescent states: no fence on either side, and no system call unless somebody sleeps.
//!
//! The readers of [`crate::qsbr`]. A thread is *online*, and may hold references at any time, or *offline*. While it is online
//! it reports now and then that it holds none; the rest is as in [`crate::readers::threads`].
//!
//! # State
//!
//! | `gp_seen` of a reader | meaning |
//! |---|---|
//! | 0 | offline, or nobody's |
//! | else | online; the counter as it was seen when the thread came online or last reported |
//!
//! The owner alone writes `gp_seen`, and what it sees of the counter never goes back, so neither does `gp_seen`, but for 0.
//!
//! # Who sees whom
//!
//! Whatever an owner does, it stores `gp_seen` and then makes a read-modify-write of `exit_flags` ([`ThreadReaders::change`]): reporting,
//! going offline, coming online. The leader makes one before each look at `gp_seen` that must not be mistaken. All of them acquire
//! and release, so of two, the one that comes second in the modification order of `exit_flags` has seen all that its thread
//! and the other had done before:
//!
//! - *the owner's came first*: the leader finds the change of `gp_seen`, or a later one;
//! - *the leader's came first*: the owner sees all that is unpublished, and the leader's request, if he has made one.
//!
//! # Why no grace period ends too early
//!
//! The leader, for whom everything is unpublished that this grace period is for, raises the counter to *n* (Release) and waits
//! for each reader until one of these holds. `S` is whatever its thread read before, `L` whatever it reads later.
//!
//! 1. *`gp_seen` is n or more.* `S`: storing it was a Release, the leader's look an Acquire. `L`: the thread loaded *n* or more from
//!    the counter (Acquire) before. What raised it to more ([`ReaderProtocol::defer_to_exit`]) was a read-modify-write.
//! 2. *`gp_seen` is 0, found after a read-modify-write of the leader's.* `S`: as before. `L`: had the thread made its own, on coming
//!    online, before the leader, he would have found it online; so it comes after, and sees what is unpublished. (Without the
//!    leader's the 0 might be an old one: the thread is online again, and has read the pointer.)
//! 3. *The thread has taken the leader's request.* `S`: counting down is a Release, the leader's last look at the count an
//!    Acquire. `L`: its read-modify-write came after the leader's. So a report that shows an older counter, which was loaded
//!    before it was raised, will do as well.
//! 4. *The thread registered later*: it was not counted among those who are registered, or not found in the registry. The
//!    leader's look at that count, and the thread's entry there, are read-modify-writes too: whoever comes first, the leader
//!    finds; whoever comes later has seen all that is unpublished.
//!
//! # Why no wake-up is lost
//!
//! Making a request is a read-modify-write of `exit_flags`, and so is taking it. After the request the leader looks at `gp_seen`
//! again: if the owner's change came first, he finds it and takes the request back; else the owner finds the request. A thread that
//! came online again meanwhile, with an old counter, keeps the request, and answers it the next time.

use super::registry::Attached;
use crate::readers::reader::{Reader, WAKE_ON_EXIT};
use crate::readers::threads::{ReaderProtocol, ThreadReaders};
use crate::sync::{AtomicU64, Ordering::*, step};

/// Readers that report quiescent states.
#[derive(Debug)]
pub enum Qsbr {}

impl ReaderProtocol for Qsbr {
    const FENCED: bool = false;
    const MAX_YIELDS: u32 = 3;
    const STALL_SUFFIX: [&'static str; 2] =
        [" and has not reported a quiescent state", ", and exited while it was online (is a handle leaked?)"];

    fn advance_counter(counter: &AtomicU64) -> u64 {
        // Release: case 1; partner: the Acquire in `current_counter`. A read-modify-write, as others may raise it too.
        counter.fetch_add(1, Release) + 1
    }

    /// All threads find that the counter has been raised, and those that have deferred something wait when they report.
    fn defer_to_exit(_own: &Reader, counter: &AtomicU64, above: bool) {
        if above {
            // Relaxed: a read-modify-write goes on with the release sequence of `advance_counter`.
            counter.fetch_add(1, Relaxed);
        }
    }

    fn blocks(reader: &Reader, counter: u64) -> bool {
        // Acquire, here and below: case 1; partner: the Release in `change`.
        let mut state = reader.gp_seen.load(Acquire);
        if state == 0 {
            step!("offline-seen-by-load", {
                // Release and Acquire: case 2; partner: `take_request`. Only here, as the line is the owner's, who is online mostly.
                reader.exit_flags.fetch_or(0, AcqRel);
                state = reader.gp_seen.load(Acquire);
            });
        }
        state != 0 && state < counter
    }

    fn request_wakeup(reader: &Reader) {
        // Release: what is unpublished, and the count that includes this request. Acquire: the change of `gp_seen`, if the owner
        // took no request. Partner, of both: `take_request`.
        reader.exit_flags.fetch_or(WAKE_ON_EXIT, AcqRel);
    }
}

impl<A: Attached + 'static> ThreadReaders<Qsbr, A> {
    /// What an online thread that holds no references must report, unless it has already.
    #[inline(always)]
    pub fn current_counter(&self) -> u64 {
        // Acquire: case 1; partner: the Release in `advance_counter`.
        self.counter().load(Acquire)
    }

    /// The owner, which is online, holds no references; it has seen `counter`.
    pub fn quiescent_state(&self, reader: &Reader, counter: u64) {
        self.change(reader, counter);
    }

    /// The owner comes online; what it has seen of the counter.
    pub fn thread_online(&self, reader: &Reader) -> u64 {
        let counter = self.current_counter();
        self.change(reader, counter);
        counter
    }

    /// The owner holds no references, and goes offline.
    pub fn thread_offline(&self, reader: &Reader) {
        self.change(reader, 0);
    }

    fn change(&self, reader: &Reader, state: u64) {
        // Release: the references that the owner held are gone; partner: the Acquire in `blocks`.
        reader.gp_seen.store(state, Release);
        step!(
            "quiescent-state-does-not-check",
            if take_request(reader) {
                self.count_down();
            }
        );
    }
}

/// Takes the leader's request, if there is one.
fn take_request(reader: &Reader) -> bool {
    // Release: the change of `gp_seen`. Acquire: what is unpublished. Partners, of both: `request_wakeup` and `blocks`.
    reader.exit_flags.fetch_and(!WAKE_ON_EXIT, AcqRel) & WAKE_ON_EXIT != 0
}
