//! The calling thread in a domain that is a type: its reader, from registration to exit, and what it defers; and so
//! the domain's operations.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;

use super::api::Domain;
use super::fork::{self, DomainFork};
use super::static_domain::{DomainState, StaticDomain, ThreadState};
use crate::grace_period::engine::GpCookie;
use crate::readers::any::AnyEngine;
use crate::readers::sections::reader::{Owner, Reader};
use crate::readers::sections::scan::ThreadReaders;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{Core, RawDomain, Work, parked_at};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::pool;
use crate::reclaim::pool::state::Submitted;
use crate::reclaim::queue::{PushAction, Queue};
use crate::sys::tls_destructor::AtThreadExit;

impl<D: StaticDomain> RawDomain for D {
    fn may_be_inside(&self) -> bool {
        fork::in_read_section()
    }

    fn inside(&self) -> &'static str {
        D::PROTOCOL.inside()
    }

    #[inline(always)]
    fn engine(&self) -> &AnyEngine {
        D::shared().engine()
    }

    #[inline(always)]
    fn is_done(&self, cookie: GpCookie) -> bool {
        D::shared().core.engine.is_done(cookie)
    }

    #[inline(always)]
    fn work(&self) -> &Work {
        &D::shared().core.work
    }

    fn queue_count(&self) -> usize {
        D::shared().readers().registry().len()
    }

    fn queue(&self, index: usize) -> &Queue {
        D::shared().readers().registry().attached(index)
    }

    fn next_queue(&self, index: usize) -> Option<(usize, &Queue)> {
        let index = D::shared().readers().registry().next_used(index)?;
        Some((index, self.queue(index)))
    }

    fn forget_queues(&self) {
        D::shared().readers().registry().forget_unless(|index| self.queue(index).has_pending());
    }

    #[inline(always)]
    fn hazards(&self) -> Option<&Hazards> {
        D::hazards().map(|state| &state.hazards)
    }

    #[inline]
    fn current_reader(&self) -> Option<&'static Reader> {
        registered_reader::<D>()
    }

    fn in_read_section(&self) -> bool {
        in_read_section::<D>()
    }

    fn register_for_fork(&self) {
        D::shared().fork.register();
    }

    #[inline]
    #[track_caller]
    fn defer(&self, callback: Callback) {
        match D::with_thread_state(|local| local.queue.get()) {
            Some(queue) => push::<D>(queue, callback),
            None => push_unregistered::<D>(callback),
        }
    }

    fn submit(&self, task: fn(&dyn RawDomain)) -> Submitted {
        pool::submit(move || task(D::INSTANCE))
    }

    fn park(&self, due: u64, task: fn(&dyn RawDomain)) -> bool {
        pool::park(parked_at(self.engine(), due), move || task(D::INSTANCE))
    }
}

impl<D: StaticDomain> Domain for D {
    type Section = D::Section;
    type Hazards = D::Hazards;

    fn with_section<T>(&self, f: impl FnOnce(Option<&D::Section>) -> T) -> T {
        D::with_section(f)
    }

    /// Sections of other domains are of other types.
    #[inline(always)]
    #[track_caller]
    fn check_section(&self, _section: &D::Section) {}

    fn flush(&self) -> bool {
        let Some(queue) = D::with_thread_state(|local| local.queue.get()) else { return false };
        while_it_stays::<D, _>(|| self.work().callbacks.hand_over(queue, self))
    }
}

impl DomainState {
    pub const fn new<D: StaticDomain>() -> Self {
        Self {
            core: Core::new(ThreadReaders::new(D::PROTOCOL), D::name),
            fork: DomainFork::new(D::INSTANCE, reset_in_child::<D>),
            at_exit: AtThreadExit::new(exit::<D>),
        }
    }
}

#[inline]
pub(crate) fn registered_reader<D: StaticDomain>() -> Option<&'static Reader> {
    D::with_thread_state(|local| local.registration.reader())
}

/// Returns `true` if the calling thread is inside a section of the domain.
pub(crate) fn in_read_section<D: StaticDomain>() -> bool {
    registered_reader::<D>().is_some_and(Reader::in_read_section)
}

/// Returns the calling thread's reader; registers the thread if need be.
#[track_caller]
pub(crate) fn own_reader<D: StaticDomain>() -> &'static Reader {
    reader_registered_at::<D>(Location::caller())
}

