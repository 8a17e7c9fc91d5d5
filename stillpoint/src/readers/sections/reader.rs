//! A thread's reader: what it does on entering and leaving a read-side critical section.
//!
//! Threads that report quiescent states use it differently: see [`crate::readers::qsbr`].
//!
//! # State
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `gp_seen` | owner | 0: quiescent; else the counter as loaded on entering the outermost section |
//! | `nesting` | owner | the number of open sections inside the outermost one |
//! | `exit_flags` | all | reasons to leave by the slow path, from [`WAKE_ON_EXIT`] to [`YIELD_ON_EXIT`] |
//! | `thread`, `site` | owner, on registration | for stall reports: [`Reader::owner_if_still_blocking`] |
//!
//! # Why one word and no arithmetic
//!
//! Entering stores what it loaded from the counter, and leaving stores a constant. Well-predicted branches decide
//! whether the section is nested, so no store-to-load forwarding is on the critical path. Only nested sections count,
//! in a word of their own: so `gp_seen` holds the whole counter, which never wraps.
//!
//! # Signals
//!
//! A handler that reads, and leaves every section that it enters, may interrupt the owner between any two
//! instructions here: it finds `gp_seen` 0 and leaves it 0, or finds it non-zero and restores `nesting`. If it
//! interrupts the owner between the end of the outermost section and the check of `exit_flags`, the handler takes the
//! slow path in the owner's place. If it interrupts the owner between the store and a full fence, its own section
//! needs one, though it is nested: see [`Reader::enter_with_full_fence`].

use core::panic::Location;
use core::ptr;
use core::sync::atomic::compiler_fence;

use crate::fence::{FAST_PATH_IS_FENCED, light_compiler_only, light_full, light_is_full_fence};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, const_unless_loom, step};

/// A grace period sleeps until this reader has left.
pub const WAKE_ON_EXIT: u32 = 1;
/// The owner has deferred its reclamation until it is outside.
const RECLAIM: u32 = 2;
/// The thread is exiting, or has exited inside a section. The slow path then releases the reader.
pub const EXITING: u32 = 4;
/// A grace period sleeps, and readers outnumber CPUs: the owner is to yield its CPU.
pub const YIELD_ON_EXIT: u32 = 8;

/// An exchange is a full fence: on x86, as each locked instruction. Interpreters and models go by the language.
const EXCHANGE_IS_FENCE: bool =
    cfg!(all(any(target_arch = "x86", target_arch = "x86_64"), not(any(miri, loom))));

// The fast path has no such exchange, so its fence is only for systems where handlers may not use the library.
const _: () = assert!(!FAST_PATH_IS_FENCED || cfg!(stillpoint_portable));

/// No handler that reads may come between the store and the fence of the outermost section: the two are one
/// instruction, or handlers may not use the library.
const NESTS_WITHOUT_FENCE: bool = EXCHANGE_IS_FENCE || cfg!(any(stillpoint_portable, miri));

/// See the [module](self). What a scan loads has a cache line of its own (and its neighbour, which x86-64
/// prefetches).
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Reader {
    pub(crate) gp_seen: AtomicU64,
    nesting: AtomicU64,
    pub(crate) exit_flags: AtomicU32,
    /// The place in the registry, and the next free reader: see there.
    pub index: AtomicU32,
    pub(crate) next_free: AtomicU32,
    thread: AtomicU32,
    site: AtomicPtr<Location<'static>>,
    /// Where the outermost section began, or null.
    #[cfg(feature = "section-locations")]
    section: AtomicPtr<Location<'static>>,
}

// The layout that `struct sp_rcu_reader_` of `stillpoint.h` has. If it changes, so must the names with `v1` there.
#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Reader, gp_seen) == 0);
    assert!(offset_of!(Reader, nesting) == 8);
    assert!(offset_of!(Reader, exit_flags) == 16);
};

/// The thread that a reader belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// As of `gettid(2)`.
    pub thread: u32,
    /// Where it registered.
    pub site: &'static Location<'static>,
}

