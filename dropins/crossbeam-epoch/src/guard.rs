//! Guards: what keeps a thread or a handle pinned.

use std::fmt;
use std::mem::{self, ManuallyDrop};

use crate::collector::{Collector, default_collector};
use crate::local::{self, HandleGuard, ThreadGuard};
use crate::pointable::Pointable;
use crate::shared::Shared;

/// Pins the current thread: until the guard is dropped, no function runs that is deferred from now on.
///
/// A thread that has no guard yet runs deferred functions first.
#[inline]
#[track_caller]
pub fn pin() -> Guard {
    Guard { section: ManuallyDrop::new(Section::Thread(ThreadGuard::pin())) }
}

/// Returns `true` if the current thread has a guard of [`pin`]. Handles of the default collector do not count.
#[inline]
pub fn is_pinned() -> bool {
    local::is_pinned()
}

/// Keeps the current thread pinned, or the [`LocalHandle`](crate::LocalHandle) that it comes from.
///
/// Guards may be nested and dropped in any order. The thread is unpinned when the last one is dropped.
///
/// ```
/// use crossbeam_epoch as epoch;
///
/// let outer = epoch::pin();
/// let inner = epoch::pin();
/// drop(outer);
/// assert!(epoch::is_pinned());
/// drop(inner);
/// assert!(!epoch::is_pinned());
/// ```
///
/// A guard stays in its thread:
///
/// ```compile_fail,E0277
/// let guard = crossbeam_epoch::pin();
/// std::thread::spawn(move || drop(guard));
/// ```
pub struct Guard {
    section: ManuallyDrop<Section>,
}

enum Section {
    /// Of the current thread, in the default collector.
    Thread(ThreadGuard),
    Handle(HandleGuard),
    /// See [`unprotected`].
    None,
}

impl Guard {
    #[inline(always)]
    pub(crate) fn of_handle(guard: HandleGuard) -> Self {
        Self { section: ManuallyDrop::new(Section::Handle(guard)) }
    }

    /// Calls `f` when all threads that are pinned now have been unpinned.
    ///
    /// In this thread, when it pins and has no guard yet; in a thread that calls [`flush`](Self::flush); or in a
    /// thread of the library, within some ten milliseconds if no thread stays pinned. Never in a call of this
    /// function, and never when a guard is dropped: so `f` may take a lock that is held then. It must not panic: a
    /// panic is reported and goes no further. Unless its closure is larger than a pointer, nothing is allocated for
    /// it. Never blocks.
    ///
    /// With an [`unprotected`] guard `f` is called at once.
    #[inline]
    #[track_caller]
    pub fn defer<F, R>(&self, f: F)
    where
        F: FnOnce() -> R,
        F: Send + 'static,
    {
        // SAFETY: any thread may call it, at any time.
        unsafe { self.defer_unchecked(f) };
    }

    /// [`defer`](Self::defer) for a closure that is neither `Send` nor `'static`.
    ///
    /// # Safety
    ///
    /// What `f` uses may be used by any thread, and exists until `f` was called, however late: it borrows nothing
    /// from a stack.
    #[inline]
    #[track_caller]
    pub unsafe fn defer_unchecked<F, R>(&self, f: F)
    where
        F: FnOnce() -> R,
    {
        let f = move || drop(f());
        match &*self.section {
            // SAFETY: the caller's contract.
            Section::Thread(_) => unsafe { local::defer_in_thread(f) },
            // SAFETY: the caller's contract.
            Section::Handle(handle) => unsafe { handle.defer(f) },
            Section::None => f(),
        }
    }

    /// Drops the value and frees its memory, as [`defer`](Self::defer) calls a function. Allocates nothing.
    ///
    /// # Safety
    ///
    /// `ptr` is not null. No thread can load it any more or drops its value otherwise, and any thread may drop it.
    #[inline]
    #[track_caller]
    pub unsafe fn defer_destroy<T: ?Sized + Pointable>(&self, ptr: Shared<'_, T>) {
        let pointer = ptr.untagged();
        // SAFETY: the caller's contract, after a grace period.
        let destroy = move || unsafe { T::drop(pointer) };
        match &*self.section {
            // SAFETY: the caller's contract.
            Section::Thread(_) => unsafe { local::defer_in_thread(destroy) },
            // SAFETY: the caller's contract.
            Section::Handle(handle) => unsafe { handle.defer(destroy) },
            Section::None => destroy(),
        }
    }

