//! A thread's registration with a domain: which reader is the thread's own, from its first use to its exit.
//!
//! [`crate::domain::static_domain`] keeps a [`Registration`] in a thread-local variable of each domain.
//!
//! # States
//!
//! | `reader` | `fast` | the thread |
//! |---|---|---|
//! | none | [`unregistered`] | is not registered: it has not read yet, or its destructors have run |
//! | its own | the same | enters by the fast path; its reader is active |
//! | its own | [`unregistered`] | enters by the slow path: the fast path has no light fence that suffices, or the thread is *idle*, or its destructors run |
//!
//! Where light fences are full ones, and the fast path has none, `fenced` is what `fast` is elsewhere. It is changed
//! with `fast`, before the compiler fence that follows; below, the fast path stands for both.
//!
//! # Idle threads
//!
//! A scan loads a cache line for each active reader ([`super::registry`]). It cannot skip the reader of a thread that
//! enters by the fast path: the thread may be between its load of `gp_seen` and its store, for any length of time,
//! and then do nothing else before the section. So a reader is active as long as a thread has it, unless the thread
//! itself calls [`Registration::hint_idle`]. Then `fast` is [`unregistered`], and the reader is inactive. The next
//! section enters by the slow path, which makes the reader active and sets `fast` again.
//!
//! 1. *A section after the hint is found*, as its `gp_seen` is ([`super::scan`]): the light fence of the entry also
//!    lies between `set_active` and the section. If it precedes fence A, the scan sees the reader active, or inactive
//!    by a later `clear_active`. The second comes after the section, since the owner is outside then.
//! 2. *A section before the hint has ended*: a scan that sees `clear_active`, or a later change of these bits, comes
//!    after it.
//!
//! For example, the counter is 7, and the reader of an idle thread has bit 3 of its group, which is clear.
//!
//! ```text
//! reader                                               leader of the next grace period
//! fast path: `fast` is unregistered, so it fails
//! gp_seen = 7
//! sets bit 3, `idle` = false, `fast` = its reader
//! light fence                                          heavy fence A, then counter = 8
//! loads the pointer                                    scan: loads the bits of the group
//! ```
//!
//! If the light fence comes first, the scan finds bit 3, and 7 is smaller than 8: it waits. If A comes first, the
//! reader loads the new pointer, and the scan may find the bit clear. The thread's next section takes the fast path.
//!
//! So it suffices that the owner is outside at `clear_active`, and that it makes the reader active in each later
//! section, before the light fence. Signal handlers are the difficulty. They leave every section that they enter, and
//! must not retire, so no destructor runs at the ends of these sections. So the owner is outside during the whole of
//! `hint_idle` if it is so at the check. A handler may read at any of these moments.
//!
//! | moment | `fast` | active | a section of the handler |
//! |---|---|---|---|
//! | before `going_idle` is set | reader | yes | belongs to an active thread |
//! | before `fast` changes | reader | yes | enters by the fast path |
//! | before `clear_active` | unregistered | yes | enters by the slow path. The reader becomes inactive after the section |
//! | before `going_idle` is cleared | unregistered | no | makes the reader active. The thread stays idle, so that this costs visits only |
//! | later | unregistered | no or yes | makes the reader active, then sets `fast`: the thread is not idle any more |
//!
//! If the thread was idle before, the first row is like the last, and the second like the third.
//!
//! 3. *`fast` is the reader only if the reader is active.* `hint_idle` changes `fast` first. The slow path of the
//!    entry sets it last, and not while `going_idle` is set. This is inside a section, so no reader is released
//!    during it. A handler that comes there does the same: it is nested, makes the reader active, and sets `fast`.
//! 4. *A thread that is not idle has an active reader.* The entry clears `idle` after `set_active`. A handler that
//!    comes before finds `idle`, and calls `set_active` itself.
//! 5. *The owner does not call `hint_idle` between its load of `fast` and its entry*: none of the program's code runs
//!    there but signal handlers, which must not call it.
//!
//! In the child of a fork the thread that forked keeps its reader and its bit; all other bits are cleared. A fork in
//! a handler that interrupts any of this is not supported.
//!
//! # Invariants
//!
//! 1. A reader that is found here belongs to this thread. So [`Registration::leave_if_ended`] forgets it before the
//!    registry may give it to another thread. Destructors that run later, and read, register the thread again.
//! 2. A reader inside a section is not released. A thread that exits inside a section keeps its reader, and grace
//!    periods wait for it. If a later destructor drops the guard, the reader is released. Otherwise the guard is
//!    leaked, and may have lent references for ever: grace periods do not end any more, and one reader is lost.

