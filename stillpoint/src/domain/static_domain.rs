//! Domains: separate worlds of readers and grace periods, told apart by type.

use core::cell::Cell;
use core::ffi::c_void;
use core::ops::Deref;
use core::panic::Location;
use core::ptr;

use super::api::Domain;
use super::deferred;
use super::fork::DomainFork;
use super::raw::{Core, HasReaders, Messages, RawDomain};
use crate::readers::reader::{Owner, Reader};
use crate::readers::registration::Registration;
use crate::readers::threads::{ReaderProtocol, ThreadReaders};
use crate::reclaim::callback::Callback;
use crate::reclaim::queue::{PushAction, Queue};
use crate::sys::tls_destructor::AtThreadExit;

/// The readers of a domain whose readers belong to threads.
pub(crate) type QueuedReaders<K> = ThreadReaders<K, Queue>;

/// A domain that is a type without data.
///
/// # Safety
///
/// Each type has a [`DomainState`] and a [`ThreadState`] of its own. While a `Section` is borrowed, no grace period of the domain
/// ends that began meanwhile.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a domain",
    note = "a domain is `rcu::Global`, `qsbr::Global`, a type made by `domain!`, or a `srcu::Domain` itself: a clone of it, \
            not a reference"
)]
pub unsafe trait StaticDomain: Copy + Send + Sync + Unpin + 'static {
    /// The only value.
    const INSTANCE: Self;
    const MESSAGES: &'static Messages;
    type Protocol: ReaderProtocol;
    type Section;

    fn shared() -> &'static DomainState<Self::Protocol>;

    fn with_thread_state<T>(f: impl FnOnce(&ThreadState) -> T) -> T;

    fn with_section<T>(f: impl FnOnce(Option<&Self::Section>) -> T) -> T;
}

impl<D: StaticDomain> HasReaders for D {
    type Readers = QueuedReaders<D::Protocol>;
    type Queues = QueuedReaders<D::Protocol>;
}

// SAFETY: sections of other domains are of other types; guards and handles keep grace periods from ending.
unsafe impl<D: StaticDomain> RawDomain for D {
    type Lender = D::Section;
    type WorkerRef = StaticRef<D>;

    fn messages(&self) -> &'static Messages {
        D::MESSAGES
    }

    #[inline(always)]
    fn core(&self) -> &Core<QueuedReaders<D::Protocol>> {
        &D::shared().core
    }

    fn queues(&self) -> &QueuedReaders<D::Protocol> {
        D::shared().readers()
    }

    unsafe fn worker_ref(&self) -> StaticRef<D> {
        StaticRef(D::INSTANCE)
    }

    #[inline]
    fn current_reader(&self) -> Option<&'static Reader> {
        registered_reader::<D>()
    }

    fn in_read_section(&self) -> bool {
        in_read_section::<D>()
    }

    fn enlist(&self) {
        D::shared().fork.enlist();
    }

    #[inline]
    #[track_caller]
    fn defer(&self, entry: Callback, lazy: bool) {
        defer_here::<D>(entry, lazy);
    }

    #[inline(always)]
    fn check(&self, _section: &D::Section) {}

    fn with_section<T>(&self, f: impl FnOnce(Option<&D::Section>) -> T) -> T {
        D::with_section(f)
    }
}

/// A domain that is always there.
#[derive(Debug)]
pub(crate) struct StaticRef<D>(D);

impl<D> Deref for StaticRef<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.0
    }
}

impl<D: StaticDomain> Domain for D {
    type Section = D::Section;
}

/// What all threads share of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct DomainState<K> {
    pub(crate) core: Core<QueuedReaders<K>>,
    pub(crate) fork: DomainFork,
    at_exit: AtThreadExit,
}

impl<K: ReaderProtocol> DomainState<K> {
    pub const fn new<D: StaticDomain<Protocol = K>>() -> Self {
        Self {
            core: Core::new(ThreadReaders::new(), core::any::type_name::<D>),
            fork: DomainFork::new(reset_in_child::<D>, in_read_section::<D>),
            at_exit: AtThreadExit::new(exit::<D>),
        }
    }

    #[inline(always)]
    pub(crate) fn readers(&self) -> &QueuedReaders<K> {
        self.core.engine.readers()
    }
}

/// What a thread knows of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct ThreadState {
    pub(crate) registration: Registration,
    /// Its queue, while it is registered.
    queue: Cell<Option<&'static Queue>>,
    /// It has a [`Handle`](crate::qsbr::Handle), online or not.
    pub(crate) has_handle: Cell<bool>,
}

