//! Domains: separate worlds of readers and grace periods, told apart by type.

use core::cell::Cell;
use core::ffi::c_void;
use core::panic::Location;
use core::ptr;

use super::deferred;
use super::fork::Fork;
use super::guard::Guard;
use super::queue::Chores;
use super::reader::{Exit, Owner, Reader};
use super::registration::{self, Registration};
use super::threads::{Kind, Sections, Threads};
use super::world::{Core, Static, Words};
use crate::sys::at_exit::AtThreadExit;

/// A domain: readers, and the grace periods that wait for them and for nobody else.
///
/// Most programs need only [`Global`], which the functions of [`crate::rcu`] use. A domain of its own, made by
/// [`domain!`](crate::domain), keeps the long sections of one part of a program from delaying another part. It is a type
/// without data: a guard of one domain does not open a pointer of another, at no cost at run time.
///
/// ```
/// use stillpoint::rcu::Rcu;
///
/// stillpoint::domain! {
///     /// Routing tables.
///     pub struct Routes;
/// }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let guard = Routes::enter();
/// assert_eq!(table.load(&guard).len(), 3);
/// ```
///
/// A guard of the wrong domain is refused by the compiler:
///
/// ```compile_fail,E0308
/// use stillpoint::rcu::{self, Rcu};
///
/// stillpoint::domain! { pub struct Routes; }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let guard = rcu::enter();
/// table.load(&guard);
/// ```
///
/// # Safety
///
/// Implemented by [`domain!`](crate::domain) only, which gives each type its own state.
pub unsafe trait RcuDomain: Static<Kind = Sections, Section = Guard<Self>> {
    /// Begins a read-side critical section: see [`rcu::enter`](super::enter).
    #[inline]
    #[track_caller]
    fn enter() -> Guard<Self> {
        let reader = Self::with_local(|local| local.registration.fast());
        if registration::try_enter(reader, Self::shared().readers().counter()) {
            Guard::new(reader)
        } else {
            enter_slow()
        }
    }

    /// Registers the calling thread now: see [`rcu::register`](super::register).
    #[track_caller]
    fn register() {
        own_reader::<Self>();
        leave_if_ended::<Self>();
    }

    /// Returns `true` inside a read-side critical section.
    fn in_read_section() -> bool {
        is_reading::<Self>()
    }
}

/// How the worker of a domain waits for grace periods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// Like everybody else, with [`fence::heavy`](crate::fence::heavy).
    #[default]
    Prompt,
    /// Without interrupting other CPUs, which takes tens of milliseconds (`MEMBARRIER_CMD_GLOBAL`): for programs whose
    /// readers run on isolated CPUs. A caller of [`synchronize`](super::synchronize) who comes while the worker leads a grace
    /// period waits as long. Where the kernel cannot do it (`nohz_full`), or another backend of the fence is in use, as
    /// `Prompt`.
    NoInterrupts,
}

/// What all threads share of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct Shared<K> {
    pub(crate) core: Core<Threads<K>>,
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
    pub(crate) fn readers(&self) -> &Threads<K> {
        self.core.engine.readers()
    }
}

/// What users of [`RcuDomain`] are told.
#[doc(hidden)]
pub static WORDS: Words = Words {
    inside: "synchronize() inside a read-side section of the same domain would wait for itself: drop the guard first",
    inside_barrier: "barrier() inside a read-side section of the same domain would wait for itself: drop the guard first",
};

/// What a thread knows of a domain.
#[doc(hidden)]
#[derive(Debug)]
pub struct Local {
    registration: Registration,
    /// It has a [`Handle`](crate::qsbr::Handle), online or not.
    pub(crate) has_handle: Cell<bool>,
}

impl Local {
    pub const fn new() -> Self {
        Self { registration: Registration::new(), has_handle: Cell::new(false) }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

/// Begins a section in a thread that is not registered, or in which a light fence is a real one.
#[cold]
#[track_caller]
fn enter_slow<D: RcuDomain>() -> Guard<D> {
    let reader = own_reader::<D>();
    registration::enter_slow(reader, D::shared().readers().counter());
    Guard::new(reader)
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
pub(super) fn is_reading<D: Static>() -> bool {
    registered_reader::<D>().is_some_and(Reader::is_inside)
}

/// The calling thread's reader; registers the thread if need be.
#[track_caller]
fn own_reader<D: Static>() -> &'static Reader {
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
pub(super) fn with_new_reader<D: Static, R>(f: impl FnOnce(&'static Reader) -> R) -> R {
    let reader = new_reader::<D>();
    let result = while_it_stays::<D, _>(|| f(reader));
    leave_if_ended::<D>();
    result
}

/// Calls `f`, during which the thread's reader is not given back, and which does not unwind.
fn while_it_stays<D: Static, R>(f: impl FnOnce() -> R) -> R {
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
    D::with_local(|local| local.registration.register(registry, owner, light_is_free, arm))
}

/// Gives the reader back of a thread whose destructor has run, if nothing needs it any more: see [`Registration`].
#[cold]
pub(crate) fn leave_if_ended<D: Static>() {
    let shared = D::shared();
    D::with_local(|local| {
        if !local.has_handle.get() {
            local.registration.leave_if_ended(shared.readers(), &shared.core.callbacks);
        }
    });
}

/// The slow way out of a section.
#[cold]
pub(super) fn attend<D: Static>(reader: &'static Reader) {
    D::shared().readers().attend(reader);
    if reader.take_reclaim() {
        // The reader stays the thread's meanwhile.
        while_it_stays::<D, _>(|| deferred::settle(&D::INSTANCE, reader.queue, Chores::All));
    }
    // A flag of the thread, not of the reader, which may be another's by now.
    if D::with_local(|local| local.registration.has_ended()) {
        leave_if_ended::<D>();
    }
}

/// The slow way of [`Guard::repin`], which is the only guard of its thread.
#[cold]
pub(super) fn repin_slow<D: RcuDomain>(reader: &'static Reader) {
    if !reader.must_reclaim() {
        return attend::<D>(reader);
    }
    // Inside, no grace period ends that this thread would wait for.
    while_it_stays::<D, _>(|| {
        if reader.leave() == Exit::Attention {
            attend::<D>(reader);
        }
        if !reader.try_enter(D::shared().readers().counter()) {
            // A destructor that has run here keeps a guard.
            reader.nest();
        }
    });
    crate::fence::light();
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
    deferred::end_of_owner(&D::INSTANCE, reader.queue);
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

crate::domain! {
    /// The domain of the functions of [`crate::rcu`].
    pub struct Global;
}
