//! The calling thread in a domain that is a type: its reader, from registration to exit, and what it defers; and so the
//! domain's operations.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;

use super::api::Domain;
#[cfg(stillpoint_portable)]
use super::static_domain::ThreadState;
use super::static_domain::{DomainState, StaticDomain};
use crate::readers::sections::reader::{Owner, Reader};
use crate::readers::sections::scan::ThreadReaders;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{Core, RawDomain, parked_at};
use crate::reclaim::fork::{DomainFork, Functions};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::queue::{PushAction, Queue};
#[cfg(feature = "statistics-page")]
use crate::reclaim::sample::DomainSample;
use crate::reclaim::{lazy_timer, worker_pool};
use crate::sys::tls_destructor::AtThreadExit;

impl<D: StaticDomain> RawDomain for D {
    fn inside(&self) -> &'static str {
        D::PROTOCOL.inside()
    }

    #[inline(always)]
    fn core(&self) -> &Core {
        &D::shared().core
    }

    fn queue_count(&self) -> usize {
        D::shared().readers().registry().len()
    }

    fn queue(&self, index: usize) -> &Queue {
        D::shared().readers().registry().attached(index)
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
    fn defer(&self, callback: Callback, lazy: bool) {
        match D::with_thread_state(|local| local.queue.get()) {
            Some(queue) => push::<D>(queue, callback, lazy),
            None => push_unregistered::<D>(callback, lazy),
        }
    }

    fn submit(&self, task: fn(&dyn RawDomain)) -> bool {
        worker_pool::submit(move || task(&D::INSTANCE))
    }

    fn park(&self, due: u64, task: fn(&dyn RawDomain)) -> bool {
        lazy_timer::park(parked_at(self.core(), due), Box::new(move || task(&D::INSTANCE)))
    }
}

impl<D: StaticDomain> Domain for D {
    type Section = D::Section;

    fn with_section<T>(&self, f: impl FnOnce(Option<&D::Section>) -> T) -> T {
        D::with_section(f)
    }

    /// Sections of other domains are of other types.
    #[inline(always)]
    #[track_caller]
    fn check_section(&self, _section: &D::Section) {}

    fn flush(&self) -> bool {
        let Some(queue) = D::with_thread_state(|local| local.queue.get()) else { return false };
        while_it_stays::<D, _>(|| self.core().callbacks.hand_over(queue, self))
    }
}

impl DomainState {
    pub const fn new<D: StaticDomain>() -> Self {
        Self {
            core: Core::new(ThreadReaders::new(D::PROTOCOL), D::name),
            fork: DomainFork::new(Functions {
                reset: reset_in_child::<D>,
                in_read_section: in_read_section::<D>,
                #[cfg(feature = "statistics-page")]
                sample: || DomainSample::of(&D::INSTANCE),
            }),
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

/// Calls `f`, and keeps the thread's reader until it returns. In a thread whose destructors have run, and which is outside,
/// the reader is released then.
pub(crate) fn while_it_stays<D: StaticDomain, T>(f: impl FnOnce() -> T) -> T {
    let _stays = KeepReader::<D>::new();
    f()
}

#[cold]
pub(crate) fn register<D: StaticDomain>(
    site: &'static Location<'static>,
) -> Result<&'static Reader, &'static str> {
    let shared = D::shared();
    shared.fork.register();
    // Chooses the backend of the fence, before this thread can be a reader.
    crate::fence::init();
    let fast = crate::fence::fast_path_suffices();
    let owner = Owner { thread: crate::sys::thread::tid().unsigned_abs(), site };
    D::with_thread_state(|local| {
        let arm = |reader| {
            // SAFETY: `exit` wants a reader.
            unsafe { shared.at_exit.arm(ptr::from_ref::<Reader>(reader).cast_mut().cast()) }
        };
        let reader = local.registration.register(shared.readers().registry(), owner, fast, arm)?;
        local.queue.set(Some(queue_of::<D>(reader)));
        Ok(reader)
    })
}

/// Gives the reader back if the thread's destructor has run and nothing needs the reader any more: see
/// [`crate::readers::sections::registration`].
#[cold]
pub(crate) fn leave_if_ended<D: StaticDomain>() {
    let shared = D::shared();
    D::with_thread_state(|local| {
        if !local.has_handle.get() {
            let registry = shared.readers().registry();
            while local.registration.leave_if_ended(registry, |reader| {
                local.queue.set(None);
                shared.core.callbacks.report(registry.attached_to(reader));
            }) {}
        }
    });
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
    D::shared().core.callbacks.end_of_owner(queue_of::<D>(reader), &D::INSTANCE);
    D::with_thread_state(|local| local.registration.end());
    leave_if_ended::<D>();
}

#[cfg(stillpoint_portable)]
impl ThreadState {
    /// The destructor of a thread's state.
    ///
    /// # Safety
    ///
    /// It is the calling thread's, and in the domain `D` the thread has a state that has [ended](Self::ended) from now on.
    #[doc(hidden)]
    pub unsafe fn end<D: StaticDomain>(&self) {
        self.registration.end();
        D::with_thread_state(|late| {
            late.registration.take_over(&self.registration);
            late.queue.set(self.queue.get());
            late.has_handle.set(self.has_handle.get());
        });
        if let Some(reader) = registered_reader::<D>() {
            let callbacks = &D::shared().core.callbacks;
            while_it_stays::<D, _>(|| callbacks.end_of_owner(queue_of::<D>(reader), &D::INSTANCE));
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
        D::shared().core.callbacks.report(queue_of::<D>(reader));
        D::shared().readers().registry().release(reader);
    }
}

/// Pushes to `queue`, which is the calling thread's.
#[inline]
fn push<D: StaticDomain>(queue: &'static Queue, callback: Callback, lazy: bool) {
    // SAFETY: the queue is this thread's.
    let action = unsafe { queue.push(callback, lazy) };
    let callbacks = &D::shared().core.callbacks;
    callbacks.notify(lazy, &D::INSTANCE);
    if action != PushAction::None {
        // A destructor that runs here may end the section of a thread whose destructors have run.
        while_it_stays::<D, _>(|| callbacks.act(action, queue, &D::INSTANCE));
    }
}

/// [`push`] by a thread that is not registered.
#[cold]
#[track_caller]
fn push_unregistered<D: StaticDomain>(callback: Callback, lazy: bool) {
    // Not `while_it_stays`: a closure does not pass its caller's location on.
    let _stays = KeepReader::<D>::new();
    push::<D>(queue_of::<D>(own_reader::<D>()), callback, lazy);
}

/// Resets the domain for a process with one thread, whose reader stays as it is.
fn reset_in_child<D: StaticDomain>() {
    let shared = D::shared();
    let own = registered_reader::<D>();
    shared.readers().reset_in_child(own);
    let domain: &dyn RawDomain = &D::INSTANCE;
    // SAFETY: called by a `ForkHook::child`.
    domain.queues().for_each(|queue| unsafe { queue.reset_in_child() });
    if let Some(state) = D::hazards() {
        // SAFETY: as above.
        unsafe { state.hazards.reset_in_child() };
    }
    // SAFETY: as above.
    unsafe { shared.core.reset_in_child() };
    if let Some(own) = own {
        own.set_tid(crate::sys::thread::tid().unsigned_abs());
    }
}
