//! Domains: separate worlds of readers and grace periods, told apart by type.

use core::cell::Cell;
use core::ffi::c_void;
use core::panic::Location;
use core::ptr::{self, NonNull};
use std::io::Write;

use super::callbacks::Limits;
use super::deferred::{self, Hints};
use super::fork::Fork;
use super::guard::Guard;
use super::queue::Chores;
use super::reader::{Exit, Owner, Reader};
use super::registration::{self, Registration};
use super::stats::Stats;
use super::threads::{Healed, Kind, Sections, Threads};
use super::world::{self, Core, Static, Words};
use crate::sys::at_exit::AtThreadExit;

/// A domain: readers, and the grace periods that wait for them and for nobody else.
///
/// Most programs need only [`Global`], which the functions of [`crate::rcu`] use. A domain of its own, made by
/// [`domain!`](crate::domain), keeps the long sections of one part of a program from delaying another part. It is a type
/// without data: a guard of one domain does not open a pointer of another, at no cost at run time.
///
/// ```
/// use stillpoint::rcu::{Domain, Rcu};
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
pub unsafe trait Domain: Static<Kind = Sections, Section = Guard<Self>> {
    /// Begins a read-side section: see [`rcu::enter`](super::enter).
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

    /// Waits for a grace period: see [`rcu::synchronize`](super::synchronize).
    fn synchronize() {
        world::synchronize(&Self::INSTANCE);
    }

    /// Calls `f` after a grace period, in a worker thread: see [`rcu::call`](super::call).
    #[track_caller]
    fn call(f: impl FnOnce() + Send + 'static) {
        Self::call_with(f, Hints::new());
    }

    /// [`call`](Self::call), with [`Hints`].
    #[track_caller]
    fn call_with(f: impl FnOnce() + Send + 'static, hints: Hints) {
        deferred::call(&Self::INSTANCE, f, hints);
    }

    /// Drops `value` after a grace period: see [`rcu::retire`](super::retire).
    #[inline]
    #[track_caller]
    fn retire<T: Send + 'static>(value: Box<T>) {
        Self::retire_with(value, Hints::new());
    }

    /// [`retire`](Self::retire), with [`Hints`].
    #[inline]
    #[track_caller]
    fn retire_with<T: Send + 'static>(value: Box<T>, hints: Hints) {
        // SAFETY: the pointer comes from the box, which the caller has given up.
        unsafe { Self::retire_raw(NonNull::from(Box::leak(value)), hints) };
    }

    /// [`retire`](Self::retire) for many values.
    #[track_caller]
    fn retire_all<T: Send + 'static>(values: impl IntoIterator<Item = Box<T>>) {
        values.into_iter().for_each(Self::retire);
    }

    /// [`retire`](Self::retire) for a value that readers still hold references to, so that it must not be a `Box`, which
    /// claims to be the only one.
    ///
    /// # Safety
    ///
    /// `value` comes from a `Box`. Nobody frees it otherwise, and nobody uses it after the sections that are open now.
    #[inline]
    #[track_caller]
    unsafe fn retire_raw<T: Send + 'static>(value: NonNull<T>, hints: Hints) {
        // SAFETY: the caller's contract.
        unsafe { deferred::retire(&Self::INSTANCE, value, hints) };
    }

    /// Waits until all that was deferred before has been done: see [`rcu::barrier`](super::barrier).
    fn barrier() {
        deferred::barrier(&Self::INSTANCE);
    }

    /// How much may wait: see [`rcu::set_limits`](super::set_limits).
    fn set_limits(limits: Limits) {
        Self::shared().core.callbacks.set_limits(limits);
    }

    /// Registers the calling thread now: see [`rcu::register`](super::register).
    #[track_caller]
    fn register() {
        own_reader::<Self>();
        leave_if_ended::<Self>();
    }

    /// Whether the calling thread is inside a section.
    fn is_inside() -> bool {
        is_reading::<Self>()
    }

    /// Counters since the start of the process.
    fn stats() -> Stats {
        Stats::of(&Self::INSTANCE)
    }
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
            at_exit: AtThreadExit::new(part::<D>),
        }
    }

    #[inline(always)]
    pub(crate) fn readers(&self) -> &Threads<K> {
        self.core.engine.readers()
    }
}

