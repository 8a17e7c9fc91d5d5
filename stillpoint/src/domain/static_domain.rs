//! Domains: separate worlds of readers and grace periods, told apart by type.

use core::cell::Cell;
use core::ffi::c_void;
use core::ops::Deref;
use core::panic::Location;
use core::ptr;

use super::api::Domain;
use super::deferred;
use super::fork::Fork;
use super::raw::{Core, HasReaders, Words, World};
use crate::readers::reader::{Owner, Reader};
use crate::readers::registration::Registration;
use crate::readers::threads::{Kind, Threads};
use crate::reclaim::callback::Entry;
use crate::reclaim::queue::{Chores, Queue};
use crate::sys::tls_destructor::AtThreadExit;

/// The readers of a domain whose readers belong to threads.
pub(crate) type ThreadsWithQueues<K> = Threads<K, Queue>;

/// A domain that is a type without data.
///
/// # Safety
///
/// Each type has a [`Shared`] and a [`Local`] of its own. While a `Section` is borrowed, no grace period of the domain
/// ends that began meanwhile.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a domain",
    note = "a domain is `rcu::Global`, `qsbr::Global`, a type made by `domain!`, or a `srcu::Domain` itself: a clone of it, \
            not a reference"
)]
pub unsafe trait Static: Copy + Send + Sync + Unpin + 'static {
    /// The only value.
    const INSTANCE: Self;
    const WORDS: &'static Words;
    type Kind: Kind;
    type Section;

    fn shared() -> &'static Shared<Self::Kind>;

    fn with_local<T>(f: impl FnOnce(&Local) -> T) -> T;

    fn with_section<T>(f: impl FnOnce(Option<&Self::Section>) -> T) -> T;
}

impl<D: Static> HasReaders for D {
    type Readers = ThreadsWithQueues<D::Kind>;
    type Queues = ThreadsWithQueues<D::Kind>;
}

// SAFETY: sections of other domains are of other types; guards and handles keep grace periods from ending.
unsafe impl<D: Static> World for D {
    type Lender = D::Section;
    type Kept = Here<D>;

    fn words(&self) -> &'static Words {
        D::WORDS
    }

    #[inline(always)]
    fn core(&self) -> &Core<ThreadsWithQueues<D::Kind>> {
        &D::shared().core
    }

    fn queues(&self) -> &ThreadsWithQueues<D::Kind> {
        D::shared().readers()
    }

    unsafe fn keep(&self) -> Here<D> {
        Here(D::INSTANCE)
    }

    #[inline]
    fn own(&self) -> Option<&'static Reader> {
        registered_reader::<D>()
    }

    fn is_reading(&self) -> bool {
        is_reading::<D>()
    }

    fn enlist(&self) {
        D::shared().fork.enlist();
    }

    #[inline]
    #[track_caller]
    fn defer(&self, entry: Entry, lazy: bool) {
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
pub(crate) struct Here<D>(D);

impl<D> Deref for Here<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.0
    }
}

impl<D: Static> Domain for D {
    type Section = D::Section;
}

/// What all threads share of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct Shared<K> {
    pub(crate) core: Core<ThreadsWithQueues<K>>,
    pub(crate) fork: Fork,
    at_exit: AtThreadExit,
}

impl<K: Kind> Shared<K> {
    pub const fn new<D: Static<Kind = K>>() -> Self {
        Self {
            core: Core::new(Threads::new(), core::any::type_name::<D>),
            fork: Fork::new(reset_in_child::<D>, is_reading::<D>),
            at_exit: AtThreadExit::new(exit::<D>),
        }
    }

    #[inline(always)]
    pub(crate) fn readers(&self) -> &ThreadsWithQueues<K> {
        self.core.engine.readers()
    }
}

/// What a thread knows of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct Local {
    pub(crate) registration: Registration,
    /// Its queue, while it is registered.
    queue: Cell<Option<&'static Queue>>,
    /// It has a [`Handle`](crate::qsbr::Handle), online or not.
    pub(crate) has_handle: Cell<bool>,
}

impl Local {
    pub const fn new() -> Self {
        Self { registration: Registration::new(), queue: Cell::new(None), has_handle: Cell::new(false) }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
pub(crate) fn registered_reader<D: Static>() -> Option<&'static Reader> {
    D::with_local(|local| local.registration.reader())
}

/// Whether `reader` is the calling thread's.
pub(crate) fn is_own<D: Static>(reader: &Reader) -> bool {
    registered_reader::<D>().is_some_and(|own| ptr::eq(own, reader))
}

/// Whether the calling thread is inside a section of the domain.
pub(crate) fn is_reading<D: Static>() -> bool {
    registered_reader::<D>().is_some_and(Reader::is_inside)
}

/// The calling thread's reader; registers the thread if need be.
#[track_caller]
pub(crate) fn own_reader<D: Static>() -> &'static Reader {
    match registered_reader::<D>() {
        Some(reader) => reader,
        None => new_reader::<D>(),
    }
}

/// A reader for the calling thread, which has none.
#[track_caller]
fn new_reader<D: Static>() -> &'static Reader {
    match register::<D>(Location::caller()) {
        Ok(reader) => reader,
        Err(why) => panic!("cannot register a reader thread: {why}"),
    }
}

