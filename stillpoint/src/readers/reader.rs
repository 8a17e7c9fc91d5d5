//! One thread's word of a domain: what it does on entering and leaving a read-side section. (What it does instead where threads
//! report quiescent states is in [`crate::readers::qsbr`].)
//!
//! # State
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `gp_seen` | owner | 0: quiescent; else the domain's counter as seen on entering the outermost section |
//! | `nesting` | owner | sections open inside the outermost one |
//! | `exit_flags` | all | reasons for the owner to take the slow way out: [`WAKE_ON_EXIT`], [`NEEDS_FENCE`], [`RECLAIM`], [`EXITING`] |
//! | `thread`, `site` | owner, when it registers | who it is, for reports of stalls: see [`Reader::owner_if_still_blocking`] |
//!
//! # Why one word and no arithmetic
//!
//! Entering stores what it loaded from the counter, leaving stores a constant, and branches that are nearly always
//! predicted right decide whether the section is nested: nothing on the fast path waits for a store to come back as a
//! load. Only sections inside others count up and down, in a word of their own, so `gp_seen` holds the whole counter, which
//! never wraps.
//!
//! # Signals
//!
//! A handler that reads, and leaves every section it enters, may interrupt the owner between any two instructions here: it
//! finds `gp_seen` 0 and leaves it 0, or finds it non-zero and restores `nesting`. One that interrupts the owner between the end of
//! its outermost section and its look at `exit_flags` takes the slow way in its place, at a point where the owner was to take it.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::compiler_fence;

use crate::fence::light_compiler_only;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, const_unless_loom, step};

/// A grace period sleeps until this reader has left.
pub const WAKE_ON_EXIT: u32 = 1;
/// A compiler fence is not a light fence here; the slow way calls the backend's.
pub const NEEDS_FENCE: u32 = 2;
/// The owner has put off what keeps the backlog small until it is outside.
const RECLAIM: u32 = 4;
/// The thread exits, or has exited inside a section. It gives the reader back when it leaves, if it ever does.
pub const EXITING: u32 = 8;

/// See the [module](self). The words that a scan looks at have a cache line (and its neighbour, which x86-64 fetches along)
/// of their own.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Reader {
    pub(crate) gp_seen: AtomicU64,
    nesting: AtomicU64,
    pub(crate) exit_flags: AtomicU32,
    /// Place in the registry, and the next free place: see there.
    pub index: AtomicU32,
    pub(crate) next_free: AtomicU32,
    thread: AtomicU32,
    site: AtomicPtr<Location<'static>>,
}

/// The thread that a reader belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// As of `gettid(2)`.
    pub thread: u32,
    /// Where in the program it registered.
    pub site: &'static Location<'static>,
}

/// Whether leaving needs the slow way: see [`Reader::leave`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum ExitPath {
    /// Nobody waits.
    Fast,
    /// Some bit of `exit_flags` is set.
    Slow,
}

impl Reader {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                gp_seen: AtomicU64::new(0),
                nesting: AtomicU64::new(0),
                exit_flags: AtomicU32::new(0),
                index: AtomicU32::new(0),
                next_free: AtomicU32::new(0),
                thread: AtomicU32::new(0),
                site: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    const_unless_loom! {
        /// A reader that belongs to nobody and lets nobody in by [`try_enter`](Self::try_enter).
        pub fn sentinel() -> Self {
            Self { gp_seen: AtomicU64::new(u64::MAX), ..Self::new() }
        }
    }

    /// Begins a section, if none is open.
    #[inline(always)]
    pub fn try_enter(&self, counter: &AtomicU64) -> bool {
        // Relaxed: only the owner writes `gp_seen` and `nesting`.
        let outside = self.gp_seen.load(Relaxed) == 0;
        if outside {
            self.begin(counter);
            light_compiler_only();
        }
        outside
    }

    /// Begins a section inside another.
    #[inline(always)]
    pub fn nest(&self) {
        self.nesting.store(self.nesting.load(Relaxed) + 1, Relaxed);
    }

    /// Stores the counter as this reader's state.
    #[inline(always)]
    fn begin(&self, counter: &AtomicU64) {
        // Relaxed: whoever sees the new counter must also see what was published before it, and does: the heavy fence of
        // `ThreadReaders::try_drain` lies between the two, our light fence between this load and the section. (Without a heavy
        // fence, because nobody was registered, the registration orders it.)
        //
        // Release: the scan may read this store instead of the `leave` before it, and must then be ordered after that
        // section too (a later plain store of the same thread is no part of a release sequence). Partner: the Acquire in
        // `blocks`.
        self.gp_seen.store(counter.load(Relaxed), Release);
    }

    /// Ends a section; sections end in any order, the last one counts.
    #[inline(always)]
    pub fn leave(&self) -> ExitPath {
        let nested = self.nesting.load(Relaxed);
        if nested == 0 {
            // Release: the section happens before the end of the grace period. Partner: the Acquire in `blocks`.
            self.gp_seen.store(0, Release);
            return self.check_exit_flags();
        }
        // Nothing that the section read may move below this; the compiler fence is for handlers on this thread.
        compiler_fence(Release);
        self.nesting.store(nested - 1, Relaxed);
        ExitPath::Fast
    }

