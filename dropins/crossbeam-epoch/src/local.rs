//! Participants: threads, in the default collector, and handles.
//!
//! What handles of the default collector defer is the thread's.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{Ordering::SeqCst, fence};

use stillpoint::{rcu, srcu};

use crate::collector::{Collector, DEFAULT, DefaultDomain, MULTI_COPY_ATOMIC};
use crate::deferred::Deferred;
use crate::global::Owned;
use crate::schedule::Schedule;

/// Hands over what the thread has deferred when it exits.
struct AtExit(Owned<DefaultDomain>);

impl Drop for AtExit {
    fn drop(&mut self) {
        DEFAULT.end(&self.0);
        between_sections();
    }
}

thread_local! {
    static OWNED: AtExit = const { AtExit(Owned::new()) };
}

/// Calls `f` with the thread's schedule in the default collector, which counts the guards of [`pin`](crate::pin).
#[inline(always)]
fn with_thread<R>(f: impl FnOnce(&Schedule) -> R) -> R {
    thread_local! {
        static THREAD: Schedule = const { Schedule::new() };
    }
    // Not `with`, which is inlined in other crates by link-time optimization only. It does not fail, as there is no
    // destructor.
    THREAD.try_with(f).unwrap_or_else(|_| unreachable!())
}

/// Before the thread pins in the default collector.
#[inline(always)]
fn before_pin() {
    if with_thread(Schedule::is_due) {
        collect();
    }
}

#[cold]
#[inline(never)]
fn collect() {
    if DefaultDomain::in_read_section() {
        return;
    }
    let collect = |owned: &Owned<_>| with_thread(|thread| DEFAULT.collect(owned, thread));
    // The destructors of the thread have run: it owns nothing any more.
    OWNED.try_with(|owned| collect(&owned.0)).unwrap_or_else(|_| collect(&Owned::new()));
}

/// Returns `true` if the thread has a guard of [`pin`](crate::pin).
#[inline]
pub(crate) fn is_pinned() -> bool {
    with_thread(Schedule::has_guards)
}

/// Begins a section of the default collector. Runs no functions.
#[inline(always)]
#[track_caller]
fn enter() -> rcu::Guard<DefaultDomain> {
    let section = DefaultDomain::enter();
    full_fence_if_needed();
    section
}

#[inline(always)]
fn full_fence_if_needed() {
    if !MULTI_COPY_ATOMIC {
        fence(SeqCst);
    }
}

/// What a guard of [`pin`](crate::pin) holds, which calls [`unpin`](Self::unpin).
pub(crate) struct ThreadGuard(rcu::Guard<DefaultDomain>);

impl ThreadGuard {
    /// Runs functions first.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn pin() -> Self {
        before_pin();
        Self::enter()
    }

    #[inline(always)]
    #[track_caller]
    pub(crate) fn enter() -> Self {
        let section = enter();
        with_thread(Schedule::add_guard);
        Self(section)
    }

    /// Ends the section. Runs no functions: the caller may hold a lock that they take.
    #[inline(always)]
    pub(crate) fn unpin(self) {
        drop(self.0);
        with_thread(Schedule::remove_guard);
    }

    /// Returns `true` if something must happen outside of the section.
    pub(crate) fn must_leave(&self) -> bool {
        with_thread(Schedule::has_flushed)
    }

    /// Ends the section and begins a new one, if this is the thread's only guard. Runs no functions.
    #[inline]
    pub(crate) fn repin(&mut self) {
        self.0.repin();
    }
}

/// [`Global::between_sections`](crate::global::Global::between_sections), outside sections of the thread.
#[cold]
pub(crate) fn between_sections() {
    if !DefaultDomain::in_read_section() {
        with_thread(|thread| DEFAULT.between_sections(thread));
    }
}

/// Runs what is ready. The rest goes through a grace period, and runs, when the thread pins again.
pub(crate) fn flush_thread() {
    DEFAULT.drop_elapsed();
    with_thread(Schedule::flush);
}

/// Defers `f` in the default collector.
///
/// # Safety
///
/// The thread is pinned. Any thread may call `f` after a grace period, however late.
pub(crate) unsafe fn defer_in_thread(f: impl FnOnce()) {
    // SAFETY: the caller's contract.
    let mut function = Some(unsafe { Deferred::new(f) });
    let mut defer = |owned: Option<&Owned<_>>| {
        let Some(function) = function.take() else { return };
        // SAFETY: the caller's contract.
        with_thread(|thread| unsafe { DEFAULT.defer(owned, thread, function) });
    };
    // The destructors of the thread may have run.
    OWNED.try_with(|owned| defer(Some(&owned.0))).unwrap_or_else(|_| defer(None));
}