/// How a section is left: see [`ThreadReaders::exit_slow`](super::scan::ThreadReaders::exit_slow).
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum ExitPath {
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
                #[cfg(feature = "section-locations")]
                section: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    const_unless_loom! {
        /// A reader without an owner. [`try_enter`](Self::try_enter) always returns `false`. Its `nesting` sends
        /// readers that are compiled from C to the slow path when they leave.
        pub fn sentinel() -> Self {
            Self { gp_seen: AtomicU64::new(u64::MAX), nesting: AtomicU64::new(u64::MAX), ..Self::new() }
        }
    }

    /// Begins a section if none is open. Returns `false` inside a section.
    #[inline(always)]
    pub fn try_enter(&self, counter: &AtomicU64) -> bool {
        // Relaxed: only the owner writes `gp_seen` and `nesting`.
        let outside = self.gp_seen.load(Relaxed) == 0;
        if outside {
            // Relaxed: see `begin`.
            let counter = counter.load(Relaxed);
            self.begin(counter);
            if FAST_PATH_IS_FENCED {
                // Not an exchange, which waits for the store that left the last section.
                light_full();
            } else {
                light_compiler_only();
            }
        }
        outside
    }

    /// Begins a section, or one inside another, with the light fence of any backend.
    #[inline(always)]
    pub fn enter_fenced(&self, counter: &AtomicU64) {
        if light_is_full_fence() {
            return self.enter_with_full_fence(counter);
        }
        // Relaxed: see `try_enter`.
        if self.gp_seen.load(Relaxed) == 0 {
            self.begin(counter.load(Relaxed));
        } else {
            self.nest();
        }
        light_compiler_only();
    }

    /// [`enter_fenced`](Self::enter_fenced) where the light fence is a full one.
    ///
    /// A section inside another needs no fence of its own, if that of the outermost is complete: it orders all that
    /// the thread does later. Only a handler may come between the store and the fence (see [`NESTS_WITHOUT_FENCE`]).
    #[inline(always)]
    pub fn enter_with_full_fence(&self, counter: &AtomicU64) {
        // Relaxed: see `try_enter`.
        if self.gp_seen.load(Relaxed) != 0 {
            self.nest();
            if !NESTS_WITHOUT_FENCE {
                light_full();
            }
        } else if EXCHANGE_IS_FENCE {
            // Store and fence in one instruction, which no handler splits. SeqCst: nothing of the section comes
            // before the store; pairs with heavy fence A. The language does not promise that of an exchange, but x86
            // does, and the compiler fence is for the compiler.
            self.gp_seen.swap(counter.load(Relaxed), SeqCst);
            light_compiler_only();
        } else {
            self.begin(counter.load(Relaxed));
            light_full();
        }
    }

    /// Begins a section inside another.
    #[inline(always)]
    pub fn nest(&self) {
        self.nesting.store(self.nesting.load(Relaxed) + 1, Relaxed);
    }

    #[inline(always)]
    fn begin(&self, counter: u64) {
        // A reader that loads the new counter must also see what was unpublished before. A Relaxed load suffices if a
        // light fence lies between it and the section, as the heavy fence of `ThreadReaders::try_drain` precedes the
        // new counter. (A grace period that finds no registered readers has no heavy fence; the registration orders
        // it.)
        //
        // Release: the scan may read this store instead of the one by the last `leave`, and must then come after that
        // section too (a plain store of the same thread does not continue a release sequence); pairs with the Acquire
        // in `blocks`.
        self.gp_seen.store(counter, Release);
    }

    /// Ends a section. Sections end in any order; the last one counts.
    #[inline(always)]
    pub fn leave(&self) -> ExitPath {
        let nested = self.nesting.load(Relaxed);
        if nested == 0 {
            // Release: publishes the section; pairs with the Acquire in `blocks`.
            self.gp_seen.store(0, Release);
            return self.check_exit_flags();
        }
        // No load of the section may move below the store. The compiler fence suffices, as only handlers on this
        // thread see `nesting`.
        compiler_fence(Release);
        self.nesting.store(nested - 1, Relaxed);
        ExitPath::Fast
    }

    /// Ends a section and begins the next, so that grace periods in progress can end. Does nothing in a nested
    /// section.
    #[inline(always)]
    pub fn repin(&self, counter: &AtomicU64) -> ExitPath {
        let is_old = || self.gp_seen.load(Relaxed) != counter.load(Relaxed);
        if self.nesting.load(Relaxed) == 0 && (is_old() || self.must_leave()) {
            // The Release in `begin` publishes the section that ends. Acquire: sees what was unpublished before the
            // counter, as a light fence may be missing here; pairs with heavy fence A.
            self.begin(counter.load(Acquire));
            step!("repin-does-not-check", return self.check_exit_flags());
        }
        ExitPath::Fast
    }

    /// Checks, after a store to `gp_seen`, whether a leader waits for it.
    #[inline(always)]
    fn check_exit_flags(&self) -> ExitPath {
        // A light fence on `Backend::Membarrier`: either this load sees `WAKE_ON_EXIT`, or the leader sees the store,
        // after its heavy fence B. Elsewhere the load may miss `WAKE_ON_EXIT`, and the leader rescans.
        light_compiler_only();
        if self.exit_flags.load(Relaxed) == 0 { ExitPath::Fast } else { ExitPath::Slow }
    }

    /// Returns `true` inside a section.
    pub fn in_read_section(&self) -> bool {
        self.gp_seen.load(Relaxed) != 0
    }

    /// Requests that the reader counts down when it leaves.
    pub fn request_wake(&self) {
        // Release: publishes the count that includes this request, and what was unpublished; pairs with the Acquire
        // in `take_wake_request`. Heavy fence B orders it before the rescan, if `check_exit_flags` has a light fence.
        self.exit_flags.fetch_or(WAKE_ON_EXIT, Release);
    }

    /// Takes the request, to answer it or to withdraw it. Returns `true` to exactly one taker of each request.
    pub fn take_wake_request(&self) -> bool {
        // Acquire: pairs with the Release in `request_wake`. A reader that repins takes the request inside its next
        // section, whose loads must come after it.
        self.exit_flags.fetch_and(!WAKE_ON_EXIT, Acquire) & WAKE_ON_EXIT != 0
    }

    /// Requests that the owner yields its CPU when it next leaves, whether it is inside a section now or not.
    pub fn request_yield(&self) {
        // Relaxed: threads that are asleep keep the request of an earlier grace period, and their cache lines stay
        // clean.
        if self.exit_flags.load(Relaxed) & YIELD_ON_EXIT == 0 {
            // Release: publishes that the leader sleeps; pairs with the Acquire in `take_yield_request`.
            self.exit_flags.fetch_or(YIELD_ON_EXIT, Release);
        }
    }

    /// Takes the request for a yield. Called by the owner. Returns `true` if there was one.
    pub fn take_yield_request(&self) -> bool {
        // Acquire: sees that the leader sleeps; pairs with the Release in `request_yield`.
        self.exit_flags.fetch_and(!YIELD_ON_EXIT, Acquire) & YIELD_ON_EXIT != 0
    }

    /// Makes the owner, which is inside a section, call [`take_reclaim`](Self::take_reclaim) when it leaves.
    pub fn reclaim_on_exit(&self) {
        // Relaxed, here and below: only the owner uses this bit.
        self.exit_flags.fetch_or(RECLAIM, Relaxed);
    }

    /// Returns `true` if the owner has deferred something until it is outside.
    #[inline(always)]
    pub fn must_leave(&self) -> bool {
        self.exit_flags.load(Relaxed) & RECLAIM != 0
    }

    /// Returns `true`, once, if the owner has deferred its reclamation and is outside now.
    pub fn take_reclaim(&self) -> bool {
        self.exit_flags.load(Relaxed) & RECLAIM != 0
            && !self.in_read_section()
            && self.exit_flags.fetch_and(!RECLAIM, Relaxed) & RECLAIM != 0
    }

    /// A section has begun at `site`. Stall reports name the outermost one.
    #[cfg(feature = "section-locations")]
    #[inline]
    pub fn section_begun_at(&self, site: &'static Location<'static>) {
        if self.nesting.load(Relaxed) == 0 {
            // Relaxed, here and below: for reports only, and what it points to is constant.
            self.section.store(ptr::from_ref(site).cast_mut(), Relaxed);
        }
    }

    /// A section is about to end.
    #[cfg(feature = "section-locations")]
    #[inline]
    pub fn section_ends(&self) {
        if self.nesting.load(Relaxed) == 0 {
            self.section.store(ptr::null_mut(), Relaxed);
        }
    }

    /// Returns where the open section began, if that was recorded. Meaningful inside
    /// [`owner_if_still_blocking`](Self::owner_if_still_blocking).
    pub fn section_site(&self) -> Option<&'static Location<'static>> {
        #[cfg(feature = "section-locations")]
        // SAFETY: null, or made of a `'static` reference.
        return unsafe { self.section.load(Relaxed).as_ref() };
        #[cfg(not(feature = "section-locations"))]
        None
    }

    /// Makes the reader a new one, in the child of a fork.
    #[cfg(not(loom))]
    pub fn reset(&self) {
        self.gp_seen.store(0, Relaxed);
        self.nesting.store(0, Relaxed);
        self.exit_flags.store(0, Relaxed);
    }

    /// Sets the owner. Called by the owner, before it first enters.
    pub fn set_owner(&self, owner: Owner) {
        // Release: a leader that sees the new owner sees that the previous owner's request was taken; pairs with the
        // Acquires in `owner_if_still_blocking`.
        self.thread.store(owner.thread, Release);
        self.site.store(ptr::from_ref(owner.site).cast_mut(), Release);
    }

    /// Returns the owner's thread id, or another one's if the reader has just changed hands.
    pub fn thread_id(&self) -> u32 {
        // Relaxed: for probes only.
        self.thread.load(Relaxed)
    }

    /// Changes the owner's thread id, in the child of a fork.
    #[cfg(not(loom))]
    pub fn set_tid(&self, thread: u32) {
        self.thread.store(thread, Relaxed);
    }

    /// Returns `look(owner)` if the leader, which calls this, has waited for this owner before and after. The leader
    /// must have made its requests, and have taken back those to readers that had left.
    ///
    /// The reader may change hands at any moment, but not before the request has been taken, and only the leader
    /// makes requests. So if the request is outstanding after `look`, it was so all the time, and the owner is the
    /// one that blocks the grace period.
    pub fn owner_if_still_blocking<R>(&self, look: impl FnOnce(Owner) -> R) -> Option<R> {
        // Relaxed: the owner at the leader's last load of `gp_seen`, an Acquire, had been set before. If a later
        // owner is read below, the Acquire makes the second of these loads see that the request was taken.
        let is_awaited = || self.exit_flags.load(Relaxed) & WAKE_ON_EXIT != 0;
        if !is_awaited() {
            return None;
        }
        // Acquire: as above; pairs with the Releases in `set_owner`.
        let thread = self.thread.load(Acquire);
        // SAFETY: null, or made of a `'static` reference.
        let site = unsafe { self.site.load(Acquire).as_ref() }?;
        let seen = look(Owner { thread, site });
        step!(
            "owner-not-rechecked",
            if !is_awaited() {
                return None;
            }
        );
        Some(seen)
    }

    /// Returns the owner, if there has been one.
    pub fn owner(&self) -> Option<Owner> {
        // Relaxed: the caller checks whether the reader has changed hands.
        let thread = self.thread.load(Relaxed);
        // SAFETY: null, or made of a `'static` reference.
        unsafe { self.site.load(Relaxed).as_ref() }.map(|site| Owner { thread, site })
    }

    /// Returns `true` if the owner's thread is exiting, or has exited. Meaningful inside
    /// [`owner_if_still_blocking`](Self::owner_if_still_blocking).
    pub fn is_exiting(&self) -> bool {
        // Relaxed: for reports only.
        self.exit_flags.load(Relaxed) & EXITING != 0
    }
}