use core::cell::Cell;
use core::ptr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, compiler_fence};

use super::reader::{EXITING, Owner, Reader};
use super::registry::Registry;
#[cfg(not(loom))]
use crate::fence::FAST_PATH_IS_FENCED;
use crate::fence::{fast_path_suffices, light};
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom, step};

/// See the [module](self).
#[derive(Debug)]
pub struct Registration {
    /// This thread's reader, if the fast path has the light fence that it needs, and the thread is not idle and has
    /// not run its destructors; else [`unregistered`].
    ///
    /// A pointer, because constants of Rust 1.85 contain no references to atomics.
    fast: Cell<NonNull<Reader>>,
    /// The same where the fast path does not suffice, but a full fence is what it lacks.
    fenced: Cell<NonNull<Reader>>,
    /// This thread's reader, or null. An atomic, because no handler may come between check and store when it is
    /// registered.
    reader: AtomicPtr<Reader>,
    /// The destructor has run, and may not run again: [`leave_if_ended`](Self::leave_if_ended) releases later
    /// readers.
    has_ended: Cell<bool>,
    /// The reader may not be released yet: its queue is in use, or a section is about to begin.
    stays: Cell<bool>,
    /// The thread has not entered a section since [`hint_idle`](Self::hint_idle). Its reader may be inactive.
    idle: Cell<bool>,
    /// `hint_idle` is running.
    going_idle: Cell<bool>,
    /// A copy of `fast` that the library does not read itself: see [`Registration::copy_fast_to`].
    #[cfg(not(loom))]
    copy: Cell<Option<NonNull<Cell<&'static Reader>>>>,
}

/// A reader that nothing can be done with, outside of the library: see [`UNREGISTERED`].
#[derive(Debug)]
#[repr(transparent)]
pub struct Unregistered(Reader);

/// The reader of threads that are not registered.
#[cfg(not(loom))]
pub static UNREGISTERED: Unregistered = Unregistered(Reader::sentinel());

#[cfg(loom)]
loom::lazy_static! {
    static ref UNREGISTERED: Unregistered = Unregistered(Reader::sentinel());
}

const_unless_loom! {
    /// Returns a reader that belongs to no thread, and never lets a thread enter.
    pub(crate) fn unregistered() -> &'static Reader {
        &UNREGISTERED.0
    }
}

/// `NonNull::from_ref`, which Rust 1.85 does not have.
const fn pointer_to(reader: &'static Reader) -> NonNull<Reader> {
    // SAFETY: references are not null.
    unsafe { NonNull::new_unchecked(ptr::from_ref(reader).cast_mut()) }
}

