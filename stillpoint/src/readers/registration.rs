//! What a thread knows of a domain: which reader is its own, from its registration to its end.
//!
//! Called by [`crate::domain::static_domain`], which keeps a [`Registration`] in a thread-local variable of each domain.
//!
//! # States
//!
//! | `reader` | `fast` | the thread |
//! |---|---|---|
//! | none | [`unregistered`] | is not registered: it has not read yet, or its destructors have run |
//! | its own | the same | enters the fast way |
//! | its own | [`unregistered`] | enters the slow way, on which it passes a light fence that is more than a compiler fence |
//!
//! # Invariants
//!
//! 1. A reader that is found here belongs to this thread. So [`Registration::leave_if_ended`] forgets it before the registry may
//!    give it to another thread: destructors that run later, and read, register the thread anew.
//! 2. A reader that is inside a section is not given back. A thread that exits inside one keeps its reader, and grace periods wait
//!    for it. If a later destructor drops the guard, that gives the reader back. Otherwise the guard is leaked, and may have lent
//!    references for ever: grace periods do not end any more, and one reader is lost.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::compiler_fence;

use super::reader::{EXITING, NEEDS_FENCE, Owner, Reader};
use super::registry::{Attached, Registry};
use crate::fence::light;
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom, step};

/// See the [module](self).
#[derive(Debug)]
pub struct Registration {
    /// This thread's reader, if the backend's light fence is a compiler fence in every thread; else [`unregistered`], which never lets
    /// a thread enter the fast way.
    fast: Cell<&'static Reader>,
    /// This thread's reader.
    reader: Cell<Option<&'static Reader>>,
    /// The destructor has run, and may not do so again: a reader that a later one needs is given back by
    /// [`leave_if_ended`](Self::leave_if_ended).
    has_ended: Cell<bool>,
    /// It is not given back yet: something uses its queue.
    stays: Cell<bool>,
}

#[cfg(not(loom))]
static UNREGISTERED: Reader = Reader::sentinel();

#[cfg(loom)]
loom::lazy_static! {
    static ref UNREGISTERED: Reader = Reader::sentinel();
}

/// A reader that belongs to no thread, and is always inside.
#[cfg(not(loom))]
const fn unregistered() -> &'static Reader {
    &UNREGISTERED
}
#[cfg(loom)]
fn unregistered() -> &'static Reader {
    &UNREGISTERED
}

impl Registration {
    const_unless_loom! {
        pub fn new() -> Self {
            Self {
                fast: Cell::new(unregistered()),
                reader: Cell::new(None),
                has_ended: Cell::new(false),
                stays: Cell::new(false),
            }
        }
    }

    /// The thread's reader, if it is registered.
    #[inline(always)]
    pub fn reader(&self) -> Option<&'static Reader> {
        self.reader.get()
    }

    /// What [`try_enter`] takes.
    #[inline(always)]
    pub fn fast(&self) -> &'static Reader {
        self.fast.get()
    }

    /// Registers the thread, which becomes `owner`. `arm` has [`end`](Self::end) called with the reader when the thread ends;
    /// false if that cannot be done. `light_is_free` says that a compiler fence is a light fence.
    pub fn register<A: Attached + 'static>(
        &self,
        registry: &Registry<A>,
        owner: Owner,
        light_is_free: bool,
        arm: impl FnOnce(&'static Reader) -> bool,
    ) -> Result<&'static Reader, &'static str> {
        let Ok(reader) = registry.claim() else { return Err("out of memory") };
        if let Some(reader_of_handler) = self.reader.get() {
            // A signal handler on this thread was faster.
            registry.release(reader);
            return Ok(reader_of_handler);
        }
        if !arm(reader) {
            registry.release(reader);
            return Err("no thread-specific data key or memory left, or the library cannot be kept loaded");
        }
        reader.set_owner(owner);
        // The reader is this thread's, which is in no section: the bits are those of the owner before, and `WAKE_ON_EXIT` is not set.
        let exiting = if self.has_ended.get() { EXITING } else { 0 };
        reader.exit_flags.fetch_and(!(NEEDS_FENCE | EXITING), Relaxed);
        reader.exit_flags.fetch_or(if light_is_free { exiting } else { exiting | NEEDS_FENCE }, Relaxed);
        self.reader.set(Some(reader));
        self.fast.set(if light_is_free { reader } else { unregistered() });
        Ok(reader)
    }

    /// The thread exits. [`leave_if_ended`](Self::leave_if_ended) is to be called next, and where its last section ends.
    pub fn end(&self) {
        // Destructors that still run and read register the thread anew, each for as long as it needs.
        self.has_ended.set(true);
        if let Some(reader) = self.reader.get() {
            // Relaxed: the owner talks to itself, and to reports.
            reader.exit_flags.fetch_or(EXITING, Relaxed);
        }
    }

    /// Whether the destructor of the thread has run.
    pub fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Says whether something uses the reader's queue; whether something did before.
    pub fn stays(&self, stays: bool) -> bool {
        self.stays.replace(stays)
    }

    /// Gives the reader back of a thread whose destructor has run, if it is outside and its queue is not in use. Calls `before`
    /// with it first.
    pub fn leave_if_ended<A: Attached + 'static>(
        &self,
        registry: &Registry<A>,
        before: impl FnOnce(&Reader),
    ) {
        // A signal handler that reads here must not give the reader back too: it finds that the reader stays.
        if !self.has_ended.get() || self.stays.replace(true) {
            return;
        }
        compiler_fence(SeqCst);
        if let Some(reader) = self.reader.get().filter(|reader| !reader.in_read_section()) {
            step!("reader-kept-at-exit", {
                self.reader.set(None);
                self.fast.set(unregistered());
            });
            before(reader);
            registry.release(reader);
        }
        compiler_fence(SeqCst);
        self.stays.set(false);
    }
}

/// Begins a section of the thread whose [`Registration::fast`] is `reader`. False if it must go the slow way.
#[inline(always)]
pub fn try_enter(reader: &'static Reader, counter: &AtomicU64) -> bool {
    if reader.try_enter(counter) {
        return true;
    }
    let is_registered = !ptr::eq(reader, unregistered());
    if is_registered {
        reader.nest();
    }
    is_registered
}

/// The slow way: `reader` is the thread's own.
pub fn enter_slow(reader: &'static Reader, counter: &AtomicU64) {
    if !reader.try_enter(counter) {
        reader.nest();
    }
    // A real fence, or the backend's reason why a compiler fence will do.
    light();
}