/// [`own_reader`], which registers the thread at `site`.
#[inline]
pub(crate) fn reader_registered_at<D: StaticDomain>(site: &'static Location<'static>) -> &'static Reader {
    registered_reader::<D>().unwrap_or_else(|| register_or_panic::<D>(site))
}

#[cold]
#[inline(never)]
fn register_or_panic<D: StaticDomain>(site: &'static Location<'static>) -> &'static Reader {
    register::<D>(site).unwrap_or_else(|why| panic!("cannot register the reader thread at {site}: {why}"))
}

/// Returns the queue that belongs to the reader.
pub(crate) fn queue_of<D: StaticDomain>(reader: &Reader) -> &'static Queue {
    D::shared().readers().registry().attached_to(reader)
}

/// Keeps the thread's reader as long as it exists, and then gives it back if nothing else needs it: see
/// [`crate::readers::sections::registration`].
#[derive(Debug)]
pub(crate) struct KeepReader<D: StaticDomain> {
    stayed: bool,
    _domain: PhantomData<D>,
}

impl<D: StaticDomain> KeepReader<D> {
    pub(crate) fn new() -> Self {
        Self { stayed: D::with_thread_state(|local| local.registration.stays(true)), _domain: PhantomData }
    }

    /// Returns `None` in a thread whose destructors have not run, and which keeps its reader anyway.
    pub(crate) fn if_ended() -> Option<Self> {
        D::with_thread_state(|local| local.registration.has_ended()).then(Self::new)
    }
}

impl<D: StaticDomain> Drop for KeepReader<D> {
    fn drop(&mut self) {
        D::with_thread_state(|local| local.registration.stays(self.stayed));
        // What came meanwhile has left that to this.
        leave_if_ended::<D>();
    }
}

/// Calls `f`, and keeps the thread's reader until it returns. In a thread whose destructors have run, and which is
/// outside, the reader is released then.
pub(crate) fn while_it_stays<D: StaticDomain, T>(f: impl FnOnce() -> T) -> T {
    let _stays = KeepReader::<D>::new();
    f()
}

#[cold]
pub(crate) fn register<D: StaticDomain>(
    site: &'static Location<'static>,
) -> Result<&'static Reader, &'static str> {
    D::with_thread_state(|local| D::shared().register(local, site))
}

/// Gives the reader back if the thread's destructor has run and nothing needs the reader any more: see
/// [`crate::readers::sections::registration`].
#[cold]
pub(crate) fn leave_if_ended<D: StaticDomain>() {
    D::with_thread_state(|local| D::shared().leave_if_ended(local));
}

/// What is compiled once, for all domains.
impl DomainState {
    /// Not inlined: the crate that makes the reference compiles the grace periods.
    #[inline(never)]
    fn engine(&self) -> &AnyEngine {
        &self.core.engine
    }

    fn register(
        &'static self,
        local: &ThreadState,
        site: &'static Location<'static>,
    ) -> Result<&'static Reader, &'static str> {
        self.fork.register();
        // Chooses the backend of the fence, before this thread can be a reader.
        crate::fence::report();
        let fast = crate::fence::fast_path_suffices();
        let owner = Owner { thread: crate::sys::thread::tid().unsigned_abs(), site };
        let arm = |reader| {
            // SAFETY: `exit` wants a reader.
            unsafe { self.at_exit.arm(ptr::from_ref::<Reader>(reader).cast_mut().cast()) }
        };
        let registry = self.readers().registry();
        let reader = local.registration.register(registry, owner, fast, arm)?;
        local.queue.set(Some(registry.attached_to(reader)));
        Ok(reader)
    }

    fn leave_if_ended(&'static self, local: &ThreadState) {
        if !local.has_handle.get() {
            let registry = self.readers().registry();
            while local.registration.leave_if_ended(registry, |reader| {
                local.queue.set(None);
                self.core.work.callbacks.report(registry.attached_to(reader));
            }) {}
        }
    }

    /// Resets `domain`, which this is of, for a process with one thread, whose reader stays as it is.
    fn reset_in_child(&self, domain: &dyn RawDomain, own: Option<&'static Reader>) {
        self.readers().reset_in_child(own);
        // SAFETY: called by a `ForkHook::child`.
        domain.queues().for_each(|queue| unsafe { queue.reset_in_child() });
        // SAFETY: as above.
        unsafe { self.core.reset_in_child() };
        if let Some(own) = own {
            own.set_tid(crate::sys::thread::tid().unsigned_abs());
        }
    }
}