/// Returns what a copy of `fast` is while that is `reader`: C enters without a fence.
#[cfg(not(loom))]
fn copied(reader: &'static Reader) -> &'static Reader {
    if FAST_PATH_IS_FENCED { unregistered() } else { reader }
}

impl Registration {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                fast: Cell::new(pointer_to(unregistered())),
                fenced: Cell::new(pointer_to(unregistered())),
                reader: AtomicPtr::new(ptr::null_mut()),
                has_ended: Cell::new(false),
                stays: Cell::new(false),
                idle: Cell::new(false),
                going_idle: Cell::new(false),
                #[cfg(not(loom))]
                copy: Cell::new(None),
            }
        }
    }

    /// Returns the registration of a thread whose destructors run.
    #[cfg(stillpoint_portable)]
    pub const fn ended() -> Self {
        Self { has_ended: Cell::new(true), ..Self::new() }
    }

    /// Keeps a copy of [`fast`](Self::fast) in `copy` from now on, for readers that are not compiled with this crate.
    ///
    /// # Safety
    ///
    /// `copy` is a thread-local variable of the calling thread, and exists as long as this registration.
    #[cfg(not(loom))]
    #[cfg_attr(not(feature = "_capi"), allow(dead_code, reason = "C and C++ are what has copies"))]
    pub unsafe fn copy_fast_to(&self, copy: NonNull<Cell<&'static Reader>>) {
        self.copy.set(Some(copy));
        // Not `fast` itself, which a signal handler may have changed since it was loaded.
        // SAFETY: the caller's contract.
        unsafe { copy.as_ref() }.set(copied(self.fast()));
    }

    /// Sets by which path the thread enters, whose reader is active: by the fast path, if `fast`. Has no effect once
    /// the thread's destructors run.
    fn set_entry(&self, reader: &'static Reader, fast: bool) {
        if self.has_ended.get() {
            return;
        }
        self.set_fast(if fast { reader } else { unregistered() });
        if !fast {
            self.fenced.set(pointer_to(reader));
        }
    }

    /// Clears `fenced` too.
    fn set_fast(&self, reader: &'static Reader) {
        self.fast.set(pointer_to(reader));
        step!("fenced-while-idle", self.fenced.set(pointer_to(unregistered())));
        #[cfg(not(loom))]
        if let Some(copy) = self.copy.get() {
            // SAFETY: the contract of `copy_fast_to`.
            unsafe { copy.as_ref() }.set(copied(reader));
        }
    }

    /// Returns the thread's reader, if it is registered.
    #[inline(always)]
    pub fn reader(&self) -> Option<&'static Reader> {
        // SAFETY: null, or made of a static reference. Relaxed, here and below: only this thread accesses it.
        unsafe { self.reader.load(Relaxed).as_ref() }
    }

    /// Returns the argument of [`enter_or_nest`].
    #[inline(always)]
    pub fn fast(&self) -> &'static Reader {
        // SAFETY: `set_fast` and `new` store static references.
        unsafe { self.fast.get().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn fenced(&self) -> &'static Reader {
        // SAFETY: as above; `set_entry` stores one too.
        unsafe { self.fenced.get().as_ref() }
    }

    /// Registers the thread, which becomes `owner`.
    ///
    /// `arm` arranges that [`end`](Self::end) is called when the thread exits, and returns `false` if it cannot.
    /// `fast`: the thread enters by the fast path.
    pub fn register<A: Default + 'static>(
        &self,
        registry: &Registry<A>,
        owner: Owner,
        fast: bool,
        arm: impl FnOnce(&'static Reader) -> bool,
    ) -> Result<&'static Reader, &'static str> {
        let Ok(reader) = registry.claim() else { return Err("out of memory") };
        reader.set_owner(owner);
        // The flag is the previous owner's. A leader may set and withdraw `WAKE_ON_EXIT` at any time, for that
        // owner's sake.
        let exiting = if self.has_ended.get() { EXITING } else { 0 };
        reader.exit_flags.fetch_and(!EXITING, Relaxed);
        reader.exit_flags.fetch_or(exiting, Relaxed);
        let new = ptr::from_ref(reader).cast_mut();
        if self.reader.compare_exchange(ptr::null_mut(), new, Relaxed, Relaxed).is_err() {
            // A signal handler has registered this thread.
            registry.release(reader);
            return Ok(self.reader().expect("handlers release nothing here"));
        }
        // The registry has made the reader active.
        self.idle.set(false);
        if !arm(reader) {
            self.reader.store(ptr::null_mut(), Relaxed);
            registry.release(reader);
            return Err("no thread-specific data key or memory left, or the library cannot be kept loaded");
        }
        self.set_entry(reader, fast);
        Ok(reader)
    }

    /// Takes the reader over from a registration that has ended, as has this one.
    #[cfg(stillpoint_portable)]
    pub fn take_over(&self, other: &Self) {
        self.reader.store(other.reader.swap(ptr::null_mut(), Relaxed), Relaxed);
        self.idle.set(other.idle.get());
    }

    /// Makes the reader inactive until the thread enters its next section. Does nothing inside a section. Not for
    /// signal handlers. The caller makes the reader [stay](Self::stays).
    pub fn hint_idle<A>(&self, registry: &Registry<A>) {
        self.going_idle.set(true);
        compiler_fence(SeqCst);
        if let Some(reader) = self.reader().filter(|reader| !reader.in_read_section()) {
            self.idle.set(true);
            self.set_fast(unregistered());
            compiler_fence(SeqCst);
            registry.clear_active(reader);
        }
        compiler_fence(SeqCst);
        self.going_idle.set(false);
    }

    /// Begins a section by `fenced`. Returns the thread's reader. Returns `None`, without an effect, if that is
    /// [`unregistered`].
    #[inline(always)]
    pub fn enter_with_full_fence(&self, counter: &AtomicU64) -> Option<&'static Reader> {
        let reader = self.fenced();
        if ptr::eq(reader, unregistered()) {
            return None;
        }
        reader.enter_with_full_fence(counter);
        Some(reader)
    }

    /// The slow path of [`enter_or_nest`], of a thread that is registered.
    pub fn enter_registered<A>(&self, registry: &Registry<A>, reader: &'static Reader, counter: &AtomicU64) {
        reader.enter_fenced(counter);
        // In a nested section too, which a handler may have begun.
        if self.idle.get() {
            step!("idle-reader-stays-inactive", registry.set_active(reader));
            // Before a handler finds `idle` cleared, whose section is nested, and may execute no fence (1).
            light();
            if !self.going_idle.get() {
                self.idle.set(false);
                self.set_entry(reader, fast_path_suffices());
            }
        }
    }

    /// The thread exits. The caller then calls [`leave_if_ended`](Self::leave_if_ended), as does the end of its last
    /// section.
    pub fn end(&self) {
        // A handler whose section ends meanwhile does not release the reader.
        let stayed = self.stays(true);
        // Destructors that still run, and read, register the thread again.
        self.has_ended.set(true);
        compiler_fence(SeqCst);
        // For good, as `set_entry` does nothing any more: on these paths nothing keeps the reader while the thread
        // enters.
        self.set_fast(unregistered());
        if let Some(reader) = self.reader() {
            // Relaxed: for the owner itself, and for reports.
            reader.exit_flags.fetch_or(EXITING, Relaxed);
        }
        self.stays(stayed);
    }

    /// Returns `true` if [`end`](Self::end) has been called.
    pub fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Sets whether the reader may not be released. Returns the previous value.
    pub fn stays(&self, stays: bool) -> bool {
        // What needs the reader stays between the two changes.
        compiler_fence(SeqCst);
        let stayed = self.stays.replace(stays);
        compiler_fence(SeqCst);
        stayed
    }

    /// Returns `true` if the reader may not be released.
    #[cfg(stillpoint_portable)]
    pub fn has_to_stay(&self) -> bool {
        self.stays.get()
    }

    /// Releases the reader of a thread whose destructor has run, if it is outside and its queue is not in use. Calls
    /// `before` with it first.
    ///
    /// Returns `true` if the caller must call this again: a handler may have registered the thread meanwhile, and has
    /// left the release to it.
    pub fn leave_if_ended<A: Default + 'static>(
        &self,
        registry: &Registry<A>,
        before: impl FnOnce(&Reader),
    ) -> bool {
        let outside = || self.reader().filter(|reader| !reader.in_read_section());
        // A signal handler that reads from here on finds that the reader stays, and does not release it too.
        if !self.has_ended.get() || outside().is_none() || self.stays(true) {
            return false;
        }
        // Unless a handler has released it before.
        if let Some(reader) = outside() {
            step!("reader-kept-at-exit", self.reader.store(ptr::null_mut(), Relaxed));
            before(reader);
            registry.release(reader);
        }
        self.stays(false);
        true
    }
}

/// Begins a section of the thread whose [`Registration::fast`] is `reader`. Returns `false` if the thread must take
/// the slow path.
#[inline(always)]
pub fn enter_or_nest(reader: &'static Reader, counter: &AtomicU64) -> bool {
    if reader.try_enter(counter) {
        return true;
    }
    let is_registered = !ptr::eq(reader, unregistered());
    if is_registered {
        reader.nest();
    }
    is_registered
}