/// A handle of a collector, which its guards keep.
pub(crate) struct Handle {
    pub(crate) collector: Collector,
    /// The guards, one of which has opened the section.
    guards: Cell<usize>,
    section: Cell<Option<Section>>,
    /// Of a collector that is not the default one.
    owned: Owned<srcu::Domain>,
    schedule: Schedule,
}

#[expect(dead_code, reason = "they are held until they are dropped")]
enum Section {
    Default(rcu::Guard<DefaultDomain>),
    Own(srcu::Guard<'static>),
}

impl Handle {
    pub(crate) fn new(collector: Collector) -> Self {
        Self {
            collector,
            guards: Cell::new(0),
            section: Cell::new(None),
            owned: Owned::new(),
            schedule: Schedule::new(),
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.guards.get() != 0
    }

    #[inline]
    fn pin(&self) {
        if self.guards.get() == 0 {
            match self.collector.own() {
                None => before_pin(),
                Some(global) if self.schedule.is_due() => global.collect(&self.owned, &self.schedule),
                Some(_) => {}
            }
        }
        // Functions that have just run may have pinned the handle, and have kept the guard.
        if self.guards.get() == 0 {
            self.section.set(Some(self.enter()));
        }
        self.guards.set(self.guards.get() + 1);
    }

    #[inline]
    fn unpin(&self) {
        let guards = self.guards.get() - 1;
        self.guards.set(guards);
        if guards == 0 {
            self.leave();
        }
    }

    /// Begins a section. Runs no functions.
    fn enter(&self) -> Section {
        let Some(global) = self.collector.own() else { return Section::Default(enter()) };
        // SAFETY: the domain is kept by this value, which is on the heap, and which each guard of the section keeps.
        let domain: &'static srcu::Domain = unsafe { &*std::ptr::from_ref(global.domain()) };
        let section = Section::Own(domain.enter());
        full_fence_if_needed();
        section
    }

    /// Ends the section. Runs no functions: the caller may hold a lock that they take.
    fn leave(&self) {
        drop(self.section.take());
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(global) = self.collector.own() {
            global.end(&self.owned);
            global.between_sections(&self.schedule);
        }
    }
}

/// What a guard of a handle holds.
pub(crate) struct HandleGuard(Rc<Handle>);

impl HandleGuard {
    #[inline]
    pub(crate) fn new(handle: &Rc<Handle>) -> Self {
        handle.pin();
        Self(Rc::clone(handle))
    }

    #[inline]
    pub(crate) fn collector(&self) -> &Collector {
        &self.0.collector
    }

    pub(crate) fn flush(&self) {
        match self.0.collector.own() {
            None => flush_thread(),
            Some(global) => {
                global.drop_elapsed();
                self.0.schedule.flush();
            }
        }
    }

    /// Ends the section and begins a new one, if this is the handle's only guard. Runs no functions.
    pub(crate) fn repin(&self) {
        let handle = &*self.0;
        if handle.guards.get() != 1 {
            return;
        }
        handle.leave();
        match handle.collector.own() {
            None => between_sections(),
            Some(global) => global.between_sections(&handle.schedule),
        }
        handle.section.set(Some(handle.enter()));
    }

    /// Ends the section and calls `f`, if this is the handle's only guard. Then begins a new one, also if `f` panics.
    pub(crate) fn repin_after<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Repin<'a>(&'a Handle);
        impl Drop for Repin<'_> {
            fn drop(&mut self) {
                self.0.pin();
            }
        }
        self.0.unpin();
        let _repin = Repin(&self.0);
        f()
    }

    /// Defers `f`.
    ///
    /// # Safety
    ///
    /// Any thread may call `f` after a grace period, however late.
    pub(crate) unsafe fn defer(&self, f: impl FnOnce()) {
        match self.0.collector.own() {
            // SAFETY: the caller's contract.
            None => unsafe { defer_in_thread(f) },
            // SAFETY: the caller's contract.
            Some(global) => unsafe {
                global.defer(Some(&self.0.owned), &self.0.schedule, Deferred::new(f));
            },
        }
    }
}

impl Drop for HandleGuard {
    #[inline]
    fn drop(&mut self) {
        self.0.unpin();
    }
}