/// What users of [`Domain`] are told.
#[doc(hidden)]
pub static WORDS: Words = Words {
    inside: "synchronize() inside a read-side section of the same domain would wait for itself: drop the guard first",
    inside_barrier: "barrier() inside a read-side section of the same domain would wait for itself: drop the guard first",
    orphaned: "synchronize() would wait for ever: a thread ended inside a read-side section of this domain (its guard was \
               leaked)",
    ends: "with a leaked guard, inside a read-side section",
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
fn enter_slow<D: Domain>() -> Guard<D> {
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
        None => match register::<D>(Location::caller()) {
            Ok(reader) => reader,
            Err(why) => panic!("cannot register a reader thread: {why}"),
        },
    }
}

/// Calls `f` with the calling thread's reader, which it has not had; nothing if it cannot be registered.
#[cold]
#[track_caller]
pub(super) fn with_new_reader<D: Static, R>(f: impl FnOnce(Option<&'static Reader>) -> R) -> R {
    let reader = register::<D>(Location::caller()).ok();
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
    // SAFETY: `part` wants a reader.
    let arm = |reader| unsafe { shared.at_exit.arm(ptr::from_ref::<Reader>(reader).cast_mut().cast()) };
    let registry = shared.readers().registry();
    D::with_local(|local| local.registration.register(registry, owner, light_is_free, arm))
}

/// Gives the reader back of a thread whose destructor has run, if nothing needs it any more.
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
    if D::shared().readers().attend(reader) == Healed::Yes {
        // What is deferred can be done again. The reader may be another thread's by now.
        return deferred::notify(&D::INSTANCE);
    }
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
pub(super) fn repin_slow<D: Domain>(reader: &'static Reader) {
    // A late guard of a thread that was given up gives the reader back when it leaves.
    if !reader.must_reclaim() || reader.is_orphaned() {
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
unsafe extern "C" fn part<D: Static>(reader: *mut c_void) {
    // SAFETY: the reader comes from `register`; readers are never freed.
    let reader: &'static Reader = unsafe { &*reader.cast::<Reader>() };
    let shared = D::shared();
    // Not ours: in the child of a fork glibc gives new threads the memory of those that the parent had, and forgets to clear
    // the pointers of one that was about to call its destructors.
    let (readers, callbacks) = (shared.readers(), &shared.core.callbacks);
    if is_own::<D>(reader) {
        deferred::end_of_owner(&D::INSTANCE, reader.queue);
    }
    if D::with_local(|local| local.registration.part(reader, readers, callbacks)) == Some(false) {
        let tid = crate::sys::signal::tid();
        let domain = core::any::type_name::<D>();
        // Not `eprintln!`, which panics if it cannot write.
        let _ = writeln!(
            std::io::stderr(),
            "stillpoint: thread {tid} ends {} of {domain}: grace periods of this domain cannot be completed until that is \
             dropped",
            D::WORDS.ends
        );
    }
}

/// Makes the domain that of a process with one thread, whose reader stays as it is.
fn reset_in_child<D: Static>() {
    let shared = D::shared();
    let own = registered_reader::<D>();
    // SAFETY: called in the child of a fork; the calling thread is in no function of the queues, but for those that run code
    // of the program, which could fork: they look whether it has.
    unsafe {
        shared.readers().reset_in_child(own);
        shared.core.reset_in_child();
    }
    if let Some(own) = own {
        own.is_thread(crate::sys::signal::tid().unsigned_abs());
    }
}

/// Defines an isolated [`Domain`](crate::rcu::Domain): a type without data, with readers and grace periods of its own.
///
/// ```
/// use stillpoint::rcu::Domain;
///
/// stillpoint::domain! {
///     /// Sessions of the connection table.
///     pub struct Sessions;
/// }
///
/// drop(Sessions::enter());
/// Sessions::synchronize();
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
        $f(::core::option::Option::Some(&<$name as $crate::rcu::Domain>::enter()))
    };
    (@within qsbr $name:ident $f:ident) => { $f(::core::option::Option::None) };
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

        // SAFETY: as above.
        unsafe impl $crate::$kind::Domain for $name {}
    };
}

crate::domain! {
    /// The domain of the functions of [`crate::rcu`].
    pub struct Global;
}
