//! What a thread knows of a domain: which reader is its own, from its registration to its end.
//!
//! Called by [`super::domain`], which keeps a [`Registration`] in a thread-local variable of each domain.
//!
//! # States
//!
//! | `reader` | `fast` | the thread |
//! |---|---|---|
//! | none | [`unregistered`] | is not registered: it has not read yet, or its destructors have run |
//! | its own | the same | enters the fast way |
//! | its own | [`unregistered`] | enters the slow way, on which it passes a light fence that is more than a compiler fence |
//!
//! # Invariant
//!
//! A reader that is found here belongs to this thread. So [`Registration::part`] forgets it before the registry may give it to another
//! thread: destructors that run later, and read, register the thread anew.

use core::cell::Cell;
use core::ptr;

use super::callbacks::Callbacks;
use super::queue::Queue;
use super::reader::{FENCED, Owner, Reader};
use super::registry::Registry;
use super::threads::{Kind, Threads};
use crate::sync::{AtomicU64, Ordering::*, const_unless_loom, light_by_backend, mutant};

/// See the [module](self).
#[derive(Debug)]
pub struct Registration {
    /// This thread's reader, if the backend's light fence is a compiler fence in every thread; else [`unregistered`], which never lets
    /// a thread enter the fast way.
    fast: Cell<&'static Reader>,
    /// This thread's reader.
    reader: Cell<Option<&'static Reader>>,
}

#[cfg(not(loom))]
static NOBODY: Reader = Reader::always_inside(&NO_QUEUE);
#[cfg(not(loom))]
static NO_QUEUE: Queue = Queue::new();

#[cfg(loom)]
loom::lazy_static! {
    static ref NOBODY: Reader = Reader::always_inside(&NO_QUEUE);
    static ref NO_QUEUE: Queue = Queue::new();
}

/// A reader that belongs to no thread, and is always inside.
#[cfg(not(loom))]
const fn unregistered() -> &'static Reader {
    &NOBODY
}
#[cfg(loom)]
fn unregistered() -> &'static Reader {
    &NOBODY
}

impl Registration {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { fast: Cell::new(unregistered()), reader: Cell::new(None) }
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

    /// Registers the thread, which becomes `owner`. `arm` has [`part`](Self::part) called with the reader when the thread ends;
    /// false if that cannot be done. `light_is_free` says that a compiler fence is a light fence.
    pub fn register(
        &self,
        registry: &Registry,
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
            return Err("no thread-specific data key or memory left");
        }
        reader.belongs_to(owner);
        if light_is_free {
            reader.attention.fetch_and(!FENCED, Relaxed);
        } else {
            reader.attention.fetch_or(FENCED, Relaxed);
        }
        self.reader.set(Some(reader));
        self.fast.set(if light_is_free { reader } else { unregistered() });
        Ok(reader)
    }

    /// The end of the thread, which registered with `reader`. [`None`] if that is not the thread's any more. False if it ends
    /// inside a section: see [`Threads::part`].
    pub fn part<K: Kind>(
        &self,
        reader: &'static Reader,
        threads: &Threads<K>,
        callbacks: &Callbacks,
    ) -> Option<bool> {
        if !self.reader.get().is_some_and(|own| ptr::eq(own, reader)) {
            return None;
        }
        if !mutant("reader-kept-at-exit") {
            self.reader.set(None);
            self.fast.set(unregistered());
        }
        callbacks.report(reader.queue);
        Some(threads.part(reader))
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
    light_by_backend();
}