    /// Has deferred functions run as soon as possible.
    ///
    /// Runs those that are ready, of all threads. What is deferred becomes ready, and runs, when the thread, or the
    /// handle, pins again, if no other is pinned then that was when it was deferred. So if a thread calls
    /// `pin().flush()` twice, and no other is pinned, all functions have run that were deferred before, also by
    /// threads that have ended. Does nothing with an [`unprotected`] guard. Never waits for a thread that is pinned.
    ///
    /// ```
    /// use crossbeam_epoch as epoch;
    ///
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    ///
    /// static DONE: AtomicBool = AtomicBool::new(false);
    /// epoch::pin().defer(|| DONE.store(true, Relaxed));
    /// epoch::pin().flush();
    /// epoch::pin().flush();
    /// assert!(DONE.load(Relaxed));
    /// ```
    pub fn flush(&self) {
        match &*self.section {
            Section::Thread(_) => local::flush_thread(),
            Section::Handle(handle) => handle.flush(),
            Section::None => {}
        }
    }

    /// Unpins and pins the thread, or the handle, if this is its only guard.
    #[inline]
    pub fn repin(&mut self) {
        match &mut *self.section {
            Section::Thread(guard) if guard.must_leave() => self.repin_slow(),
            Section::Thread(guard) => guard.repin(),
            Section::Handle(handle) => handle.repin(),
            Section::None => {}
        }
    }

    #[cold]
    fn repin_slow(&mut self) {
        drop(self.take());
        local::between_sections();
        self.section = ManuallyDrop::new(Section::Thread(ThreadGuard::enter()));
    }

    /// Leaves an [`unprotected`] guard.
    fn take(&mut self) -> Self {
        mem::replace(self, Self { section: ManuallyDrop::new(Section::None) })
    }

    /// Calls `f` while the thread, or the handle, is unpinned, if this is its only guard. Pins it again, also if `f`
    /// panics.
    pub fn repin_after<F, R>(&mut self, f: F) -> R
    where
        F: FnOnce() -> R,
    {
        struct Repin<'a>(&'a mut Guard);
        impl Drop for Repin<'_> {
            fn drop(&mut self) {
                *self.0 = pin();
            }
        }
        match &*self.section {
            Section::Thread(_) => {
                drop(self.take());
                let _repin = Repin(self);
                f()
            }
            Section::Handle(handle) => handle.repin_after(f),
            Section::None => f(),
        }
    }

    /// Returns the guard's collector, or `None` for an [`unprotected`] guard.
    #[inline]
    pub fn collector(&self) -> Option<&Collector> {
        match &*self.section {
            Section::Thread(_) => Some(default_collector()),
            Section::Handle(handle) => Some(handle.collector()),
            Section::None => None,
        }
    }
}

impl Drop for Guard {
    /// Inlined, as is what makes a guard, and takes no address of it: so the compiler knows the guard's kind.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the section is not used again.
        match unsafe { ManuallyDrop::take(&mut self.section) } {
            Section::Thread(guard) => guard.unpin(),
            Section::Handle(guard) => drop_handle(guard),
            Section::None => {}
        }
    }
}

#[cold]
fn drop_handle(guard: HandleGuard) {
    drop(guard);
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// Returns a guard that pins nothing, for data that no other thread uses.
///
/// What is deferred with it runs at once.
///
/// # Safety
///
/// Values that are loaded with it are not freed meanwhile: because no other thread changes the pointers, or only ones
/// that lead to values which are never freed.
#[inline]
pub unsafe fn unprotected() -> &'static Guard {
    struct Unprotected(Guard);
    // SAFETY: it has nothing that belongs to a thread.
    unsafe impl Sync for Unprotected {}
    static UNPROTECTED: Unprotected = Unprotected(Guard { section: ManuallyDrop::new(Section::None) });
    &UNPROTECTED.0
}