/// Calls `f` with a reader for the calling thread, which has none.
#[cold]
#[track_caller]
pub(crate) fn with_new_reader<D: Static, R>(f: impl FnOnce(&'static Reader) -> R) -> R {
    let reader = new_reader::<D>();
    let result = while_it_stays::<D, _>(|| f(reader));
    leave_if_ended::<D>();
    result
}

/// Calls `f`, during which the thread's reader is not given back, and which does not unwind.
pub(crate) fn while_it_stays<D: Static, R>(f: impl FnOnce() -> R) -> R {
    // Not inside `with_local`: `f` may look there.
    let stayed = D::with_local(|local| local.registration.stays(true));
    let result = f();
    D::with_local(|local| local.registration.stays(stayed));
    result
}

#[cold]
pub(crate) fn register<D: Static>(site: &'static Location<'static>) -> Result<&'static Reader, &'static str> {
    let shared = D::shared();
    shared.fork.enlist();
    // Chooses the backend of the fence, before this thread can be a reader.
    crate::fence::register_thread();
    let light_is_free = crate::fence::backend() == crate::fence::Backend::Membarrier;
    let owner = Owner { thread: crate::sys::signal::tid().unsigned_abs(), site };
    // SAFETY: `exit` wants a reader.
    let arm = |reader| unsafe { shared.at_exit.arm(ptr::from_ref::<Reader>(reader).cast_mut().cast()) };
    let registry = shared.readers().registry();
    D::with_local(|local| {
        let reader = local.registration.register(registry, owner, light_is_free, arm)?;
        local.queue.set(Some(registry.attached_to(reader)));
        Ok(reader)
    })
}

/// Gives the reader back of a thread whose destructor has run, if nothing needs it any more: see [`Registration`].
#[cold]
pub(crate) fn leave_if_ended<D: Static>() {
    let shared = D::shared();
    D::with_local(|local| {
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
unsafe extern "C" fn exit<D: Static>(reader: *mut c_void) {
    // SAFETY: the reader comes from `register`; readers are never freed.
    let reader: &'static Reader = unsafe { &*reader.cast::<Reader>() };
    // Not ours: in the child of a fork glibc gives new threads the memory of those that the parent had, and forgets to clear
    // the pointers of one that was about to call its destructors. Or given back already, by a destructor.
    if !is_own::<D>(reader) {
        return;
    }
    deferred::end_of_owner(&D::INSTANCE, queue_of::<D>(reader));
    D::with_local(|local| local.registration.end());
    leave_if_ended::<D>();
}

/// Makes the domain that of a process with one thread, whose reader stays as it is.
fn reset_in_child<D: Static>() {
    let shared = D::shared();
    let own = registered_reader::<D>();
    // SAFETY: called by a `ForkHook::child`.
    unsafe {
        shared.readers().reset_in_child(own);
        shared.core.reset_in_child();
    }
    if let Some(own) = own {
        own.is_thread(crate::sys::signal::tid().unsigned_abs());
    }
}

/// [`World::defer`], in the queue of the calling thread.
#[inline]
#[track_caller]
fn defer_here<D: Static>(entry: Entry, lazy: bool) {
    match D::with_local(|local| local.queue.get()) {
        None => with_new_reader::<D, _>(|reader| defer_to::<D>(queue_of::<D>(reader), entry, lazy)),
        Some(queue) => defer_to::<D>(queue, entry, lazy),
    }
}

/// [`defer_here`], in `queue`, which is the calling thread's.
#[inline]
fn defer_to<D: Static>(queue: &'static Queue, entry: Entry, lazy: bool) {
    // SAFETY: the queue is this thread's.
    let chores = unsafe { queue.push(entry, lazy) };
    D::shared().core.callbacks.notify(lazy, &D::INSTANCE);
    if chores != Chores::None {
        deferred::settle(&D::INSTANCE, queue, chores);
    }
}

/// The queue that belongs to the reader.
pub(crate) fn queue_of<D: Static>(reader: &Reader) -> &'static Queue {
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
    (@kind rcu) => { $crate::rcu::Sections };
    (@kind qsbr) => { $crate::qsbr::Reports };
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
        unsafe impl $crate::rcu::Static for $name {
            const INSTANCE: Self = Self;
            const WORDS: &'static $crate::rcu::Words = &$crate::$kind::WORDS;
            type Kind = $crate::static_domain!(@kind $kind);
            type Section = $crate::static_domain!(@section $kind $name);

            #[inline(always)]
            fn shared() -> &'static $crate::rcu::Shared<Self::Kind> {
                static SHARED: $crate::rcu::Shared<<$name as $crate::rcu::Static>::Kind> =
                    $crate::rcu::Shared::new::<$name>();
                &SHARED
            }

            #[inline(always)]
            fn with_local<R>(f: impl FnOnce(&$crate::rcu::Local) -> R) -> R {
                ::std::thread_local! {
                    static LOCAL: $crate::rcu::Local = const { $crate::rcu::Local::new() };
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
