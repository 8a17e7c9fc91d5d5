//! Domains that are types: their state lies in statics, and their readers belong to threads.

use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;

use super::api::Domain;
use crate::readers::sections::reader::{Owner, Reader};
use crate::readers::sections::registration::Registration;
use crate::readers::sections::scan::{ReaderProtocol, ThreadReaders};
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{Core, RawDomain, parked_at};
use crate::reclaim::fork::{DomainFork, Functions};
use crate::reclaim::hazards::Hazards;
use crate::reclaim::queue::{PushAction, Queue};
#[cfg(feature = "statistics-page")]
use crate::reclaim::sample::DomainSample;
use crate::reclaim::{lazy_timer, worker_pool};
use crate::slots::pointers;
use crate::sys::tls_destructor::AtThreadExit;

/// A domain that is a type without data: [`rcu::Global`](crate::rcu::Global), [`qsbr::Global`](crate::qsbr::Global),
/// and the types made by [`rcu::domain!`](crate::domain) and [`qsbr::domain!`](crate::qsbr_domain).
///
/// It has no methods for programs. Code for the handles of any domain of [`qsbr`](crate::qsbr) has this bound:
///
/// ```
/// use stillpoint::qsbr::{self, Handle};
/// use stillpoint::rcu::StaticDomain;
///
/// fn take<D: StaticDomain>(thread: &mut Handle<D>, job: impl FnOnce()) {
///     thread.offline(job);
/// }
///
/// take(&mut qsbr::register(), || println!("no grace period waits for this thread"));
/// ```
///
/// # Safety
///
/// Only the macros may implement it. Each type has a `DomainState` and a `ThreadState` of its own. While a `Section` is
/// borrowed, no grace period of the domain ends that began after the borrow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a domain",
    note = "a domain is `rcu::Global`, `qsbr::Global`, a type made by `domain!`, or a `srcu::Domain` itself: a clone of it, \
            not a reference"
)]
pub unsafe trait StaticDomain: Copy + Send + Sync + Unpin + 'static {
    /// The only value.
    #[doc(hidden)]
    const INSTANCE: Self;
    #[doc(hidden)]
    const PROTOCOL: ReaderProtocol;
    /// Threads run what is deferred when they begin a section, and nowhere else: see `entry.rs`.
    #[doc(hidden)]
    const COLLECTS_ON_ENTRY: bool = false;
    /// The name of the domain in reports. (A function, as the name of a type is not a constant.)
    #[doc(hidden)]
    fn name() -> &'static str {
        core::any::type_name::<Self>()
    }
    /// What the domain has beyond others if it has hazard pointers.
    #[doc(hidden)]
    #[inline(always)]
    fn hazards() -> Option<&'static HazardState> {
        None
    }
    /// What lends references: see [`Domain::Section`].
    type Section;

    #[doc(hidden)]
    fn shared() -> &'static DomainState;

    #[doc(hidden)]
    fn with_thread_state<T>(f: impl FnOnce(&ThreadState) -> T) -> T;

    #[doc(hidden)]
    fn with_section<T>(f: impl FnOnce(Option<&Self::Section>) -> T) -> T;
}

impl<D: StaticDomain> RawDomain for D {
    type Readers = ThreadReaders<Queue>;

    const INSIDE: &'static str = D::PROTOCOL.inside();

    #[inline(always)]
    fn core(&self) -> &Core<ThreadReaders<Queue>> {
        &D::shared().core
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        let registry = D::shared().readers().registry();
        let kept = RawDomain::hazards(self).and_then(Hazards::kept);
        (0..registry.len()).map(|index| registry.attached(index)).chain(kept)
    }

    #[inline(always)]
    fn hazards(&self) -> Option<&Hazards> {
        D::hazards().map(|state| &state.hazards)
    }

    #[cfg(feature = "epoch")]
    fn has_active_owner(&self, index: usize) -> bool {
        let registry = D::shared().readers().registry();
        // The last queue may be that of what hazard pointers protect.
        index < registry.len() && registry.is_active(registry.reader(index))
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

    fn submit(&self, task: fn(&D)) -> bool {
        worker_pool::submit(move || task(&D::INSTANCE))
    }

    fn park(&self, due: u64, task: fn(&D)) -> bool {
        lazy_timer::park(parked_at(self, due), move || task(&D::INSTANCE))
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
        let is_pending = while_it_stays::<D, _>(|| self.core().callbacks.hand_over(queue, self));
        leave_if_ended::<D>();
        is_pending
    }
}

/// The state of a domain that all threads share.
#[doc(hidden)]
#[derive(Debug)]
pub struct DomainState {
    pub(crate) core: Core<ThreadReaders<Queue>>,
    pub(crate) fork: DomainFork,
    at_exit: AtThreadExit,
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

