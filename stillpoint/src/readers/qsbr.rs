//! QSBR readers, which report quiescent states: no fence on either side, and no system call unless the leader sleeps.
//!
//! The readers of [`crate::qsbr`]. A thread is *online*, and may hold references at any time, or *offline*. An online
//! thread reports now and then that it holds none. The rest is as in [`super::sections::scan`].
//!
//! # State
//!
//! | `gp_seen` of a reader | meaning |
//! |---|---|
//! | 0 | offline, or free |
//! | else | online; the counter that the thread loaded when it came online or last reported |
//!
//! Only the owner writes `gp_seen`. The counter that it loads never decreases, so neither does `gp_seen`, except to
//! 0.
//!
//! # One of two read-modify-writes comes first
//!
//! On each change (reporting, going offline, coming online) the owner stores `gp_seen` and then makes a
//! read-modify-write of `exit_flags` ([`ThreadReaders::quiescent_state`]). The leader makes one before each load of
//! `gp_seen` on which it must rely. All of them are Release and Acquire, so the second in the modification order of
//! `exit_flags` sees everything that both threads did before the first:
//!
//! - *If the owner's comes first*, the leader sees the change of `gp_seen`, or a later one.
//! - *If the leader's comes first*, the owner sees what is unpublished, and the leader's request, if there is one.
//!
//! # No grace period ends too early
//!
//! The leader sees everything that this grace period's callers unpublished. It advances the counter to *n* (Release),
//! and waits for each reader until one of these holds. `S` is what the thread read before, `L` what it reads later.
//!
//! 1. *`gp_seen` is n or more.* `S`: the store was a Release, and the leader's load an Acquire. `L`: the thread
//!    loaded *n* or more from the counter (Acquire) before. Other threads advance it further
//!    ([`ReaderSet::defer_to_exit`](crate::grace_period::engine::ReaderSet::defer_to_exit)) by read-modify-writes.
//! 2. *`gp_seen` is 0, after a read-modify-write of the leader.* `S`: as in 1. `L`: if the thread's read-modify-write
//!    on coming online had come before the leader's, the leader would have found it online. So it comes after, and
//!    the thread sees what is unpublished. (Without the leader's, the 0 might be an old one: the thread is online
//!    again, and has read the pointer.)
//! 3. *The thread has taken the leader's request.* `S`: counting down is a Release, and the leader's last load of the
//!    count an Acquire. `L`: the thread's read-modify-write came after the leader's. So it may even report an older
//!    counter, loaded before it was advanced.
//! 4. *The thread registered later*: it was not counted as registered, or not found in the registry. The leader's
//!    look at this count and the thread's registration are read-modify-writes too: if the thread's comes first, the
//!    leader finds it; otherwise the thread sees what is unpublished.
//!
//! # No wake-up is lost
//!
//! Making and taking a request are read-modify-writes of `exit_flags`. After the request the leader loads `gp_seen`
//! again: if the owner's change came first, the leader sees it and takes the request back; otherwise the owner finds
//! the request. A thread that has come online again since, with an old counter, keeps the request and answers it on
//! its next change.

use super::sections::reader::{Reader, WAKE_ON_EXIT, YIELD_ON_EXIT};
use super::sections::scan::ThreadReaders;
use crate::sync::{Ordering::*, step};

/// What owners do. The leader's part is [`ReaderProtocol`](super::sections::protocol::ReaderProtocol).
impl<A: Default + 'static> ThreadReaders<A> {
    /// Returns the counter that an online thread without references must report, unless it has already.
    #[inline(always)]
    pub fn current_counter(&self) -> u64 {
        // Acquire: case 1; pairs with the Release in `advance_counter`.
        self.counter().load(Acquire)
    }

    /// Makes the owner online. Returns the counter that it has seen.
    pub fn thread_online(&self, reader: &Reader) -> u64 {
        let counter = self.current_counter();
        self.quiescent_state(reader, counter);
        counter
    }

    /// Makes the owner, which holds no references, offline.
    pub fn thread_offline(&self, reader: &Reader) {
        self.quiescent_state(reader, 0);
    }

    /// Reports that the owner holds no references. It has seen `counter`, or is offline from now on if that is 0.
    pub fn quiescent_state(&self, reader: &Reader, counter: u64) {
        // Release: publishes the owner's use of its references; pairs with the Acquires in `blocks`.
        reader.gp_seen.store(counter, Release);
        step!("quiescent-state-does-not-check", {
            let requests = take_requests(reader);
            self.answer(requests & WAKE_ON_EXIT != 0, requests & YIELD_ON_EXIT != 0);
        });
    }
}

/// Takes the leader's requests. Returns the flags.
fn take_requests(reader: &Reader) -> u32 {
    // Release: publishes the change of `gp_seen`. Acquire: sees what is unpublished. Both pair with `request_wakeup`
    // and `blocks`.
    reader.exit_flags.fetch_and(!(WAKE_ON_EXIT | YIELD_ON_EXIT), AcqRel)
}