impl ThreadState {
    pub const fn new() -> Self {
        Self { registration: Registration::new(), queue: Cell::new(None), has_handle: Cell::new(false) }
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

/// Whether `reader` is the calling thread's.
fn is_own<D: StaticDomain>(reader: &Reader) -> bool {
    registered_reader::<D>().is_some_and(|own| ptr::eq(own, reader))
}

/// Whether the calling thread is inside a section of the domain.
pub(crate) fn in_read_section<D: StaticDomain>() -> bool {
    registered_reader::<D>().is_some_and(Reader::in_read_section)
}

/// The calling thread's reader; registers the thread if need be.
#[track_caller]
pub(crate) fn own_reader<D: StaticDomain>() -> &'static Reader {
    match registered_reader::<D>() {
        Some(reader) => reader,
        None => new_reader::<D>(),
    }
}

/// A reader for the calling thread, which has none.
#[track_caller]
fn new_reader<D: StaticDomain>() -> &'static Reader {
    match register::<D>(Location::caller()) {
        Ok(reader) => reader,
        Err(why) => panic!("cannot register a reader thread: {why}"),
    }
}

/// Calls `f` with a reader for the calling thread, which has none.
#[cold]
#[track_caller]
fn with_new_reader<D: StaticDomain, R>(f: impl FnOnce(&'static Reader) -> R) -> R {
    let reader = new_reader::<D>();
    let result = while_it_stays::<D, _>(|| f(reader));
    leave_if_ended::<D>();
    result
}

/// Calls `f`, during which the thread's reader is not given back, and which does not unwind.
pub(crate) fn while_it_stays<D: StaticDomain, R>(f: impl FnOnce() -> R) -> R {
    // Not inside `with_thread_state`: `f` may look there.
    let stayed = D::with_thread_state(|local| local.registration.stays(true));
    let result = f();
    D::with_thread_state(|local| local.registration.stays(stayed));
    result
}

#[cold]
pub(crate) fn register<D: StaticDomain>(
    site: &'static Location<'static>,
) -> Result<&'static Reader, &'static str> {
    let shared = D::shared();
    shared.fork.enlist();
    // Chooses the backend of the fence, before this thread can be a reader.
    crate::fence::register_thread();
    let light_is_free = crate::fence::backend() == crate::fence::Backend::Membarrier;
    let owner = Owner { thread: crate::sys::thread::tid().unsigned_abs(), site };
    // SAFETY: `exit` wants a reader.
    let arm = |reader| unsafe { shared.at_exit.arm(ptr::from_ref::<Reader>(reader).cast_mut().cast()) };
    let registry = shared.readers().registry();
    D::with_thread_state(|local| {
        let reader = local.registration.register(registry, owner, light_is_free, arm)?;
        local.queue.set(Some(registry.attached_to(reader)));
        Ok(reader)
    })
}

/// Gives the reader back of a thread whose destructor has run, if nothing needs it any more: see [`Registration`].
#[cold]
pub(crate) fn leave_if_ended<D: StaticDomain>() {
    let shared = D::shared();
    D::with_thread_state(|local| {
        if !local.has_handle.get() {
            let registry = shared.readers().registry();
            local.registration.leave_if_ended(registry, |reader| {
                local.queue.set(None);
                shared.core.callbacks.report(registry.attached_to(reader));
            });
        }
    });
}

/// The end of a registered thread.
///
/// # Safety
///
/// `reader` comes from [`register`].
unsafe extern "C" fn exit<D: StaticDomain>(reader: *mut c_void) {
    // SAFETY: the reader comes from `register`; readers are never freed.
    let reader: &'static Reader = unsafe { &*reader.cast::<Reader>() };
    // Not ours: in the child of a fork glibc gives new threads the memory of those that the parent had, and forgets to clear
    // the pointers of one that was about to call its destructors. Or given back already, by a destructor.
    if !is_own::<D>(reader) {
        return;
    }
    deferred::end_of_owner(&D::INSTANCE, queue_of::<D>(reader));
    D::with_thread_state(|local| local.registration.end());
    leave_if_ended::<D>();
}

/// Makes the domain that of a process with one thread, whose reader stays as it is.
fn reset_in_child<D: StaticDomain>() {
    let shared = D::shared();
    let own = registered_reader::<D>();
    // SAFETY: called by a `ForkHook::child`.
    unsafe {
        shared.readers().reset_in_child(own);
        shared.core.reset_in_child();
    }
    if let Some(own) = own {
        own.set_tid(crate::sys::thread::tid().unsigned_abs());
    }
}

/// [`RawDomain::defer`], in the queue of the calling thread.
#[inline]
#[track_caller]
fn defer_here<D: StaticDomain>(entry: Callback, lazy: bool) {
    match D::with_thread_state(|local| local.queue.get()) {
        None => with_new_reader::<D, _>(|reader| defer_to::<D>(queue_of::<D>(reader), entry, lazy)),
        Some(queue) => defer_to::<D>(queue, entry, lazy),
    }
}

/// [`defer_here`], in `queue`, which is the calling thread's.
#[inline]
fn defer_to<D: StaticDomain>(queue: &'static Queue, entry: Callback, lazy: bool) {
    // SAFETY: the queue is this thread's.
    let chores = unsafe { queue.push(entry, lazy) };
    D::shared().core.callbacks.notify(lazy, &D::INSTANCE);
    if chores != PushAction::None {
        deferred::flush(&D::INSTANCE, queue, chores);
    }
}

/// The queue that belongs to the reader.
pub(crate) fn queue_of<D: StaticDomain>(reader: &Reader) -> &'static Queue {
    D::shared().readers().registry().attached_to(reader)
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

/// A type without data, and the state of a domain. The caller says of what kind; all else follows from that here, as a macro's
/// `unsafe` is not seen by the lint that forbids it to the program which calls the macro.
#[doc(hidden)]
#[macro_export]
macro_rules! static_domain {
    (@kind rcu) => { $crate::rcu::Memb };
    (@kind qsbr) => { $crate::qsbr::Qsbr };
    (@section rcu $name:ident) => { $crate::rcu::Guard<$name> };
    (@section qsbr $name:ident) => { $crate::qsbr::Handle<$name> };
    (@within rcu $name:ident $f:ident) => {
        $f(::core::option::Option::Some(&<$name as $crate::rcu::RcuDomain>::enter()))
    };
    (@within qsbr $name:ident $f:ident) => { $f(::core::option::Option::None) };
    (@own rcu $name:ident) => {
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

            /// Returns `true` inside a read-side critical section of the domain.
            pub fn in_read_section() -> bool {
                <Self as $crate::rcu::RcuDomain>::in_read_section()
            }
        }
    };
    (@own qsbr $name:ident) => {
        // SAFETY: as above.
        unsafe impl $crate::qsbr::QsbrDomain for $name {}

        #[allow(dead_code)]
        impl $name {
            /// Registers the calling thread, which is online from now on.
            #[track_caller]
            pub fn register() -> $crate::qsbr::Handle<Self> {
                <Self as $crate::qsbr::QsbrDomain>::register()
            }

            /// [`register`](Self::register), which returns an error instead of panicking.
            #[track_caller]
            pub fn try_register() -> ::core::result::Result<$crate::qsbr::Handle<Self>, $crate::qsbr::RegisterError> {
                <Self as $crate::qsbr::QsbrDomain>::try_register()
            }

            /// Returns `true` if the calling thread has a handle that is online.
            pub fn is_online() -> bool {
                <Self as $crate::qsbr::QsbrDomain>::is_online()
            }
        }
    };
    ($kind:tt $(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name;

        // SAFETY: the statics below belong to this type alone. A guard of `rcu` is an open section; a handle of `qsbr` that is
        // borrowed cannot report.
        unsafe impl $crate::rcu::StaticDomain for $name {
            const INSTANCE: Self = Self;
            const MESSAGES: &'static $crate::rcu::Messages = &$crate::$kind::MESSAGES;
            type Protocol = $crate::static_domain!(@kind $kind);
            type Section = $crate::static_domain!(@section $kind $name);

            #[inline(always)]
            fn shared() -> &'static $crate::rcu::DomainState<Self::Protocol> {
                static SHARED: $crate::rcu::DomainState<<$name as $crate::rcu::StaticDomain>::Protocol> =
                    $crate::rcu::DomainState::new::<$name>();
                &SHARED
            }

            #[inline(always)]
            fn with_thread_state<R>(f: impl FnOnce(&$crate::rcu::ThreadState) -> R) -> R {
                ::std::thread_local! {
                    static LOCAL: $crate::rcu::ThreadState = const { $crate::rcu::ThreadState::new() };
                }
                LOCAL.with(f)
            }

            fn with_section<R>(f: impl FnOnce(::core::option::Option<&Self::Section>) -> R) -> R {
                $crate::static_domain!(@within $kind $name f)
            }
        }

        $crate::static_domain!(@own $kind $name);
    };
}