    #[inline(always)]
    pub(crate) fn readers(&self) -> &ThreadReaders<Queue> {
        self.core.engine.readers()
    }
}

/// What a domain with hazard pointers has beyond others.
#[doc(hidden)]
#[derive(Debug)]
pub struct HazardState {
    pub(crate) hazards: Hazards,
}

impl HazardState {
    pub const fn new() -> Self {
        Self { hazards: Hazards::new(pointers::TABLE.records()) }
    }
}

impl Default for HazardState {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a domain that each thread has.
#[doc(hidden)]
#[derive(Debug)]
pub struct ThreadState {
    pub(crate) registration: Registration,
    /// The thread's queue, while it is registered.
    pub(crate) queue: Cell<Option<&'static Queue>>,
    /// The thread has a [`Handle`](crate::qsbr::Handle), online or not.
    pub(crate) has_handle: Cell<bool>,
    #[cfg(feature = "epoch")]
    pub(crate) due: super::due::Due,
}

impl ThreadState {
    pub const fn new() -> Self {
        Self {
            registration: Registration::new(),
            queue: Cell::new(None),
            has_handle: Cell::new(false),
            #[cfg(feature = "epoch")]
            due: super::due::Due::new(),
        }
    }
}

impl Default for ThreadState {
    fn default() -> Self {
        Self::new()
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

/// Keeps the thread's reader as long as it exists: see [`Registration::stays`].
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
    }
}

/// Calls `f`, and keeps the thread's reader until it returns.
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
    crate::fence::register_thread();
    let fast = crate::fence::fast_path_suffices();
    #[cfg(stillpoint_portable)]
    if let Some(reader) = take_back::<D>(shared.at_exit.armed()) {
        return Ok(reader);
    }
    let owner = Owner { thread: crate::sys::thread::tid().unsigned_abs(), site };
    D::with_thread_state(|local| {
        if AtThreadExit::is_over() {
            local.registration.end();
        }
        let arm = |reader| {
            // See `sections::freed_state`.
            if cfg!(stillpoint_portable) && local.registration.has_ended() {
                return true;
            }
            // SAFETY: `exit` wants a reader.
            unsafe { shared.at_exit.arm(ptr::from_ref::<Reader>(reader).cast_mut().cast()) }
        };
        let reader = local.registration.register(shared.readers().registry(), owner, fast, arm)?;
        local.queue.set(Some(queue_of::<D>(reader)));
        Ok(reader)
    })
}

/// Takes back the reader that is armed in the calling thread, whose state has been freed: see
/// [`crate::readers::sections::freed_state`].
#[cfg(stillpoint_portable)]
fn take_back<D: StaticDomain>(armed: *mut c_void) -> Option<&'static Reader> {
    let reader = crate::readers::sections::freed_state::armed_reader(armed)?;
    let fast = crate::fence::fast_path_suffices();
    D::with_thread_state(|local| {
        local.registration.take_back(D::shared().readers().registry(), reader, fast);
        local.queue.set(Some(queue_of::<D>(reader)));
    });
    Some(reader)
}

/// Gives the reader back if the thread's destructor has run and nothing needs the reader any more: see
/// [`Registration`].
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
    let own = registered_reader::<D>();
    #[cfg(stillpoint_portable)]
    let own = own.or_else(|| take_back::<D>(ptr::from_ref(reader).cast_mut().cast()));
    if !own.is_some_and(|own| ptr::eq(own, reader)) {
        return;
    }
    D::shared().core.callbacks.end_of_owner(queue_of::<D>(reader), &D::INSTANCE);
    D::with_thread_state(|local| local.registration.end());
    leave_if_ended::<D>();
}