    /// Lets grace periods pass that began since the section did; in a nested section, nothing.
    #[inline(always)]
    pub fn repin(&self, counter: &AtomicU64) -> ExitPath {
        // Release in `begin` as for `leave`: the store ends one section and begins the next.
        let is_old = || self.gp_seen.load(Relaxed) != counter.load(Relaxed);
        if self.nesting.load(Relaxed) == 0 && (is_old() || self.must_reclaim()) {
            self.begin(counter);
            step!("repin-does-not-check", return self.check_exit_flags());
        }
        ExitPath::Fast
    }

    /// After a change of `gp_seen`: does anybody wait for it?
    #[inline(always)]
    fn check_exit_flags(&self) -> ExitPath {
        // Either this load sees `WAKE_ON_EXIT`, or the scan behind the waiter's heavy fence sees our store.
        light_compiler_only();
        if self.exit_flags.load(Relaxed) == 0 { ExitPath::Fast } else { ExitPath::Slow }
    }

    /// Whether a section is open.
    pub fn in_read_section(&self) -> bool {
        self.gp_seen.load(Relaxed) != 0
    }

    /// Whether a grace period that raised the counter to `counter` must wait for this reader.
    pub fn blocks(&self, counter: u64) -> bool {
        // Acquire: all sections that began before are over, and happen before what the grace period allows. Partners: the
        // Releases in `leave` and `begin`.
        let state = self.gp_seen.load(Acquire);
        state != 0 && state < counter
    }

    /// Asks the reader to count down when it leaves.
    pub fn request_wake(&self) {
        // Release: whoever takes the request sees the count that includes it, and what was unpublished before. Partner:
        // the Acquire in `take_wake_request`. That the rescan comes after it is the heavy fence's work; partner: `check_exit_flags`.
        self.exit_flags.fetch_or(WAKE_ON_EXIT, Release);
    }

    /// Takes the request back, or answers it. True for exactly one taker of each request.
    pub fn take_wake_request(&self) -> bool {
        // Acquire: partner is the Release in `request_wake`. A reader that repins takes the request inside its next section,
        // whose loads must come after it.
        self.exit_flags.fetch_and(!WAKE_ON_EXIT, Acquire) & WAKE_ON_EXIT != 0
    }

    /// The owner, which is inside a section, is to [`take_reclaim`](Self::take_reclaim) when it leaves.
    pub fn reclaim_on_exit(&self) {
        // Relaxed, here and below: the owner talks to itself.
        self.exit_flags.fetch_or(RECLAIM, Relaxed);
    }

    /// Whether the owner has put something off.
    #[inline(always)]
    pub fn must_reclaim(&self) -> bool {
        self.exit_flags.load(Relaxed) & RECLAIM != 0
    }

    /// True, once, if the owner has put something off, and is outside now.
    pub fn take_reclaim(&self) -> bool {
        self.must_reclaim()
            && !self.in_read_section()
            && self.exit_flags.fetch_and(!RECLAIM, Relaxed) & RECLAIM != 0
    }

    /// As if no thread had ever used it.
    #[cfg(not(loom))]
    pub fn reset(&self) {
        self.gp_seen.store(0, Relaxed);
        self.nesting.store(0, Relaxed);
        self.exit_flags.store(0, Relaxed);
    }

    /// Says who owns this reader; called by the owner, before it first enters.
    pub fn set_owner(&self, owner: Owner) {
        // Release: who reads this sees that the request of the owner before, if there was one, has been taken. Partner: the
        // Acquires in `owner_if_still_blocking`.
        self.thread.store(owner.thread, Release);
        self.site.store(ptr::from_ref(owner.site).cast_mut(), Release);
    }

    /// The owner has another thread id, as in the child of a fork.
    #[cfg(not(loom))]
    pub fn set_tid(&self, thread: u32) {
        self.thread.store(thread, Relaxed);
    }

    /// What `check_exit_flags` makes of the owner, if the calling leader has waited for this owner from before until after; it must have
    /// made its request and taken back those of readers that had left.
    ///
    /// The reader may change hands at any moment, but not before the request has been taken, and only the leader makes one.
    /// So if the request is out after `check_exit_flags`, it was out all the time, and the owner is the one that keeps the leader waiting.
    pub fn owner_if_still_blocking<R>(&self, look: impl FnOnce(Owner) -> R) -> Option<R> {
        // Relaxed: whoever owned the reader at the leader's last look at `gp_seen`, an Acquire, had written who it is before.
        // If a later owner's is read below, the Acquire makes the second of these loads see that the request was taken.
        let awaited = || self.exit_flags.load(Relaxed) & WAKE_ON_EXIT != 0;
        if !awaited() {
            return None;
        }
        // Acquire: see above; partner: the Releases in `set_owner`.
        let thread = self.thread.load(Acquire);
        // SAFETY: null, or made of a reference that is good for ever.
        let site = unsafe { self.site.load(Acquire).as_ref() }?;
        let seen = look(Owner { thread, site });
        step!(
            "owner-not-rechecked",
            if !awaited() {
                return None;
            }
        );
        Some(seen)
    }

    /// Whether the owner's thread exits, or has exited. Says something of the owner if called in `owner_if_still_blocking`.
    #[cfg(not(loom))]
    pub fn is_exiting(&self) -> bool {
        // Relaxed: for reports.
        self.exit_flags.load(Relaxed) & EXITING != 0
    }
}