/// The destructor of a registered thread.
///
/// # Safety
///
/// `reader` comes from [`register`].
unsafe extern "C" fn exit<D: StaticDomain>(reader: *mut c_void) {
    // SAFETY: the reader comes from `register`; readers are never freed.
    let reader: &'static Reader = unsafe { &*reader.cast::<Reader>() };
    // In the child of a fork, glibc gives new threads the memory of those that the parent had, and does not clear the
    // pointers of a thread that was about to call its destructors: then the reader is not this thread's. Or a
    // destructor has given it back.
    if !registered_reader::<D>().is_some_and(|own| ptr::eq(own, reader)) {
        return;
    }
    D::shared().core.work.callbacks.end_of_owner(queue_of::<D>(reader), D::INSTANCE);
    D::with_thread_state(|local| local.registration.end());
    leave_if_ended::<D>();
}

#[cfg(stillpoint_portable)]
impl ThreadState {
    /// The destructor of a thread's state.
    ///
    /// # Safety
    ///
    /// It is the calling thread's, and in the domain `D` the thread has a state that has [ended](Self::ended) from
    /// now on.
    #[doc(hidden)]
    pub unsafe fn end<D: StaticDomain>(&self) {
        self.registration.end();
        D::with_thread_state(|late| {
            late.registration.take_over(&self.registration);
            late.queue.set(self.queue.get());
            late.has_handle.set(self.has_handle.get());
        });
        if let Some(reader) = registered_reader::<D>() {
            let callbacks = &D::shared().core.work.callbacks;
            while_it_stays::<D, _>(|| callbacks.end_of_owner(queue_of::<D>(reader), D::INSTANCE));
        }
    }
}

/// Gives back the reader of a guard or handle that has ended, if no state of the thread knows the reader: where
/// thread-local variables are keys, it was destroyed before the guard.
#[cfg(stillpoint_portable)]
pub(crate) fn leave_if_forgotten<D: StaticDomain>(reader: &'static Reader) {
    let is_forgotten = D::with_thread_state(|local| {
        let own = local.registration.reader();
        reader.is_exiting()
            && !own.is_some_and(|own| ptr::eq(own, reader))
            && !local.registration.has_to_stay()
    });
    if is_forgotten && !reader.in_read_section() {
        D::shared().core.work.callbacks.report(queue_of::<D>(reader));
        D::shared().readers().registry().release(reader);
    }
}

/// Pushes to `queue`, which is the calling thread's.
#[inline]
fn push<D: StaticDomain>(queue: &'static Queue, callback: Callback) {
    // SAFETY: the queue is this thread's.
    let action = unsafe { queue.push(callback) };
    let callbacks = &D::shared().core.work.callbacks;
    callbacks.notify(D::INSTANCE);
    if action == PushAction::Report {
        queue.report_pushed(&callbacks.backlog.reported);
    } else if action != PushAction::None {
        // A destructor that runs here may end the section of a thread whose destructors have run.
        while_it_stays::<D, _>(|| callbacks.act(action, queue, D::INSTANCE));
    }
}

/// [`push`] by a thread that is not registered.
#[cold]
#[track_caller]
fn push_unregistered<D: StaticDomain>(callback: Callback) {
    // Not `while_it_stays`: a closure does not pass its caller's location on.
    let _stays = KeepReader::<D>::new();
    push::<D>(queue_of::<D>(own_reader::<D>()), callback);
}

/// Resets the domain in the child of a fork.
fn reset_in_child<D: StaticDomain>() {
    D::shared().reset_in_child(D::INSTANCE, registered_reader::<D>());
    if let Some(state) = D::hazards() {
        // SAFETY: called by a `ForkHook::child`.
        unsafe { state.hazards.reset_in_child() };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use support::until::until;

    use super::*;

    crate::domain! { struct Own; }

    #[test]
    fn worker_forgets_the_queues_of_ended_threads() {
        const THREADS: usize = if cfg!(miri) { 10 } else { 200 };
        let barrier = Barrier::new(THREADS);
        thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    Own.call(|| ());
                    barrier.wait();
                });
            }
        });
        until(|| {
            Own.call(|| ());
            Own.barrier();
            let visited =
                (0..THREADS).filter(|index| Own.next_queue(*index).is_some_and(|(next, _)| next == *index));
            visited.count() <= 1
        });
        assert!(Own.queue_count() >= THREADS);
    }
}