/// Resets the domain for a process with one thread, whose reader stays as it is.
fn reset_in_child<D: StaticDomain>() {
    let shared = D::shared();
    let own = registered_reader::<D>();
    shared.readers().reset_in_child(own);
    // SAFETY: called by a `ForkHook::child`.
    D::INSTANCE.queues().for_each(|queue| unsafe { queue.reset_in_child() });
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

/// Pushes to `queue`, which is the calling thread's.
#[inline]
fn push<D: StaticDomain>(queue: &'static Queue, callback: Callback, lazy: bool) {
    // SAFETY: the queue is this thread's.
    let action = unsafe { queue.push(callback, lazy) };
    let callbacks = &D::shared().core.callbacks;
    callbacks.notify(lazy, &D::INSTANCE);
    #[cfg(feature = "epoch")]
    if D::COLLECTS_ON_ENTRY {
        if action != PushAction::None {
            put_off::<D>(queue, action);
        }
        return;
    }
    if action != PushAction::None {
        // A destructor that runs here may end the section of a thread whose destructors have run.
        while_it_stays::<D, _>(|| callbacks.act(action, queue, &D::INSTANCE));
        leave_if_ended::<D>();
    }
}

/// After a push in a domain whose threads run nothing then: puts off what the owner must do until its next section.
#[cfg(feature = "epoch")]
#[cold]
fn put_off<D: StaticDomain>(queue: &'static Queue, action: PushAction) {
    D::with_thread_state(|local| {
        local.due.put_off(action);
        local.registration.divert();
    });
    if action != PushAction::Flush {
        return;
    }
    let callbacks = &D::shared().core.callbacks;
    callbacks.report_pushed(queue, &D::INSTANCE);
    // A repin leaves the section too, and is no entry.
    if callbacks.must_throttle(queue) {
        registered_reader::<D>()
            .filter(|reader| reader.in_read_section())
            .inspect(|reader| reader.reclaim_on_exit());
    }
}

/// [`push`] by a thread that is not registered.
#[cold]
#[track_caller]
fn push_unregistered<D: StaticDomain>(callback: Callback, lazy: bool) {
    let stays = KeepReader::<D>::new();
    push::<D>(queue_of::<D>(own_reader::<D>()), callback, lazy);
    drop(stays);
    leave_if_ended::<D>();
}

/// Defines an isolated domain of [`rcu`](crate::rcu): a type without data, with readers and grace periods of its own.
///
/// ```
/// use stillpoint::Domain;
///
/// stillpoint::domain! {
///     /// Sessions of the connection table.
///     pub struct Sessions;
/// }
///
/// drop(Sessions::enter());
/// Sessions.synchronize();
/// ```
#[macro_export]
macro_rules! domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $crate::static_domain! { rcu $(#[$attr])* $vis struct $name; }
    };
}

/// Defines a type without data, and the state of its domain. The caller gives the kind; the rest is here, because the
/// lint that forbids `unsafe` to a program does not see what is in a macro that the program calls.
#[doc(hidden)]
#[macro_export]
macro_rules! static_domain {
    (@entry on_entry) => { true };
    (@entry) => { false };
    (@protocol rcu) => { $crate::rcu::ReaderProtocol::Sections };
    (@protocol hazard) => { $crate::rcu::ReaderProtocol::Hazards };
    (@protocol qsbr) => { $crate::rcu::ReaderProtocol::Qsbr };
    (@section rcu $name:ident) => { $crate::rcu::Guard<$name> };
    (@section hazard $name:ident) => { $crate::rcu::Guard<$name> };
    (@section qsbr $name:ident) => { $crate::qsbr::Handle<$name> };
    (@within rcu $name:ident $f:ident) => {
        $f(::core::option::Option::Some(&<$name as $crate::rcu::RcuDomain>::enter()))
    };
    (@within hazard $name:ident $f:ident) => { $crate::static_domain!(@within rcu $name $f) };
    (@within qsbr $name:ident $f:ident) => { $f(::core::option::Option::None) };
    (@hazards hazard) => {
        #[inline(always)]
        fn hazards() -> ::core::option::Option<&'static $crate::rcu::HazardState> {
            static HAZARDS: $crate::rcu::HazardState = $crate::rcu::HazardState::new();
            ::core::option::Option::Some(&HAZARDS)
        }
    };
    (@hazards $kind:tt) => {};
    (@own rcu $name:ident) => {
        $crate::static_domain!(@sections $name);

        // SAFETY: there are no hazard pointers.
        unsafe impl $crate::TakeBack for $name {}
    };
    (@sections $name:ident) => {
        // SAFETY: as above.
        unsafe impl $crate::rcu::RcuDomain for $name {}

        #[allow(dead_code)]
        impl $name {
            /// Begins a read-side critical section, which lasts until the guard is dropped.
            #[inline(always)]
            #[track_caller]
            pub fn enter() -> $crate::rcu::Guard<Self> {
                <Self as $crate::rcu::RcuDomain>::enter()
            }

            /// Registers the calling thread now, not when it first reads.
            #[track_caller]
            pub fn register() {
                <Self as $crate::rcu::RcuDomain>::register();
            }

            /// Hints that the calling thread will not read for a while: see `rcu::hint_idle`.
            pub fn hint_idle() {
                <Self as $crate::rcu::RcuDomain>::hint_idle();
            }

            /// Returns `true` inside a read-side critical section of the domain.
            pub fn in_read_section() -> bool {
                <Self as $crate::rcu::RcuDomain>::in_read_section()
            }
        }
    };
    (@own hazard $name:ident) => {
        $crate::static_domain!(@sections $name);

        // SAFETY: `hazards` returns something.
        unsafe impl $crate::hazard::HazardDomain for $name {}
    };
    (@own qsbr $name:ident) => {
        // SAFETY: there are no hazard pointers.
        unsafe impl $crate::TakeBack for $name {}

        #[allow(dead_code)]
        impl $name {
            /// Registers the calling thread, which is online from now on.
            #[track_caller]
            pub fn register() -> $crate::qsbr::Handle<Self> {
                $crate::qsbr::Handle::register()
            }

            /// Like [`register`](Self::register), but returns an error instead of panicking.
            #[track_caller]
            pub fn try_register() -> ::core::result::Result<$crate::qsbr::Handle<Self>, $crate::qsbr::RegisterError> {
                $crate::qsbr::Handle::try_register()
            }

            /// Returns `true` if the calling thread has a handle that is online.
            pub fn is_online() -> bool {
                $crate::qsbr::Handle::<Self>::is_online()
            }
        }
    };
    ($kind:tt $(@$entry:ident)? $(#[$attr:meta])* $vis:vis struct $name:ident$( = $display:literal)?;) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        $vis struct $name;

        // SAFETY: the statics below belong to this type alone. A guard of `rcu` is an open section; a handle of `qsbr`
        // that is borrowed cannot report a quiescent state.
        unsafe impl $crate::rcu::StaticDomain for $name {
            const INSTANCE: Self = Self;
            const PROTOCOL: $crate::rcu::ReaderProtocol = $crate::static_domain!(@protocol $kind);
            const COLLECTS_ON_ENTRY: bool = $crate::static_domain!(@entry $($entry)?);
            $(
                fn name() -> &'static str {
                    $display
                }
            )?
            type Section = $crate::static_domain!(@section $kind $name);
            $crate::static_domain!(@hazards $kind);

            #[inline(always)]
            fn shared() -> &'static $crate::rcu::DomainState {
                static SHARED: $crate::rcu::DomainState = $crate::rcu::DomainState::new::<$name>();
                &SHARED
            }

            #[inline(always)]
            fn with_thread_state<R>(f: impl FnOnce(&$crate::rcu::ThreadState) -> R) -> R {
                ::std::thread_local! {
                    static LOCAL: $crate::rcu::ThreadState = const { $crate::rcu::ThreadState::new() };
                }
                // Not `with`, which is inlined in other crates by link-time optimization only. It does not fail, as there
                // is no destructor.
                match LOCAL.try_with(f) {
                    ::core::result::Result::Ok(result) => result,
                    ::core::result::Result::Err(_) => ::core::unreachable!(),
                }
            }

            fn with_section<R>(f: impl FnOnce(::core::option::Option<&Self::Section>) -> R) -> R {
                $crate::static_domain!(@within $kind $name f)
            }
        }

        $crate::static_domain!(@own $kind $name);
    };
}

#[cfg(all(test, stillpoint_portable))]
mod tests {
    use std::thread;

    use super::*;

    /// As a target does that frees the state of a thread whose destructors still run.
    fn free_state<D: StaticDomain>() {
        D::with_thread_state(|local| {
            let state = core::ptr::from_ref::<ThreadState>(local).cast_mut();
            // SAFETY: the thread's own, which has no destructor, and to which there is no other reference.
            unsafe { state.write(ThreadState::new()) };
        });
    }

    #[test]
    fn thread_whose_state_is_freed_gives_its_reader_back() {
        crate::domain! { struct Own; }
        let end = |reads_again: bool| {
            thread::spawn(move || {
                drop(Own::enter());
                let reader = registered_reader::<Own>().expect("registered");
                free_state::<Own>();
                assert!(registered_reader::<Own>().is_none());
                if reads_again {
                    drop(Own::enter());
                    assert!(core::ptr::eq(registered_reader::<Own>().expect("registered"), reader));
                    free_state::<Own>();
                }
            })
            .join()
            .expect("no panic");
        };
        (0..10).for_each(|round| end(round % 2 == 0));
        assert_eq!(Own.stats().readers, 1, "each thread uses the reader of the one before");
        Own.synchronize();
    }
}
